"""Scores of a session from the signals of its traces (PandaProbe, "Agent Reliability" and "Agent Consistency").

Both show 1.0 where nothing lowered them, and a missing signal cannot lower them: read the score together with its
coverage. Every sum is exact before it is rounded once, so the order of the traces does not matter.

`SessionScores` stays current while traces arrive and change, in time that does not grow with the session: the traces
are split into the riskiest 15 %, whose risks are kept as a sum, and the rest, and each trace that arrives or changes
moves a few across the border.
"""

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from otel_agenteval.metrics.result import MetricResult, clamp
from otel_agenteval.metrics.signals import SIGNAL_NAMES, Contribution, Signals, contribution, merge_weights
from otel_agenteval.metrics.tail import ExactSum, TailRisk, tail_size
from otel_agenteval.model import Json

FLAG_ABOVE = 0.5
"""A trace is flagged when its risk is greater than this."""

MAX_RISK_SHARE = 0.1
"""Share of the single worst trace in the risk of a session; the rest is the mean of the tail."""


class _Entry(NamedTuple):
    part: Contribution
    expected: int

    @property
    def is_flagged(self) -> bool:
        return self.part.risk is not None and self.part.risk > FLAG_ABOVE


class SessionScores:
    """`agent_reliability` and `agent_consistency` of one session, replaceable trace by trace.

    One `put` takes O(log n) time, amortised, for n traces so far; everything else constant time. Memory is
    proportional to the number of traces. Not thread-safe.
    """

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        """Start without traces. Raises ValueError for `weights` of an unknown name or outside [0, 1]."""
        self._weights = merge_weights(weights)
        self._traces: dict[Hashable, _Entry] = {}
        self._risks = TailRisk()
        self._flagged = 0
        self._squares = ExactSum()
        self._uncertain = 0
        self._evaluated = 0
        self._confident = 0
        self._present = 0
        self._expected = 0

    def put(self, trace_id: Hashable, signals: Signals, not_applicable: Collection[str] = ()) -> None:
        """Insert the signals of a trace, or replace them.

        `not_applicable` names signals that cannot exist for this trace: coverage does not expect them. Other
        names than those of signals are passed over. Raises ValueError, and changes nothing, for a signal outside
        [0, 1] and for one that is both present and not applicable.
        """
        part = contribution(signals, self._weights, trace_id)
        for name in SIGNAL_NAMES:
            if name in not_applicable and signals.get(name) is not None:
                raise ValueError(f"{name} of trace {trace_id!r} is both present and not applicable")
        self.remove(trace_id)
        entry = self._traces[trace_id] = _Entry(part, sum(name not in not_applicable for name in SIGNAL_NAMES))
        self._count(entry, +1)
        if part.risk is not None:
            self._risks.add(part.risk)

    def remove(self, trace_id: Hashable) -> None:
        """Remove a trace, if it is here."""
        removed = self._traces.pop(trace_id, None)
        if removed is not None:
            self._count(removed, -1)
            if removed.part.risk is not None:
                self._risks.remove(removed.part.risk)

    def reliability(self) -> MetricResult:
        """Return the same as `agent_reliability`, without the metadata of single traces. Coverage leaves out signals
        that are not applicable."""
        scored = len(self._risks)
        if not self._evaluated:
            return self._nothing_evaluated(scored)
        mean_top_k_risk, max_risk = self._risks.tail_sum / tail_size(scored), self._risks.largest
        share = f"{self._flagged} of {self._evaluated} traces with signals above risk {FLAG_ABOVE}"
        return MetricResult(
            score=clamp(1.0 - ((1.0 - MAX_RISK_SHARE) * mean_top_k_risk + MAX_RISK_SHARE * max_risk)),
            reason=f"{share}, the largest is {max_risk:.4f}",
            evaluated=self._evaluated,
            coverage=self._coverage,
            metadata={**self._counts(scored), "max_risk": max_risk, "mean_top_k_risk": mean_top_k_risk},
        )

    def consistency(self) -> MetricResult:
        """Return the same as `agent_consistency`, without the metadata of single traces. Coverage leaves out signals
        that are not applicable."""
        if not self._confident:
            return self._nothing_evaluated(self._uncertain)
        rms = math.sqrt(self._squares.value / self._uncertain)
        return MetricResult(
            score=clamp(1.0 - rms),
            reason=f"root mean square uncertainty {rms:.4f} over {self._uncertain} traces",
            evaluated=self._confident,
            coverage=self._coverage,
            metadata={**self._counts(self._uncertain), "rms": rms},
        )

    @property
    def entries(self) -> Collection[_Entry]:
        """Contributions of the traces, in the order in which they were put."""
        return self._traces.values()

    def _count(self, entry: _Entry, sign: int) -> None:
        part = entry.part
        self._evaluated += sign * (part.present > 0)
        self._confident += sign * part.confident
        self._present += sign * part.present
        self._expected += sign * entry.expected
        self._flagged += sign * entry.is_flagged
        if part.uncertainty is not None:
            self._uncertain += sign
            self._squares.add(part.uncertainty * part.uncertainty, sign)

    @property
    def _coverage(self) -> float | None:
        """Share of the expected signals that were present, whatever their weight; None where none was expected."""
        return self._present / self._expected if self._expected else None

    def _nothing_evaluated(self, scored: int) -> MetricResult:
        return MetricResult(
            score=1.0,
            reason="no evaluable traces" if self._traces else "no traces or signals to evaluate",
            evaluated=0,
            coverage=self._coverage,
            metadata=self._counts(scored),
        )

    def _counts(self, scored: int) -> dict[str, Json]:
        return {
            "traces": len(self._traces),
            "evaluated_traces": scored,
            "skipped_traces": len(self._traces) - scored,
            "weights": dict(self._weights),
        }


def agent_reliability(signals: Sequence[Signals | None], weights: Mapping[str, float] | None = None) -> MetricResult:
    """Score how far the worst traces of a session are from failure.

    The risk of a trace is its largest weighted signal risk, w (1 - signal). That of the session is 0.9 of the mean over
    the riskiest 15 % of the traces that have a signal (rounded up) and 0.1 of the largest; the score is 1 minus that.

    `evaluated` is the number of traces with a signal of non-zero weight; 0: score 1.0. Metadata: `traces`,
    `evaluated_traces` (with any signal), `skipped_traces`, `risks` (per trace), `flagged` (indexes of risks above 0.5),
    `max_risk`, `mean_top_k_risk`, `weights`. Raises ValueError for a signal or weight outside [0, 1] or unknown.
    """
    scores = _scores(signals, weights)
    result = scores.reliability()
    risks: list[Json] = [entry.part.risk for entry in scores.entries]
    flagged: list[Json] = [index for index, entry in enumerate(scores.entries) if entry.is_flagged]
    return replace(result, metadata={**result.metadata, "risks": risks, "flagged": flagged})


def agent_consistency(signals: Sequence[Signals | None], weights: Mapping[str, float] | None = None) -> MetricResult:
    """Score how smoothly a session ran, over all of its traces that have a confidence.

    The uncertainty of a trace is w (1 - confidence), times 1 + the weighted risks of its other signals; the score is 1
    - its root mean square. So it is blind where confidence is 1.

    `evaluated` is the number of traces with confidence, where that has a weight; 0: score 1.0. Metadata: `traces`,
    `evaluated_traces`, `skipped_traces`, `uncertainties` (per trace), `rms`, `weights`. Raises as `agent_reliability`.
    """
    scores = _scores(signals, weights)
    result = scores.consistency()
    uncertainties: list[Json] = [entry.part.uncertainty for entry in scores.entries]
    return replace(result, metadata={**result.metadata, "uncertainties": uncertainties})


def _scores(signals: Sequence[Signals | None], weights: Mapping[str, float] | None) -> SessionScores:
    if isinstance(signals, str | Mapping) or not isinstance(signals, Sequence):
        raise ValueError(f"signals are {signals!r:.200}, not a sequence with those of each trace")
    scores = SessionScores(weights)
    for index, each in enumerate(signals):
        scores.put(index, {} if each is None else each)
    return scores
