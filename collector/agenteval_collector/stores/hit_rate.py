"""The measured hit rate of an agent's error findings, from its newest sessions."""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, and_, func, or_, select

from agenteval_collector.findings.hit_rate import FailureRate, SessionEnd, hit_rate
from agenteval_collector.model.documents import Document
from agenteval_collector.runtime.database import in_parts
from agenteval_collector.stores.schema import labels, outcomes, run_reports, run_traces, sessions, traces
from otel_agenteval.outcome import Method, Status, Subject

COMPLETED = "task_completion"
FAILED_BELOW = 0.5
"""A label of task completion below this says that the session failed."""
_RUN = ("task_id", "run_id", "condition")
NEWEST = 500
"""Sessions of the agent that are looked at: what it costs is bounded."""


def read_hit_rate(connection: Connection, tenant: str, agent: str, *, newest: int = NEWEST) -> Document | None:
    """The failure rates of the agent's sessions with an error finding, and without; None while too few ends are known.
    Only its `newest` sessions are looked at.

    A session failed if the newest report on its run says so; without a report, if somebody labelled the task completion
    of one of its traces below 0.5; without a label, if the judge scored one of its traces below the threshold.
    """
    query = (
        select(sessions.c.session_id, sessions.c.errors)
        .where(sessions.c.tenant == tenant, sessions.c.agent == agent)
        .order_by(sessions.c.last_seen_at.desc())
        .limit(newest)
    )
    errors = {row.session_id: row.errors for row in connection.execute(query)}
    failed: dict[str, bool] = {}
    for some in in_parts(list(errors)):
        failed |= dict(_judged(connection, tenant, some))
        failed |= dict(_labelled(connection, tenant, some))
        failed |= dict(_reported(connection, tenant, some))
    found = hit_rate(SessionEnd(failed=ended, error=errors[each] > 0) for each, ended in failed.items())
    if found is None:
        return None
    return {"with_error": _document(found.with_error), "without_error": _document(found.without_error)}


def _document(rate: FailureRate) -> Document:
    interval = None if rate.interval is None else list(rate.interval)
    return {"sessions": rate.sessions, "failed": rate.failed, "rate": rate.rate, "interval": interval}


def _judged(connection: Connection, tenant: str, ids: Sequence[str]) -> Iterator[tuple[str, bool]]:
    query = (
        select(outcomes.c.session_id, func.min(outcomes.c.success).label("success"))
        .where(
            outcomes.c.tenant == tenant,
            outcomes.c.session_id.in_(ids),
            outcomes.c.subject == Subject.TRACE,
            outcomes.c.name == COMPLETED,
            outcomes.c.method == Method.LLM,
            outcomes.c.status == Status.SCORED,
            outcomes.c.success.is_not(None),
        )
        .group_by(outcomes.c.session_id)
    )
    return ((row.session_id, not row.success) for row in connection.execute(query))


def _labelled(connection: Connection, tenant: str, ids: Sequence[str]) -> Iterator[tuple[str, bool]]:
    query = (
        select(traces.c.session_id, func.min(labels.c.value).label("value"))
        .join(labels, and_(labels.c.tenant == traces.c.tenant, labels.c.trace_id == traces.c.trace_id))
        .where(traces.c.tenant == tenant, traces.c.session_id.in_(ids), labels.c.name == COMPLETED)
        .group_by(traces.c.session_id)
    )
    return ((row.session_id, row.value < FAILED_BELOW) for row in connection.execute(query))


def _reported(connection: Connection, tenant: str, ids: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """The reported success of a session's runs, the newest last; where none was reported, what its spans say."""
    members = and_(run_traces.c.tenant == traces.c.tenant, run_traces.c.trace_id == traces.c.trace_id)
    names = [
        run_traces.c[name] for name in ("session_id", "task_id", "run_id", "condition", "agent", "service_version")
    ]
    runs = (
        select(*names, func.min(run_traces.c.success).label("spoken"))
        .join_from(traces, run_traces, members)
        .where(traces.c.tenant == tenant, traces.c.session_id.in_(ids))
        .group_by(*names)
        .subquery()
    )
    same_run = and_(
        run_reports.c.tenant == tenant,
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
    return ((row.session_id, not row.success) for row in connection.execute(query) if row.success is not None)
