"""Settings of the callers: keys and client certificates, each with a name, scopes and a tenant."""

import hashlib
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, field_validator, model_validator

from agenteval_collector.config.values import Section, twice
from agenteval_collector.model.callers import DEFAULT_TENANT, Scope


class KeyConfig(Section):
    """A caller that is known by a key or by a client certificate. Of a key, only the digest is kept."""

    name: Annotated[str, Field(pattern=r"^[\w.@-]{1,64}$")]
    """The name of the caller in the audit log."""
    sha256: SecretStr | None = None
    """SHA-256 of the key, in 64 hexadecimal digits. An entry may have the key itself, as `key`, instead of it."""
    certificate: str | None = Field(default=None, min_length=1)
    """The common name of a client certificate that stands for this caller."""
    scopes: frozenset[Scope] = Field(default=frozenset(Scope), min_length=1)
    tenant: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,63}$")] = DEFAULT_TENANT

    @model_validator(mode="before")
    @classmethod
    def _hashed(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        if sum(given.get(way) is not None for way in ("key", "sha256", "certificate")) != 1:
            raise ValueError("give one of key, sha256 and certificate")
        if "key" not in given:
            return given
        # Only the digest goes into the settings: the key itself is not kept.
        rest = {name: value for name, value in given.items() if name != "key"}
        return {**rest, "sha256": digest_of(given["key"])}

    @field_validator("sha256")
    @classmethod
    def _is_a_digest(cls, digest: SecretStr | None) -> SecretStr | None:
        if digest is not None and not re.fullmatch("[0-9a-f]{64}", digest.get_secret_value()):
            raise ValueError("is not a SHA-256 in 64 lower-case hex digits")
        return digest


def digest_of(key: object) -> str:
    """Return the SHA-256 of a key in hexadecimal digits. Raises ValueError where `key` is no text, or an empty one."""
    if not isinstance(key, str):
        raise ValueError(f"a key is a text, not {type(key).__name__}: put it in quotes")
    if not key.strip():
        raise ValueError("the key is empty: give a text, or leave the entry out")
    # A key with a lone surrogate has no UTF-8, and must not raise another error here.
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _entries(given: Any) -> Any:
    """Turn each key that is given as a plain text into an entry, named by its place: `key-1`, `key-2` and so on."""
    if not isinstance(given, list | tuple):
        return given
    return [
        each if isinstance(each, dict | KeyConfig) else {"name": f"key-{place}", "key": each}
        for place, each in enumerate(given, 1)
    ]


def _are_distinct(entries: tuple[KeyConfig, ...]) -> tuple[KeyConfig, ...]:
    if repeated := twice([entry.name for entry in entries]):
        raise ValueError(f"two entries have the name {repeated[0]!r}")
    return entries


KeyConfigs = Annotated[tuple[KeyConfig, ...], BeforeValidator(_entries), AfterValidator(_are_distinct)]
