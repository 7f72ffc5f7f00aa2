"""Types of the values in settings, and the base class of every group of settings."""

import re
from collections.abc import Sequence
from ipaddress import ip_network
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from otel_agenteval.loops.setting_values import seconds

_UNITS: Final = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30
}  # fmt: skip
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def _bytes(value: object) -> object:
    """Return a size with a unit, such as `512MiB` or `"2 GB"`, in bytes. Return a number as it is."""
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value)
    if match is None or match[2].lower() not in _UNITS:
        raise ValueError("give a number of bytes, or one with kB, MB, GB, KiB, MiB or GiB")
    return round(float(match[1]) * _UNITS[match[2].lower()])


OffIsFalse: Final = BeforeValidator(lambda value: "off" if value is False else value)
"""A validator that takes False for `off`, because YAML reads a bare `off` as false."""
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
    """Return a URL for display, with asterisks for its user and password, and for all behind its question mark."""
    if url is None:
        return None
    head, at, host = url.rpartition("@")
    scheme = head.partition("//")[0]
    redacted = f"{scheme}//**********@{host}" if at else url
    address, query, _ = redacted.partition("?")
    return f"{address}?**********" if query else address


Url = Annotated[str | None, PlainSerializer(_without_secrets)]
"""An address that may hold a password. The password is masked wherever settings are shown."""
Address = Annotated[str, AfterValidator(_address)]


def _header(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", value):
        raise ValueError(f"{value[:64]!r} is no name of a header: it has letters, digits and hyphens")
    return value.lower()


def _network(value: str) -> str:
    return str(ip_network(value))


Network = Annotated[str, AfterValidator(_network)]
"""A network of IP addresses, such as `10.0.0.0/8`; a single address is one too."""
Header = Annotated[str, AfterValidator(_header)]
"""The name of an HTTP header, in lower case."""
MIB = 1024 * 1024


def of_scheme(scheme: str, example: str) -> AfterValidator:
    """Return a validator of URLs that begin with `scheme`.

    Its message does not repeat the value, because a URL may hold a password.
    """

    def check(url: str | None) -> str | None:
        if url is not None and not url.startswith(scheme):
            raise ValueError(f"is not {scheme}{example}")
        return url

    return AfterValidator(check)


def twice(names: Sequence[str]) -> list[str]:
    """Return the names that occur more than once."""
    return sorted({name for name in names if names.count(name) > 1})


class Section(BaseModel):
    """A group of settings. It is frozen; unknown keys, infinite numbers and NaN are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class PriceConfig(Section):
    """The prices of a model, in US dollars per million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
