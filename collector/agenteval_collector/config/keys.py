"""Settings of the callers: keys and client certificates, each with a name, scopes and a tenant."""

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Final

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
    def _hashed(cls, entry: Any) -> Any:
        if not isinstance(entry, dict):
            return entry
        if sum(entry.get(way) is not None for way in ("key", "sha256", "certificate")) != 1:
            raise ValueError("give one of key, sha256 and certificate")
        if entry.get("sha256") in _guessable():
            raise ValueError(
                "sha256 is that of nothing, or of a key that anybody guesses: make one with `agenteval key`"
            )
        if "key" not in entry:
            return entry
        # Only the digest goes into the settings: the key itself is not kept.
        rest = {name: value for name, value in entry.items() if name != "key"}
        return {**rest, "sha256": digest_of(entry["key"])}

    @field_validator("sha256")
    @classmethod
    def _is_a_digest(cls, digest: SecretStr | None) -> SecretStr | None:
        if digest is not None and not re.fullmatch("[0-9a-f]{64}", digest.get_secret_value()):
            raise ValueError("is not a SHA-256 in 64 lower-case hex digits")
        return digest


def digest_of(key: object) -> str:
    """Return the SHA-256 of a key in hexadecimal digits. Raises ValueError if `key` is no text, or an empty one."""
    if not isinstance(key, str):
        raise ValueError(f"a key is a text, not {type(key).__name__}: put it in quotes")
    if not key.strip():
        raise ValueError("the key is empty: give a text, or leave the entry out")
    if _UNFILLED.fullmatch(key.strip()):
        raise ValueError(f"{key.strip()[:40]!r} is a variable that was not filled in: set it, or give the key itself")
    # A key with a lone surrogate has no UTF-8, and must not raise another error here.
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


_UNFILLED: Final = re.compile(r"\$\w+|\$?\{\{?\s*[\w.]+\s*\}?\}|%\w+%|<[\w -]+>")
"""A variable of a shell, a template, or a place for one."""


@cache
def _guessable() -> frozenset[str]:
    """Return the digests of nothing, and of keys of one or two characters.

    An unset variable in `printf %s "$KEY" | sha256sum` makes such a digest, and so does `echo` with its line break.
    """
    printed = [chr(code) for code in range(32, 127)]
    texts = ("", *printed, *(one + other for one in printed for other in printed))
    return frozenset(hashlib.sha256(f"{text}{end}".encode()).hexdigest() for text in texts for end in ("", "\n"))


def _entries(value: Any) -> Any:
    """Turn each key that is given as a plain text into an entry, named by its place: `key-1`, `key-2` and so on."""
    if not isinstance(value, list | tuple):
        return value
    return [
        entry if isinstance(entry, dict | KeyConfig) else {"name": f"key-{index}", "key": entry}
        for index, entry in enumerate(value, 1)
    ]


def _are_distinct(entries: tuple[KeyConfig, ...]) -> tuple[KeyConfig, ...]:
    if repeated := twice([entry.name for entry in entries]):
        raise ValueError(f"two entries have the name {repeated[0]!r}")
    if shared := shared_ways(entries):
        raise ValueError(shared)
    return entries


def shared_ways(entries: Sequence[KeyConfig]) -> str | None:
    """Return a sentence about two entries with the same key or certificate, of which one would never be found; None if
    there are no such entries."""
    ways: dict[tuple[str | None, str | None], str] = {}
    for entry in entries:
        way = entry.sha256.get_secret_value() if entry.sha256 is not None else None, entry.certificate
        if (other := ways.setdefault(way, entry.name)) != entry.name:
            what = "certificate" if entry.certificate is not None else "key"
            return f"{other!r} and {entry.name!r} have the same {what}: give each caller one of its own"
    return None


KeyConfigs = Annotated[tuple[KeyConfig, ...], BeforeValidator(_entries), AfterValidator(_are_distinct)]
