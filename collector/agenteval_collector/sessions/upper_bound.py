"""Session scores that a missing judgement cannot raise.

A missing signal raises the published scores. So what the judge has not given is taken for perfect, which makes the
score over all traces the highest that it can come to, and counts only where it is lower than the score over the traces
that are completely judged. Where none is, that highest score is all there is to say.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from agenteval_collector.sessions.signals import UNJUDGED, TraceSignals
from otel_agenteval.metrics import SIGNAL_NAMES, MetricResult, SessionScores
from otel_agenteval.outcome import Status


@dataclass(frozen=True, slots=True)
class BoundedScore:
    """A published score. `bound` is true where no trace is completely judged: then it is the highest value that the
    score can reach."""

    result: MetricResult
    bound: bool


class BoundedScores:
    """The scores of one session, replaceable trace by trace. Coverage is that of all traces with the signals they
    have."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        """Start without traces. `weights` are those of all signals."""
        self._weighted = frozenset(name for name, weight in weights.items() if weight > 0.0)
        self._best = SessionScores(weights)
        self._judged = SessionScores(weights)
        self._traces: dict[str, TraceSignals] = {}
        self._unjudged: Counter[Status] = Counter()
        self._missing: Counter[tuple[str, Status]] = Counter()
        self._present = 0
        self._expected = 0

    def put(self, trace_id: str, signals: TraceSignals) -> None:
        """Insert the signals of a trace, or replace them."""
        awaited = (name for name, status in signals.missing.items() if status in UNJUDGED)
        self._best.put(trace_id, {**dict.fromkeys(awaited, 1.0), **signals.values}, signals.not_applicable)
        if signals.unjudged is None:
            self._judged.put(trace_id, signals.values, signals.not_applicable)
        else:
            self._judged.remove(trace_id)
        known = self._traces.get(trace_id)
        if known is not None:
            self._count(known, -1)
        self._traces[trace_id] = signals
        self._count(signals, +1)

    def reliability(self) -> BoundedScore:
        return self._lower(SessionScores.reliability)

    def consistency(self) -> BoundedScore:
        return self._lower(SessionScores.consistency)

    @property
    def traces(self) -> int:
        """The number of traces that were put, with or without signals."""
        return len(self._traces)

    @property
    def unjudged(self) -> Mapping[Status, int]:
        """The numbers of traces that lack a signal that was asked for, by the first status of `UNJUDGED` they have."""
        return {status: self._unjudged[status] for status in UNJUDGED if self._unjudged[status]}

    @property
    def missing(self) -> Mapping[tuple[str, Status], int]:
        """The numbers of traces that lack a signal of non-zero weight, by its name and status."""
        return {key: count for key, count in self._missing.items() if count}

    def _count(self, signals: TraceSignals, sign: int) -> None:
        self._present += sign * len(self._weighted & signals.values.keys())
        self._expected += sign * (len(SIGNAL_NAMES) - len(signals.not_applicable))
        for key in signals.missing.items():
            self._missing[key] += sign
        if signals.unjudged is not None:
            self._unjudged[signals.unjudged] += sign

    def _lower(self, of: Callable[[SessionScores], MetricResult]) -> BoundedScore:
        best = of(self._best)
        # Where nothing is missing both are the same.
        judged = of(self._judged) if self.unjudged else best
        coverage = self._present / self._expected if self._expected else None
        bound = best.evaluated > 0 and not judged.evaluated
        lower = judged if judged.evaluated and _score(judged) < _score(best) else best
        return BoundedScore(replace(lower, coverage=coverage), bound)


def _score(result: MetricResult) -> float:
    """Return the score of a result that has one, as all session scores do."""
    assert result.score is not None
    return result.score
