"""Session scores that a missing judgement cannot raise. They are made of the outcomes of a session's traces.

A signal without a score is missing, and so is a signal of weight 0. A signal that cannot exist for the trace is not
applicable, and coverage does not expect it.

A missing signal raises the published scores. So signals that the judge has not given are taken for perfect. The score
over all traces is then an upper bound: the highest value that it can reach. A second score covers the traces that are
completely judged. The lower one of the two counts. If no trace is completely judged, there is only the upper bound.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypedDict

from agenteval_collector.model.sessions import Signals
from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.metrics import MetricResult
from otel_agenteval.metrics.session import SavedScores, SessionScores
from otel_agenteval.metrics.signals import SIGNAL_NAMES
from otel_agenteval.outcome import Score, Status

UNJUDGED: Final = (Status.PENDING, Status.OVER_BUDGET, Status.FAILED)
"""Statuses of an outcome that was asked for and has no score.

A trace, or a session, with several of them counts by the first.
"""


class SavedSums(TypedDict):
    """`SavedScores` without its risks, of which it has the number of bytes."""

    counts: Sequence[int]
    squares: Sequence[int]
    tail: Sequence[int]
    bytes: int


class SavedBounds(TypedDict):
    """`BoundedScores` in the form of JSON, but for the bytes of the risks.

    `counts` are of traces, of signals that are there, and of those that are expected. `judged` is None if it is the
    same as `best`.
    """

    counts: tuple[int, int, int]
    unjudged: Mapping[Status, int]
    missing: Sequence[tuple[str, Status, int]]
    best: SavedSums
    judged: SavedSums | None


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class TraceSignals:
    """The signals of one trace.

    `values` has the scores by name. `not_applicable` has the names of signals that cannot exist for the trace.
    `missing` has the statuses of the other signals of non-zero weight, by name.
    """

    values: Mapping[str, float]
    not_applicable: frozenset[str]
    missing: Mapping[str, Status]

    @property
    def unjudged(self) -> Status | None:
        """The first status of `UNJUDGED` that a missing signal has. None if the trace is completely judged."""
        return next((status for status in UNJUDGED if status in self.missing.values()), None)


def signals_of(outcomes: Signals, weights: Mapping[str, float]) -> TraceSignals:
    """Sort a trace's outcomes into signals. `weights` has the weight of every signal."""
    outcomes_by_name = {name: outcomes[name].outcome for name in SIGNAL_NAMES if name in outcomes}
    not_applicable = frozenset(
        name for name, value in outcomes_by_name.items() if value.status is Status.NOT_APPLICABLE
    )
    return TraceSignals(
        values={name: outcome.value for name, outcome in outcomes_by_name.items() if isinstance(outcome, Score)},
        not_applicable=not_applicable,
        missing={
            name: value.status
            for name, value in outcomes_by_name.items()
            if weights[name] > 0.0 and not isinstance(value, Score) and name not in not_applicable
        },
    )


@checked_dataclass(frozen=True, slots=True)
class BoundedScore:
    """A session score. If no trace is completely judged, `bound` is true, and it is the highest value it can reach."""

    result: MetricResult
    bound: bool


class BoundedScores:
    """The scores of one session. The signals of each trace can be replaced.

    Coverage counts all traces, also those that lack signals.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        """Start without traces. `weights` has the weight of every signal."""
        self._weighted = frozenset(name for name, weight in weights.items() if weight > 0.0)
        # Over all traces, with perfect values for what the judge has not given; then over completely judged traces.
        self._best = SessionScores(weights)
        self._judged = SessionScores(weights)
        self._unjudged: Counter[Status] = Counter()
        self._missing: Counter[tuple[str, Status]] = Counter()
        self._present = 0
        self._expected = 0
        self.traces = 0
        """The number of traces, with or without signals."""

    def put(self, trace_id: str, signals: TraceSignals, before: TraceSignals | None = None) -> None:
        """Add the signals of a trace. For a trace that was put before, replace its signals `before`.

        Raises LookupError if `before` are not the signals that were put.
        """
        if before is not None:
            self._best.remove(trace_id, _at_best(before), before.not_applicable)
            if before.unjudged is None:
                self._judged.remove(trace_id, before.values, before.not_applicable)
            self._count(before, -1)
        self._best.add(trace_id, _at_best(signals), signals.not_applicable)
        if signals.unjudged is None:
            self._judged.add(trace_id, signals.values, signals.not_applicable)
        self._count(signals, +1)

    def save(self) -> tuple[SavedBounds, bytes]:
        """Return the current scores: values that JSON can hold, and the bytes of the risks."""
        best = self._best.saved
        # If nothing is missing, both scores are the same, and one is enough.
        judged = self._judged.saved if self.unjudged else None
        sums: SavedBounds = {
            "counts": (self.traces, self._present, self._expected),
            "unjudged": self.unjudged,
            "missing": [(*key, count) for key, count in self.missing.items()],
            "best": _sums(best),
            "judged": _sums(judged) if judged else None,
        }
        return sums, best.risks + (judged.risks if judged else b"")

    @classmethod
    def restored(cls, weights: Mapping[str, float], sums: SavedBounds, risks: bytes) -> "BoundedScores":
        """Restore scores from what `save` returned. The `weights` must be the same as then."""
        scores = cls(weights)
        scores.traces, scores._present, scores._expected = sums["counts"]
        scores._unjudged.update({Status(status): count for status, count in sums["unjudged"].items()})
        scores._missing.update({(name, Status(status)): count for name, status, count in sums["missing"]})
        size = sums["best"]["bytes"]
        best = _saved(sums["best"], risks[:size])
        judged = _saved(sums["judged"], risks[size:]) if sums["judged"] else best
        scores._best, scores._judged = SessionScores(weights, best), SessionScores(weights, judged)
        return scores

    def reliability(self) -> BoundedScore:
        return self._lower(SessionScores.reliability)

    def consistency(self) -> BoundedScore:
        return self._lower(SessionScores.consistency)

    @property
    def unjudged(self) -> Mapping[Status, int]:
        """The numbers of traces that are not completely judged, by the first status of `UNJUDGED` that each has."""
        return {status: self._unjudged[status] for status in UNJUDGED if self._unjudged[status]}

    @property
    def missing(self) -> Mapping[tuple[str, Status], int]:
        """The numbers of traces that lack a signal of non-zero weight, by its name and status."""
        return {key: count for key, count in self._missing.items() if count}

    def _count(self, signals: TraceSignals, sign: int) -> None:
        self.traces += sign
        self._present += sign * len(self._weighted & signals.values.keys())
        self._expected += sign * (len(SIGNAL_NAMES) - len(signals.not_applicable))
        for key in signals.missing.items():
            self._missing[key] += sign
        if signals.unjudged is not None:
            self._unjudged[signals.unjudged] += sign

    def _lower(self, of: Callable[[SessionScores], MetricResult]) -> BoundedScore:
        best = of(self._best)
        # If nothing is missing, both scores are the same.
        judged = of(self._judged) if self.unjudged else best
        coverage = self._present / self._expected if self._expected else None
        bound = best.evaluated > 0 and not judged.evaluated
        lower = judged if judged.evaluated and _score(judged) < _score(best) else best
        return BoundedScore(replace(lower, coverage=coverage), bound)


def _at_best(signals: TraceSignals) -> dict[str, float]:
    """Return the values of a trace, with 1.0 for each that the judge has not given."""
    awaited = (name for name, status in signals.missing.items() if status in UNJUDGED)
    return {**dict.fromkeys(awaited, 1.0), **signals.values}


def _sums(saved: SavedScores) -> SavedSums:
    return {"counts": saved.counts, "squares": saved.squares, "tail": saved.tail, "bytes": len(saved.risks)}


def _saved(sums: SavedSums, risks: bytes) -> SavedScores:
    return SavedScores(counts=sums["counts"], squares=sums["squares"], tail=sums["tail"], risks=risks)


def _score(result: MetricResult) -> float:
    """Return the score of a result. Every result of a session has a score."""
    assert result.score is not None
    return result.score
