"""Trend of a session: the rules for stall and regression.

Session scores weigh a trace by its risk, not by its place. So with noisy signals they are low for nearly every session.
The course of a session shows trouble better: the scores stay low without a gain, or fall from their best.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from otel_agenteval.metrics.result import listed, unit_interval

STALL_TRACES = 5
"""The number of traces over which a stalling session gains too little."""
STALL_GAIN = 0.02
"""The smallest gain over `STALL_TRACES` that is not a stall."""
STALL_BELOW = 0.5
"""The best score from which on a session does not stall."""
REGRESSION_DROP = 0.15
"""The drop from the best score to the last above which a session regresses."""

TOLERANCE = 1e-9
"""The tolerance for differences of scores, so that 0.9 - 0.75 does not exceed 0.15."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTrend:
    """The state of a session after its last scored trace.

    `stalled` is None before `STALL_TRACES` + 1 scores, `regressed` before two scores, because that is too early to say.
    `best` and `last` are None if no trace has a score. `evaluated` counts the traces with a score, `skipped` the traces
    without.
    """

    stalled: bool | None = None
    regressed: bool | None = None
    best: float | None = None
    last: float | None = None
    evaluated: int
    skipped: int
    reason: str


def session_trend(scores: Sequence[float | None]) -> SessionTrend:
    """Return whether a session stalls or regresses.

    `scores` has one score for each trace, oldest first, and None for a trace without one. Stalled: the best score is
    below 0.5, and less than 0.02 above the best score of 5 scored traces ago. Regressed: the last score is more than
    0.15 below the best. Raises ValueError for a score outside [0, 1].
    """
    numbers = listed(scores, object, "scores")
    values = [unit_interval(s, f"score of trace {index}") for index, s in enumerate(numbers) if s is not None]
    skipped = len(numbers) - len(values)
    if not values:
        return SessionTrend(evaluated=0, skipped=skipped, reason="no scored trace")
    best_so_far = list(accumulate(values, max))
    best, last = best_so_far[-1], values[-1]
    stalled = regressed = None
    findings = [f"{len(values)} scored traces, best {best:.4f}, last {last:.4f}"]
    # A gain over so many traces takes one score more, the one before them.
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
