"""Read how the newest sessions of an agent ended, as far as anything is said of it."""

from collections.abc import Iterator, Sequence

from sqlalchemy import and_, func, or_, select

from agenteval_collector.model.sessions import SessionEnd
from agenteval_collector.runtime.database import in_parts
from agenteval_collector.stores.access import TenantConnection
from agenteval_collector.stores.schema import labels, outcomes, own, run_reports, run_traces, sessions, traces
from otel_agenteval.outcome import Method, Status, Subject

COMPLETED = "task_completion"
_RUN = ("task_id", "run_id", "condition")
NEWEST = 500
"""Sessions of the agent that are looked at: what it costs is bounded."""


def read_ends(connection: TenantConnection, agent: str, *, newest: int = NEWEST) -> list[SessionEnd]:
    """The ends of the agent's `newest` sessions, as far as anything is said of them."""
    query = (
        select(sessions.c.session_id, sessions.c.errors)
        .where(own(sessions), sessions.c.agent == agent)
        .order_by(sessions.c.last_seen_at.desc())
        .limit(newest)
    )
    ends = {row.session_id: SessionEnd(has_error=row.errors > 0) for row in connection.execute(query)}
    for some in in_parts(list(ends)):
        for session_id, judged in _judged(connection, some):
            ends[session_id] = ends[session_id]._replace(judged=judged)
        for session_id, labelled in _labelled(connection, some):
            ends[session_id] = ends[session_id]._replace(labelled=labelled)
        for session_id, reported in _reported(connection, some):
            ends[session_id] = ends[session_id]._replace(reported=reported)
    return list(ends.values())


def _judged(connection: TenantConnection, ids: Sequence[str]) -> Iterator[tuple[str, bool]]:
    query = (
        select(outcomes.c.session_id, func.min(outcomes.c.success).label("success"))
        .where(
            own(outcomes),
            outcomes.c.session_id.in_(ids),
            outcomes.c.subject == Subject.TRACE,
            outcomes.c.name == COMPLETED,
            outcomes.c.method == Method.LLM,
            outcomes.c.status == Status.SCORED,
            outcomes.c.success.is_not(None),
        )
        .group_by(outcomes.c.session_id)
    )
    return ((row.session_id, bool(row.success)) for row in connection.execute(query))


def _labelled(connection: TenantConnection, ids: Sequence[str]) -> Iterator[tuple[str, float]]:
    query = (
        select(traces.c.session_id, func.min(labels.c.value).label("value"))
        .join(labels, and_(labels.c.tenant == traces.c.tenant, labels.c.trace_id == traces.c.trace_id))
        .where(own(traces), traces.c.session_id.in_(ids), labels.c.name == COMPLETED)
        .group_by(traces.c.session_id)
    )
    return ((row.session_id, row.value) for row in connection.execute(query))


def _reported(connection: TenantConnection, ids: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """The reported success of a session's runs, the newest last; where none was reported, what its spans say."""
    members = and_(run_traces.c.tenant == traces.c.tenant, run_traces.c.trace_id == traces.c.trace_id)
    names = [
        run_traces.c[name] for name in ("session_id", "task_id", "run_id", "condition", "agent", "service_version")
    ]
    runs = (
        select(*names, func.min(run_traces.c.success).label("spoken"))
        .join_from(traces, run_traces, members)
        .where(own(traces), traces.c.session_id.in_(ids))
        .group_by(*names)
        .subquery()
    )
    same_run = and_(
        own(run_reports),
        run_reports.c.success.is_not(None),
        *(run_reports.c[name] == runs.c[name] for name in _RUN),
        or_(run_reports.c.agent == "", run_reports.c.agent == runs.c.agent),
        or_(run_reports.c.service_version == "", run_reports.c.service_version == runs.c.service_version),
    )
    query = (
        select(runs.c.session_id, func.coalesce(run_reports.c.success, runs.c.spoken).label("success"))
        .join_from(runs, run_reports, same_run, isouter=True)
        .order_by(run_reports.c.reported_at)  # Those without a report come first.
    )
    return ((row.session_id, bool(row.success)) for row in connection.execute(query) if row.success is not None)
