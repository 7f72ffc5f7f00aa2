"""Count the traces of each service that have GenAI telemetry, content, and the id of a session."""

from collections.abc import Iterable, Sequence
from typing import Final

from typing_extensions import TypedDict

from agenteval_collector.api.ports import RecordSnapshot
from agenteval_collector.model.running import RunningTrace
from agenteval_collector.model.trace_view import TraceView
from agenteval_collector.runtime.times import rfc3339
from otel_agenteval.outcome import Status, Subject

NEWEST: Final = 500
"""Traces that are looked at."""


class ArrivalDocument(TypedDict):
    """Counts of a service's traces, among the newest complete ones: `genai` have GenAI telemetry; of these,
    `with_content` have an input or an output, and `with_session` the id of a session. `running` ones are not complete.
    `content_switch` says how its instrumentation records content, where some have none."""

    service: str | None
    last_seen_at: str | None
    traces: int
    genai: int
    with_content: int
    with_session: int
    running: int
    content_switch: str | None


def arrivals(records: RecordSnapshot, running: Iterable[RunningTrace]) -> list[ArrivalDocument]:
    """Return what has arrived of each service, the one seen last first."""
    views: dict[str | None, list[tuple[int, TraceView]]] = {}
    for seen_at, view in records.newest_traces(NEWEST):
        views.setdefault(view.service, []).append((seen_at, view))
    open_traces = [trace.service for trace in running]
    services = [*views, *(each for each in dict.fromkeys(open_traces) if each not in views)]
    return [_arrival(records, each, views.get(each, []), open_traces.count(each)) for each in services]


def _arrival(
    records: RecordSnapshot, service: str | None, seen: Sequence[tuple[int, TraceView]], running: int
) -> ArrivalDocument:
    genai = [view for _, view in seen if view.turns]
    silent = [view for view in genai if not any(turn.input or turn.output for turn in view.turns)]
    return {
        "service": service,
        "last_seen_at": rfc3339(max((at for at, _ in seen), default=None)),
        "traces": len(seen),
        "genai": len(genai),
        "with_content": len(genai) - len(silent),
        "with_session": sum(view.names_session for view in genai),
        "running": running,
        "content_switch": _switch(records, silent[0].trace_id) if silent else None,
    }


def _switch(records: RecordSnapshot, trace_id: str) -> str | None:
    """Return the switch that the outcomes of a trace without content name behind their reason."""
    for evaluation in records.evaluations(Subject.TRACE, [trace_id])[trace_id]:
        outcome = evaluation.outcome
        if outcome.status == Status.NO_CONTENT and (switch := outcome.reason.partition("; ")[2]):
            return switch
    return None
