"""The outcomes of a trace as signals of its session's scores.

A signal without a score is missing, and so is one of weight 0. A signal that cannot exist for the trace is not
applicable: coverage does not expect it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agenteval_collector.model.sessions import Signals
from otel_agenteval.metrics import SIGNAL_NAMES
from otel_agenteval.outcome import Score, Status

UNJUDGED: Final = (Status.PENDING, Status.OVER_BUDGET, Status.FAILED)
"""Statuses of an outcome that was asked for and has no score. A trace, and a session, counts by the first of them that
it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSignals:
    """The signals of one trace: `values` are the scores by name, `not_applicable` the names that cannot exist for it,
    `missing` the statuses of the other signals of non-zero weight, by name."""

    values: Mapping[str, float]
    not_applicable: frozenset[str]
    missing: Mapping[str, Status]

    @property
    def unjudged(self) -> Status | None:
        """The first status of a signal that was asked for and is not there. None where nothing is missing."""
        return next((status for status in UNJUDGED if status in self.missing.values()), None)


def signals_of(outcomes: Signals, weights: Mapping[str, float]) -> TraceSignals:
    """Sort a trace's outcomes into signals. `weights` are those of all signals."""
    known = {name: outcomes[name].outcome for name in SIGNAL_NAMES if name in outcomes}
    not_applicable = frozenset(name for name, each in known.items() if each.status is Status.NOT_APPLICABLE)
    return TraceSignals(
        values={name: each.value for name, each in known.items() if isinstance(each, Score)},
        not_applicable=not_applicable,
        missing={
            name: each.status
            for name, each in known.items()
            if weights[name] > 0.0 and not isinstance(each, Score) and name not in not_applicable
        },
    )
