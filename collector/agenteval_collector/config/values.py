"""Kinds of values that settings hold, and what every group of settings is."""

import re
from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from otel_agenteval.loops.setting_values import seconds

_UNITS: Final = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30
}  # fmt: skip
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def _bytes(value: object) -> object:
    """Read a size with a unit: `512MiB`, `"2 GB"`; a number is left as it is."""
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value)
    if match is None or match[2].lower() not in _UNITS:
        raise ValueError("give a number of bytes, or one with kB, MB, GB, KiB, MiB or GiB")
    return round(float(match[1]) * _UNITS[match[2].lower()])


OffIsFalse: Final = BeforeValidator(lambda value: "off" if value is False else value)
"""Takes false for `off`, as which YAML reads a bare one."""
Share = Annotated[float, Field(ge=0, le=1)]
Bytes = Annotated[int, BeforeValidator(_bytes)]
Seconds = Annotated[float, BeforeValidator(seconds)]


def _address(value: str) -> str:
    host, _, port = value.rpartition(":")
    if not host or " " in value or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{value!r} is not host:port with a port from 0 (any free one) to 65535")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError(f"{value!r}: an IPv6 address stands in brackets, as [::1]:4317")
    return value


def _without_secrets(url: str | None) -> str | None:
    """Return a URL as it may be shown: without a user, a password, and what stands behind its question mark."""
    if url is None:
        return None
    head, at, host = url.rpartition("@")
    scheme = head.partition("//")[0]
    shown = f"{scheme}//**********@{host}" if at else url
    address, asked, _ = shown.partition("?")
    return f"{address}?**********" if asked else address


Url = Annotated[str | None, PlainSerializer(_without_secrets)]
"""An address that may hold a password; it is not shown."""
Address = Annotated[str, AfterValidator(_address)]
MIB = 1024 * 1024


def of_scheme(scheme: str, example: str) -> AfterValidator:
    """Return a check that a URL begins with `scheme`. What it says is without the value, which may hold a password."""

    def check(url: str | None) -> str | None:
        if url is not None and not url.startswith(scheme):
            raise ValueError(f"is not {scheme}{example}")
        return url

    return AfterValidator(check)


def twice(names: Sequence[str]) -> list[str]:
    """Return the names that occur more than once."""
    return sorted({name for name in names if names.count(name) > 1})


class Section(BaseModel):
    """A group of settings: frozen, and unknown keys and numbers without end are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class PriceConfig(Section):
    """The prices of a model, in US dollars per million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
