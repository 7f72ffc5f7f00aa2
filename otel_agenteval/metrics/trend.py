"""Trend of a session: the rule of stall and regression.

Session scores weigh every trace by its risk and not by its place, so that with noisy signals they are low for nearly
every session. What tells a session in trouble is its course: it stays low without gaining, or falls from where it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from otel_agenteval.metrics.result import listed, unit_interval

STALL_TRACES = 5
"""A session stalls when it gains too little over this many traces..."""
STALL_GAIN = 0.02
"""...where a gain of this much is enough..."""
STALL_BELOW = 0.5
"""...while its best score is below this."""
REGRESSION_DROP = 0.15
"""A session regresses when its last score is more than this below its best."""

TOLERANCE = 1e-9
"""Differences of scores are compared with this tolerance: 0.9 - 0.75 is no more than 0.15."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTrend:
    """The state of a session after its last scored trace.

    `stalled` is None before `STALL_TRACES` + 1 scores, `regressed` before two: it cannot be said. `best` and `last`
    are None where no trace has a score. `evaluated` counts the traces with a score, `skipped` those without.
    """

    stalled: bool | None = None
    regressed: bool | None = None
    best: float | None = None
    last: float | None = None
    evaluated: int
    skipped: int
    reason: str


def session_trend(scores: Sequence[float | None]) -> SessionTrend:
    """Return whether a session stalls or regresses, from one score per trace, oldest first; None for a trace without.

    Stalled: the best score is below 0.5, and not 0.02 above what it was 5 scored traces ago. Regressed: the last score
    is more than 0.15 below the best. Raises ValueError for a score outside [0, 1].
    """
    given = listed(scores, object, "scores")
    values = [unit_interval(s, f"score of trace {index}") for index, s in enumerate(given) if s is not None]
    skipped = len(given) - len(values)
    if not values:
        return SessionTrend(evaluated=0, skipped=skipped, reason="no scored trace")
    best_so_far = list(accumulate(values, max))
    best, last = best_so_far[-1], values[-1]
    stalled = regressed = None
    findings = [f"{len(values)} scored traces, best {best:.4f}, last {last:.4f}"]
    if len(values) > STALL_TRACES:
        gain = best - best_so_far[-1 - STALL_TRACES]
        stalled = best < STALL_BELOW and gain < STALL_GAIN - TOLERANCE
        findings += [f"gained {gain:.4f} over the last {STALL_TRACES}"] * stalled
    if len(values) > 1:
        regressed = best - last > REGRESSION_DROP + TOLERANCE
        findings += [f"fell {best - last:.4f} below its best"] * regressed
    return SessionTrend(
        stalled=stalled,
        regressed=regressed,
        best=best,
        last=last,
        evaluated=len(values),
        skipped=skipped,
        reason="; ".join(findings),
    )
