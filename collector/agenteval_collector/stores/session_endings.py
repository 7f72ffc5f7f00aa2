"""Read how the newest sessions of an agent ended, as far as anybody said."""

from typing import Final

from sqlalchemy import Integer, Select, and_, cast, func, or_, select

from agenteval_collector.model.labels import LabelSource
from agenteval_collector.model.sessions import SessionEnding
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.runs import is_senders_own
from agenteval_collector.stores.schema import labels, matching, outcomes, own, run_reports, run_traces, sessions, traces
from otel_agenteval.outcome import JudgedPart, Method, Status, SubjectKind

COMPLETED: Final = "task_completion"
NEWEST: Final = 2000
"""The most sessions of the agent that are looked at. This bounds the cost."""

_JUDGED: Final = (
    select(outcomes.c.session_id, func.min(cast(outcomes.c.success, Integer)) == 1)
    .where(
        own(outcomes),
        among(outcomes.c.session_id, "ids"),
        outcomes.c.subject == SubjectKind.TRACE,
        outcomes.c.name == COMPLETED,
        outcomes.c.method == Method.LLM,
        outcomes.c.part == JudgedPart.RANDOM,
        outcomes.c.status == Status.SCORED,
        outcomes.c.success.is_not(None),
    )
    .group_by(outcomes.c.session_id)
)
_LABELLED: Final = (
    select(traces.c.session_id, func.min(labels.c.value))
    .join(labels, matching(labels, traces, "trace_id"))
    .where(
        own(traces),
        among(traces.c.session_id, "ids"),
        labels.c.name == COMPLETED,
        labels.c.source == LabelSource.PERSON,
    )
    .group_by(traces.c.session_id)
)
_OF_RUN: Final = [
    run_traces.c[name]
    for name in ("session_id", "task_id", "run_id", "condition", "agent", "service_version", "senders")
]
_RUNS: Final = (
    select(*_OF_RUN, (func.min(cast(run_traces.c.success, Integer)) == 1).label("spoken"))
    .join_from(traces, run_traces, matching(run_traces, traces, "trace_id"))
    .where(own(traces), among(traces.c.session_id, "ids"))
    .group_by(*_OF_RUN)
    .subquery()
)
_SUCCESS: Final = func.coalesce(run_reports.c.success, _RUNS.c.spoken)
_REPORTED: Final = (
    select(_RUNS.c.session_id, _SUCCESS)
    .join_from(
        _RUNS,
        run_reports,
        and_(
            own(run_reports),
            run_reports.c.success.is_not(None),
            *(run_reports.c[name] == _RUNS.c[name] for name in ("task_id", "run_id", "condition")),
            or_(run_reports.c.agent == "", run_reports.c.agent == _RUNS.c.agent),
            or_(run_reports.c.service_version == "", run_reports.c.service_version == _RUNS.c.service_version),
            is_senders_own(run_reports.c.sender, _RUNS.c.senders),
        ),
        isouter=True,
    )
    .where(_SUCCESS.is_not(None))
    .order_by(run_reports.c.reported_at.nulls_first())  # Those without a report come first.
)
"""The reported success of a session's runs, the newest last. A run without a report counts as its spans say."""


def read_ends(
    connection: TenantConnection, agent: str, service: str | None = None, *, newest: int = NEWEST
) -> list[SessionEnding]:
    """Return how the agent's `newest` sessions ended: whether they had an error, and what the judge, labels and reports
    said. Of agents of this name, only that in `service` counts, if it is given."""
    is_in = () if service is None else (sessions.c.service == service,)
    query = (
        select(sessions.c.session_id, sessions.c.errors)
        .where(own(sessions), sessions.c.agent == agent, *is_in)
        .order_by(sessions.c.last_seen_at.desc())
        .limit(newest)
    )
    return _ends(connection, query)


def read_end(connection: TenantConnection, session_id: str) -> SessionEnding | None:
    """Return how a session ended; None if it is unknown."""
    query = select(sessions.c.session_id, sessions.c.errors).where(own(sessions), sessions.c.session_id == session_id)
    return next(iter(_ends(connection, query)), None)


def _ends(connection: TenantConnection, query: Select[tuple[str, int]]) -> list[SessionEnding]:
    ends = {
        row.session_id: SessionEnding(has_error=row.errors > 0, session_id=row.session_id)
        for row in connection.execute(query)
    }
    for field, column in (("judged", _JUDGED), ("labelled", _LABELLED), ("reported", _REPORTED)):
        for session_id, value in connection.execute(column, ids(ends)):
            # A session with several reports gets the newest, which comes last.
            ends[session_id] = ends[session_id]._replace(**{field: value})
    return list(ends.values())
