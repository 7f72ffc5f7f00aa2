"""The events of the watch feed, and which of them are alarms."""

from typing import TypeAlias

from otel_agenteval.finding import Finding
from otel_agenteval.outcome import Evaluation, Method, Subject

Event: TypeAlias = Evaluation | Finding


def is_alarm(event: Event) -> bool:
    """Return whether the event says that something is wrong: a finding that is told live, or a judged score of a trace
    below its threshold."""
    if isinstance(event, Finding):
        return True
    return event.method is Method.LLM and event.subject is Subject.TRACE and event.success is False


def identity(event: Event) -> tuple[str | None, ...]:
    """Return what tells an alarm from others, however often it is told."""
    if isinstance(event, Finding):
        return event.trace_id, event.kind, event.span_id
    return event.subject_id, event.name
