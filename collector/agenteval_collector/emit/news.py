"""All that is told of a commit, and to whom."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from agenteval_collector.emit.collector import CollectorTelemetry
from agenteval_collector.emit.fanout import Fanout
from agenteval_collector.model.news import CommittedEvaluation, News, WorstFinding
from otel_agenteval.finding import Finding

T = TypeVar("T")
Sinks: TypeAlias = Mapping[str, Callable[[Sequence[T]], None]]


class Emission:
    """A `NewsSink` over the sinks of each sort of news, by name."""

    def __init__(
        self,
        telemetry: CollectorTelemetry,
        *,
        evaluations: Sinks[CommittedEvaluation],
        told: Sinks[Finding],
        counted: Sinks[Finding],
        traces: Sinks[WorstFinding],
        sessions: Sinks[WorstFinding],
    ) -> None:
        self._evaluations = Fanout(evaluations, telemetry)
        self._told = Fanout(told, telemetry)
        self._counted = Fanout(counted, telemetry)
        self._traces = Fanout(traces, telemetry)
        self._sessions = Fanout(sessions, telemetry)

    def accept(self, news: News) -> None:
        """Tell of findings first: a loop may still be stopped."""
        self._told.accept(news.told)
        self._counted.accept(news.counted)
        self._evaluations.accept(news.evaluations)
        self._traces.accept(news.traces)
        self._sessions.accept(news.sessions)
