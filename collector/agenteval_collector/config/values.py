"""Kinds of values that settings hold, and what every group of settings is."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from otel_agenteval.loops.setting_values import seconds

Seconds = Annotated[float, BeforeValidator(seconds)]


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


class PriceConfig(Section):
    """The prices of a model, in US dollars per million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
