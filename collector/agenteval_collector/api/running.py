"""Sessions and traces that run: what their documents say before anything of them is complete."""

from collections.abc import Iterable, Mapping, Sequence

from agenteval_collector.api.documents import EffortDocument, OutcomeDocument, SessionFields, SessionStatus
from agenteval_collector.api.rendering import document, found_document
from agenteval_collector.model.running import RunningTrace
from agenteval_collector.model.session_filter import SessionFilter
from agenteval_collector.model.sessions import SessionRecord
from agenteval_collector.model.shown_findings import ShownFindings
from agenteval_collector.model.trace_view import TraceView
from otel_agenteval.finding import Finding

NOT_TOLD_AGAIN = "no process has told of it since this collector was started, and none of its spans has arrived"
"""Used for a trace that is known by its findings alone."""


def by_session(running: Iterable[RunningTrace]) -> dict[str, list[RunningTrace]]:
    """Group running traces by session, each by their start."""
    found: dict[str, list[RunningTrace]] = {}
    for trace in sorted(running, key=lambda trace: trace.started_at):
        found.setdefault(trace.session_id, []).append(trace)
    return found


def trace_ids(running: Mapping[str, Sequence[RunningTrace]]) -> dict[str, list[str]]:
    """Return the ids of running traces, by session."""
    return {session_id: [trace.trace_id for trace in traces] for session_id, traces in running.items()}


def running_record(session_id: str, running: Sequence[RunningTrace], now: int) -> SessionRecord:
    """Return a session none of whose traces is complete, as if it were stored."""
    return SessionRecord(
        session_id=session_id,
        user_id=next((trace.user_id for trace in running if trace.user_id), None),
        agent=None,
        services=list(dict.fromkeys(trace.service for trace in running if trace.service)),
        started_at=running[0].started_at,
        last_seen_at=now,
        trace_count=0,
        is_blind=False,
    )


def session_fields(
    session: SessionRecord,
    running: Sequence[RunningTrace],
    found: ShownFindings,
    *,
    status: SessionStatus = "running",
    death: str | None = None,
    outcomes: Sequence[OutcomeDocument] = (),
    flagged_traces: Sequence[str] = (),
    judged_failures: int = 0,
) -> SessionFields:
    """Return the fields that a session has in a listing and by itself. `status` is its own while none of its traces
    runs, `death` says why its agent has ended."""
    return document(
        SessionFields,
        session,
        # The spans that have arrived may name no agent, while those that still run do.
        agent=session.agent or next((trace.agent for trace in running if trace.agent), None),
        status="running" if running else status,
        status_reason=stop_reason(running) or death,
        effort=document(EffortDocument, session.effort.rounded),
        blind=session.is_blind,
        running_traces=[trace.trace_id for trace in running],
        outcomes=list(outcomes),
        flagged_traces=list(flagged_traces),
        judged_failures=judged_failures,
        **found_document(found),
    )


def stop_reason(running: Iterable[RunningTrace]) -> str | None:
    """Return why the first stopped trace will not go on; None where all may."""
    return next((f"trace {trace.trace_id}: {trace.stopped}" for trace in running if trace.stopped), None)


def death_reasons(deaths: Iterable[tuple[str, str, str]], running: Iterable[RunningTrace]) -> dict[str, str]:
    """Return by session why its newest trace in which an agent died has ended. A trace that goes on is left out: its
    process was heard of again."""
    going_on = {trace.trace_id for trace in running if trace.stopped is None}
    return {
        session_id: f"trace {trace_id}: {reason}" for session_id, trace_id, reason in deaths if trace_id not in going_on
    }


def told_view(finding: Finding) -> TraceView:
    """Return the view of a trace that is known only by findings sent ahead of it, of which this is the first."""
    return TraceView(
        trace_id=finding.trace_id,
        session_id=finding.session_id,
        names_session=True,
        service=finding.service,
        agents=() if finding.agent is None else (finding.agent,),
        started_at=finding.found_at,
        ended_at=finding.found_at,
        revision=0,
        complete=False,
        status_reason=NOT_TOLD_AGAIN,
    )


def may_be_wanted(wanted: SessionFilter, running: Sequence[RunningTrace]) -> bool:
    """Return whether a session of which nothing is stored may be wanted, by its running traces. They tell no version,
    no score and no text."""
    if wanted.version is not None or wanted.below is not None or wanted.text is not None or wanted.until is not None:
        return False
    asked = {"agent": wanted.agent, "service": wanted.service, "user_id": wanted.user}
    return all(
        value is None or any(getattr(trace, name) == value for trace in running) for name, value in asked.items()
    )


def shows(item: SessionFields, wanted: SessionFilter) -> bool:
    """Return whether a session of which nothing is stored shows the wanted finding."""
    if wanted.finding is None and wanted.severity is None:
        return True
    return any(
        wanted.finding in (None, each["kind"]) and wanted.severity in (None, each["severity"])
        for each in item["findings"]
    )
