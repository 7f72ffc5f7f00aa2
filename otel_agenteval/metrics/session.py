"""Scores of a session from the signals of its traces (PandaProbe, "Agent Reliability" and "Agent Consistency").

Both show 1.0 where nothing lowered them, and a missing signal cannot lower them: read the score together with its
coverage. Every sum is exact before it is rounded once, so the order of the traces does not matter.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from otel_agenteval.metrics.result import MetricResult, clamp
from otel_agenteval.metrics.signals import SIGNAL_NAMES, Signals, contribution, merge_weights
from otel_agenteval.model import Json

FLAG_ABOVE = 0.5
"""A trace is flagged when its risk is greater than this."""

MAX_RISK_SHARE = 0.1
"""Share of the single worst trace in the risk of a session; the rest is the mean of the tail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The counts that a session score rests on.

    `traces` are all of them, `scored` those whose signals entered, `evaluated` those among them for which a signal
    of non-zero weight entered. `present` counts the signals of non-zero weight in all traces, `expected` all signals
    that can exist for them, whatever their weight.
    """

    traces: int
    scored: int
    evaluated: int
    present: int
    expected: int

    @property
    def coverage(self) -> float | None:
        """Share of the expected signals that were present; None where none was expected."""
        return self.present / self.expected if self.expected else None


def agent_reliability(signals: Sequence[Signals | None], weights: Mapping[str, float] | None = None) -> MetricResult:
    """Score how far the worst traces of a session are from failure.

    The risk of a trace is its largest weighted signal risk, w (1 - signal). That of the session is 0.9 of the mean over
    the riskiest 15 % of the traces that have a signal (rounded up) and 0.1 of the largest; the score is 1 minus that.

    `evaluated` is the number of traces with a signal of non-zero weight; 0: score 1.0. Metadata: `traces`,
    `evaluated_traces` (with any signal), `skipped_traces`, `risks` (per trace), `flagged` (indexes of risks above 0.5),
    `max_risk`, `mean_top_k_risk`, `weights`. Raises ValueError for a signal or weight outside [0, 1] or unknown.
    """
    merged = merge_weights(weights)
    parts = [contribution(each, merged, index) for index, each in enumerate(_each(signals))]
    ranked = sorted((part.risk for part in parts if part.risk is not None), reverse=True)
    flagged: list[Json] = [index for index, part in enumerate(parts) if (part.risk or 0.0) > FLAG_ABOVE]
    tail = ranked[: tail_size(len(ranked))]
    return reliability_result(
        Basis(
            traces=len(parts),
            scored=len(ranked),
            evaluated=sum(part.present > 0 for part in parts),
            present=sum(part.present for part in parts),
            expected=len(SIGNAL_NAMES) * len(parts),
        ),
        merged,
        tail_sum=math.fsum(tail),
        max_risk=max(tail, default=0.0),
        flagged=len(flagged),
        details={"risks": [part.risk for part in parts], "flagged": flagged},
    )


def agent_consistency(signals: Sequence[Signals | None], weights: Mapping[str, float] | None = None) -> MetricResult:
    """Score how smoothly a session ran, over all of its traces that have a confidence.

    The uncertainty of a trace is w (1 - confidence), times 1 + the weighted risks of its other signals; the score is 1
    - its root mean square. So it is blind where confidence is 1.

    `evaluated` is the number of traces with confidence, where that has a weight; 0: score 1.0. Metadata: `traces`,
    `evaluated_traces`, `skipped_traces`, `uncertainties` (per trace), `rms`, `weights`. Raises as `agent_reliability`.
    """
    merged = merge_weights(weights)
    parts = [contribution(each, merged, index) for index, each in enumerate(_each(signals))]
    uncertainties = [part.uncertainty for part in parts if part.uncertainty is not None]
    return consistency_result(
        Basis(
            traces=len(parts),
            scored=len(uncertainties),
            evaluated=sum(part.confident for part in parts),
            present=sum(part.present for part in parts),
            expected=len(SIGNAL_NAMES) * len(parts),
        ),
        merged,
        sum_of_squares=math.fsum(each * each for each in uncertainties),
        details={"uncertainties": [part.uncertainty for part in parts]},
    )


def _each(signals: Sequence[Signals | None]) -> Sequence[Signals | None]:
    if isinstance(signals, str | Mapping) or not isinstance(signals, Sequence):
        raise ValueError(f"signals are {signals!r:.200}, not a sequence with those of each trace")
    return signals


def tail_size(traces: int) -> int:
    """Return 15 % of that many traces, rounded up. Computed in whole numbers, where 0.15 is exactly 3/20."""
    return -(-3 * traces // 20)


def reliability_result(
    basis: Basis,
    weights: Mapping[str, float],
    *,
    tail_sum: float,
    max_risk: float,
    flagged: int,
    details: Mapping[str, Json],
) -> MetricResult:
    """Return reliability from the sum of the `tail_size(basis.scored)` largest risks. `details` join the metadata."""
    if not basis.evaluated:
        return _nothing_evaluated(basis, weights, details)
    mean_top_k_risk = tail_sum / tail_size(basis.scored)
    risk = (1.0 - MAX_RISK_SHARE) * mean_top_k_risk + MAX_RISK_SHARE * max_risk
    share = f"{flagged} of {basis.evaluated} traces with signals above risk {FLAG_ABOVE}"
    return MetricResult(
        score=clamp(1.0 - risk),
        reason=f"{share}, the largest is {max_risk:.4f}",
        evaluated=basis.evaluated,
        coverage=basis.coverage,
        metadata={
            **_counts(basis, weights),
            **details,
            "max_risk": max_risk,
            "mean_top_k_risk": mean_top_k_risk,
        },
    )


def consistency_result(
    basis: Basis, weights: Mapping[str, float], *, sum_of_squares: float, details: Mapping[str, Json]
) -> MetricResult:
    """Return consistency from the sum of squared uncertainties. `details` join the metadata."""
    if not basis.evaluated:
        return _nothing_evaluated(basis, weights, details)
    rms = math.sqrt(sum_of_squares / basis.scored)
    return MetricResult(
        score=clamp(1.0 - rms),
        reason=f"root mean square uncertainty {rms:.4f} over {basis.scored} traces",
        evaluated=basis.evaluated,
        coverage=basis.coverage,
        metadata={**_counts(basis, weights), **details, "rms": rms},
    )


def _nothing_evaluated(basis: Basis, weights: Mapping[str, float], details: Mapping[str, Json]) -> MetricResult:
    return MetricResult(
        score=1.0,
        reason="no evaluable traces" if basis.traces else "no traces or signals to evaluate",
        evaluated=0,
        coverage=basis.coverage,
        metadata={**_counts(basis, weights), **details},
    )


def _counts(basis: Basis, weights: Mapping[str, float]) -> dict[str, Json]:
    return {
        "traces": basis.traces,
        "evaluated_traces": basis.scored,
        "skipped_traces": basis.traces - basis.scored,
        "weights": dict(weights),
    }
