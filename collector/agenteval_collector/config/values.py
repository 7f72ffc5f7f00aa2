"""Kinds of values that settings hold, and what every group of settings is."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _seconds(value: object) -> object:
    """`2`, `"2"`, `"500ms"`, `"15 min"`, `"1h"` in seconds; pydantic refuses negative ones, and anything else."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*([a-z]*)\s*", value)
        if match and (match[2] or "s") in _UNITS:
            return float(match[1]) * _UNITS[match[2] or "s"]
    return value


Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0)]


def _address(value: str) -> str:
    host, _, port = value.rpartition(":")
    if not host or " " in value or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{value!r} is not host:port with a port from 0 (any free one) to 65535")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError(f"{value!r}: an IPv6 address stands in brackets, as [::1]:4317")
    return value


Address = Annotated[str, AfterValidator(_address)]
MIB = 1024 * 1024


class Section(BaseModel):
    """A group of settings: frozen, and unknown keys and numbers without end are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of both, at every level; where both have one, that of `above`."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = merge(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return merged
