"""What was found to be wrong lately, for watchers that were away."""

from collections import OrderedDict
from typing import Final, TypeAlias

from otel_agenteval.finding import Finding
from otel_agenteval.outcome import Evaluation, Method, Subject

MAX_ALARMS: Final = 1024
"""Alarms that are remembered, the newest."""

Event: TypeAlias = Evaluation | Finding


def is_alarm(event: Event) -> bool:
    """Whether the event says that something is wrong: a finding that is told live, or a judge's score of a trace below
    its threshold."""
    if isinstance(event, Finding):
        return True
    return event.method is Method.LLM and event.subject is Subject.TRACE and event.success is False


class RecentAlarms:
    """The newest alarms, each once as it was told last, with when that was. Not thread-safe."""

    def __init__(self) -> None:
        self._told: OrderedDict[tuple[str | None, ...], tuple[int, Event]] = OrderedDict()

    def add(self, event: Event, told_at: int) -> None:
        """Remember an alarm that was told at that time (ns), and forget the one that is so for longest."""
        key = _identity(event)
        self._told[key] = told_at, event
        self._told.move_to_end(key)
        if len(self._told) > MAX_ALARMS:
            self._told.popitem(last=False)

    def since(self, time: int) -> list[Event]:
        """Those told at that time (ns) or later, the newest first."""
        return [event for told_at, event in reversed(self._told.values()) if told_at >= time]


def _identity(event: Event) -> tuple[str | None, ...]:
    if isinstance(event, Finding):
        return event.trace_id, event.kind, event.span_id
    return event.subject_id, event.name
