"""Session scores that a missing judgement cannot raise.

A missing signal raises the published scores. So traces that are not completely judged count only where they lower
the score: it is the lower one of the score over all traces and of the score over those that are judged.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from agenteval_collector.aggregation.signals import UNJUDGED, TraceSignals
from otel_agenteval.metrics import MetricResult, SessionScores
from otel_agenteval.outcome import Status


class CautiousScores:
    """The scores of one session, replaceable trace by trace. Coverage is that of all traces."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._all = SessionScores(weights)
        self._judged = SessionScores(weights)
        self._unjudged: dict[str, Status] = {}
        self._why: Counter[Status] = Counter()

    def put(self, trace_id: str, signals: TraceSignals) -> None:
        """Insert the signals of a trace, or replace them."""
        self._all.put(trace_id, signals.values, signals.not_applicable)
        known = self._unjudged.pop(trace_id, None)
        if known is not None:
            self._why[known] -= 1
        if signals.unjudged is None:
            self._judged.put(trace_id, signals.values, signals.not_applicable)
        else:
            self._judged.remove(trace_id)
            self._unjudged[trace_id] = signals.unjudged
            self._why[signals.unjudged] += 1

    def reliability(self) -> MetricResult:
        return self._lower(self._all.reliability(), self._judged.reliability())

    def consistency(self) -> MetricResult:
        return self._lower(self._all.consistency(), self._judged.consistency())

    @property
    def max_risk(self) -> float | None:
        """The largest risk of a trace, in [0, 1]; None where no signal of non-zero weight says anything."""
        return self._all.max_risk

    @property
    def flagged(self) -> tuple[int, int]:
        """How many traces have a risk above 0.5, and of how many: all, or the judged ones where that is worse."""
        counts = [
            (len(scores.flagged), evaluated)
            for scores in (self._all, self._judged)
            if (evaluated := scores.reliability().evaluated)
        ]
        return max(counts, key=lambda count: count[0] / count[1], default=(0, 0))

    @property
    def traces(self) -> int:
        """How many traces were put, with or without signals."""
        return self._all.traces

    @property
    def unjudged(self) -> str | None:
        """How many traces are not completely judged, and why, as text; None where all are."""
        if not self._unjudged:
            return None
        why = ", ".join(f"{self._why[status]} {status.replace('_', ' ')}" for status in UNJUDGED if self._why[status])
        return f"{len(self._unjudged)} of {self.traces} traces are not judged: {why}"

    def _lower(self, over_all: MetricResult, judged: MetricResult) -> MetricResult:
        scores = (over_all.score, judged.score)
        if not judged.evaluated or scores[0] is None or scores[1] is None or scores[0] <= scores[1]:
            return over_all
        return replace(judged, coverage=over_all.coverage)
