"""The result type of the metrics, and the checks of arguments."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from numbers import Real
from typing import TypeGuard, TypeVar

from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.model import Json

T = TypeVar("T")


def is_number(value: object) -> TypeGuard[float]:
    """Return whether the value is a real number. True and False are not."""
    # Most values are floats, and the check against an abstract class takes longer than all other work with them.
    return value.__class__ is float or (isinstance(value, Real) and not isinstance(value, bool))


def listed(values: Iterable[T], kind: type[T], what: str) -> list[T]:
    """Return the `values` as a list. Raises ValueError, with `what` in its message, unless all are of that kind."""
    items = None if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
    if items is None:
        raise ValueError(f"{what} are {values!r:.200}, not a sequence")
    for index, value in enumerate(items):
        if not isinstance(value, kind):
            raise ValueError(f"{what} have {value!r:.200} at place {index}, not a {kind.__name__}")
    return items


def unit_interval(value: object, what: str) -> float:
    """Return `value` as a float. Raises ValueError, with `what` in its message, unless it is a number in [0, 1]."""
    if not is_number(value) or not 0.0 <= float(value) <= 1.0:
        raise ValueError(f"{what} is {value!r}, not a number in [0, 1]")
    return float(value)


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class MetricResult:
    """A score in [0, 1], higher is better, with its evidence. Nothing is rounded.

    `score` is None if the metric is undefined. `evaluated` counts the items that entered the score, such as pairs of
    texts or traces. For 0 items the publication prescribes the score 1.0. That means that there was nothing to find
    fault with, not that all was well, so such a score should not be reported. `coverage` is the share of the expected
    signals that were present. It is None if no signal was expected or the metric has no signals.
    """

    score: float | None
    reason: str
    evaluated: int
    coverage: float | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)


def clamp(value: float) -> float:
    """Return `value`, or the nearer end of [0, 1]."""
    return min(1.0, max(0.0, value))
