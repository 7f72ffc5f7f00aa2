"""The newest alarms, for watchers that were away."""

from typing import Final, TypeAlias

from agenteval_collector.runtime.lru import Recent
from otel_agenteval.finding import Finding
from otel_agenteval.outcome import Evaluation, Method, Subject

MAX_ALARMS: Final = 1024
"""Alarms that are remembered, the newest."""

Event: TypeAlias = Evaluation | Finding


def is_alarm(event: Event) -> bool:
    """Return whether the event says that something is wrong: a finding that is told live, or a judged score of a trace
    below its threshold."""
    if isinstance(event, Finding):
        return True
    return event.method is Method.LLM and event.subject is Subject.TRACE and event.success is False


class RecentAlarms:
    """The newest alarms with the times of their telling, each once. Not thread-safe."""

    def __init__(self) -> None:
        self._told: Recent[tuple[str | None, ...], tuple[int, Event]] = Recent(MAX_ALARMS)

    def add(self, event: Event, told_at: int) -> None:
        """Remember an alarm that was told at that time (ns), and forget the one that is so for longest."""
        self._told.put(_identity(event), (told_at, event))

    def since(self, time: int) -> list[Event]:
        """Return those told at that time (ns) or later, the newest first."""
        return [event for told_at, event in self._told.newest_first() if told_at >= time]


def _identity(event: Event) -> tuple[str | None, ...]:
    if isinstance(event, Finding):
        return event.trace_id, event.kind, event.span_id
    return event.subject_id, event.name
