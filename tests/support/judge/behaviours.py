"""The behaviours of a judge server, as data."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, TypeAlias

Refusable: TypeAlias = Literal["json_schema", "json_object", "temperature"]


class Wire(Enum):
    """The fate of the response's bytes."""

    WHOLE = "whole"
    HANGING = "hanging"
    """The request is taken, nothing is ever sent."""
    RESET = "reset"
    DRIPPING = "dripping"
    """A byte every 20 ms, of a body that is announced to be long."""
    HUGE = "huge"
    """A body without end."""
    HTML = "html"
    """A page instead of JSON."""
    CUT = "cut"
    """Half of the response's JSON, well delivered."""
    ERROR = "error_in_answer"
    """The error of the behaviour's status, delivered with status 200."""


class Content(Enum):
    """The fate of the reply's text."""

    VALID = "valid"
    TRUNCATED = "truncated"
    """Cut in the middle, with finish_reason `length`."""
    PROSE = "prose"
    FENCED = "fenced"
    """In a Markdown code fence."""
    WRONG_COUNTS = "wrong_counts"
    """Every array has one element too many."""
    OUT_OF_RANGE = "out_of_range"
    """Every number is 1000 more."""
    NAN = "nan"
    INFINITY = "infinity"
    MISSING = "missing"
    """The message has no content."""
    REFUSAL = "refusal"
    """The model declines, in the field that is there for it."""
    FILTERED = "filtered"
    NO_CHOICES = "no_choices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The way in which one request is answered; by default quickly and well. The fields can be combined.

    `wait` is seconds before the answer. A `status` other than 200 answers with that error, `error_code` in it.
    Where the request has one of `refuses`, it is answered with a 400 that names it. `model` is who claims to answer.
    `tokens` are the input and output tokens that it claims; None: about what there is. `body` is sent as it is.
    """

    wait: float = 0.0
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    error_code: str | None = None
    refuses: frozenset[Refusable] = frozenset()
    content: Content = Content.VALID
    wire: Wire = Wire.WHOLE
    usage: bool = True
    tokens: tuple[int, int] | None = None
    body: bytes | None = None
    model: str | None = None


OK = Behaviour()
SOON: Mapping[str, str] = {"retry-after-ms": "1"}
"""Asks the client to send it again at once, so that no test waits for its pauses."""

NAMED: Mapping[str, Behaviour] = {
    "ok": OK,
    "slow": Behaviour(wait=2.0),
    "failing": Behaviour(status=500, headers=SOON),
    "overloaded": Behaviour(status=503, headers=SOON),
    "rate_limited": Behaviour(status=429, headers={"Retry-After": "1"}),
    "unauthorized": Behaviour(status=401, error_code="invalid_api_key"),
    "schema_refused": Behaviour(refuses=frozenset({"json_schema"})),
    "json_refused": Behaviour(refuses=frozenset({"json_schema", "json_object"})),
    "temperature_refused": Behaviour(refuses=frozenset({"temperature"})),
    "no_usage": Behaviour(usage=False),
    **{content.value: Behaviour(content=content) for content in Content if content is not Content.VALID},
    **{wire.value: Behaviour(wire=wire) for wire in Wire if wire is not Wire.WHOLE},
}
"""For every request of a server that is started from the command line."""


def disturb(text: str, content: Content) -> str:
    """The reply's text as `content` says. Counts and numbers need `text` to be JSON."""
    return _DISTURBED[content](text) if content in _DISTURBED else text


def _changed(kind: type | tuple[type, ...], change: Callable[[Any], Any]) -> Callable[[str], str]:
    return lambda text: json.dumps(_mapped(json.loads(text), kind, change))


def _longer(values: list[Any]) -> list[Any]:
    return [*values, values[-1] if values else "one too many"]


def _mapped(value: Any, kind: type | tuple[type, ...], change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        value = {name: _mapped(part, kind, change) for name, part in value.items()}
    elif isinstance(value, list):
        value = [_mapped(part, kind, change) for part in value]
    # A bool is an int to Python, and none to JSON.
    return change(value) if isinstance(value, kind) and not isinstance(value, bool) else value


_NUMBER = (int, float)
_DISTURBED: Mapping[Content, Callable[[str], str]] = {
    Content.TRUNCATED: lambda text: text[: len(text) // 2],
    Content.PROSE: lambda text: "All in all the agent did well, and I would call it a success.",
    Content.FENCED: lambda text: f"Here you are:\n```json\n{text}\n```",
    Content.WRONG_COUNTS: _changed(list, _longer),
    Content.OUT_OF_RANGE: _changed(_NUMBER, lambda number: number + 1000),
    Content.NAN: _changed(_NUMBER, lambda number: math.nan),
    Content.INFINITY: _changed(_NUMBER, lambda number: math.inf),
}
