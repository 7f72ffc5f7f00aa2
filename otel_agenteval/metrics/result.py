"""The result of every metric."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from otel_agenteval.model import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricResult:
    """A score in [0, 1], higher is better, with what it rests on. Nothing is rounded.

    `score` is None where the metric is undefined. `evaluated` counts the things that entered (pairs of texts,
    traces); at 0 the publication prescribes the score 1.0, which says that there was nothing to find fault with,
    not that all was well: whoever reports scores should report none. `coverage` is the share of the expected
    signals that were present, None where none were expected or the metric has no signals.
    """

    score: float | None
    reason: str
    evaluated: int
    coverage: float | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)


def clamp(value: float) -> float:
    """Return `value`, or the nearer end of [0, 1]."""
    return min(1.0, max(0.0, value))
