"""The session scores, kept current while traces arrive and change.

The plain functions read the whole session for one score. `SessionScores` gives bit for bit the same score after every
trace, in time that does not grow with the session: the traces are split into the riskiest 15 %, whose risks are kept
as a sum, and the rest, and each trace that arrives or changes moves a few across the border.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from otel_agenteval.metrics.result import MetricResult
from otel_agenteval.metrics.session import FLAG_ABOVE, Basis, consistency_result, reliability_result
from otel_agenteval.metrics.signals import SIGNAL_NAMES, Contribution, Signals, contribution, merge_weights
from otel_agenteval.metrics.tail import ExactSum, TailRisk


class SessionScores:
    """`agent_reliability` and `agent_consistency` of one session, replaceable trace by trace.

    One `put` takes O(log n) time, amortised, for n traces so far; everything else constant time. Memory is
    proportional to the number of traces. Not thread-safe.
    """

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        """Start without traces. Raises ValueError for `weights` of an unknown name or outside [0, 1]."""
        self._weights = merge_weights(weights)
        self._traces: dict[str, _Entry] = {}
        self._risks = TailRisk()
        self._flagged = 0
        self._squares = ExactSum()
        self._uncertain = 0
        self._evaluated = 0
        self._confident = 0
        self._present = 0
        self._expected = 0

    def put(self, trace_id: str, signals: Signals, not_applicable: Collection[str] = ()) -> None:
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

    def remove(self, trace_id: str) -> None:
        """Remove a trace, if it is here."""
        removed = self._traces.pop(trace_id, None)
        if removed is not None:
            self._count(removed, -1)
            if removed.part.risk is not None:
                self._risks.remove(removed.part.risk)

    def reliability(self) -> MetricResult:
        """Return the same as `agent_reliability`, without the metadata of single traces. Coverage leaves out signals
        that are not applicable."""
        return reliability_result(
            self._basis(scored=len(self._risks), evaluated=self._evaluated),
            self._weights,
            tail_sum=self._risks.tail_sum,
            max_risk=self._risks.largest,
            flagged=self._flagged,
            details={},
        )

    def consistency(self) -> MetricResult:
        """Return the same as `agent_consistency`, without the metadata of single traces. Coverage leaves out signals
        that are not applicable."""
        return consistency_result(
            self._basis(scored=self._uncertain, evaluated=self._confident),
            self._weights,
            sum_of_squares=self._squares.value,
            details={},
        )

    def _count(self, entry: "_Entry", sign: int) -> None:
        part = entry.part
        self._evaluated += sign * (part.present > 0)
        self._confident += sign * part.confident
        self._present += sign * part.present
        self._expected += sign * entry.expected
        self._flagged += sign * (part.risk is not None and part.risk > FLAG_ABOVE)
        if part.uncertainty is not None:
            self._uncertain += sign
            self._squares.add(part.uncertainty * part.uncertainty, sign)

    def _basis(self, *, scored: int, evaluated: int) -> Basis:
        return Basis(
            traces=len(self._traces),
            scored=scored,
            evaluated=evaluated,
            present=self._present,
            expected=self._expected,
        )


class _Entry(NamedTuple):
    part: Contribution
    expected: int
