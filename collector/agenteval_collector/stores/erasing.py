"""Delete traces and sessions from every table, and take them from what they are part of."""

from collections import Counter
from collections.abc import Collection
from typing import Final

from sqlalchemy import ColumnElement, Table, bindparam, delete, exists, func, literal_column, select, update

from agenteval_collector.runtime.json_lists import among
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.agent_sums import AgentSums
from agenteval_collector.stores.findings import refresh_sessions
from agenteval_collector.stores.look_ups import forget_sums
from agenteval_collector.stores.problems import refresh_problems
from agenteval_collector.stores.schema import (
    conversations,
    findings,
    judge_answers,
    judge_exchanges,
    metadata,
    outcomes,
    own,
    run_traces,
    sessions,
    traces,
)
from otel_agenteval.outcome import Subject

_KEPT_BY_OTHERS: Final = {
    "outcomes": "by their subject",
    "problem_traces": "by `refresh_problems`",
    "agent_hours": "by `AgentSums`",
    "erasures": "until the log is done",
}
"""Tables that name traces or sessions, and how their rows go."""


def _about(table: Table, subject: Subject) -> ColumnElement[bool]:
    return (table.c.subject == literal_column(f"'{subject}'")) & among(table.c.subject_id, "ids")


def _naming(column: str, *but: Table) -> list[tuple[Table, ColumnElement[bool]]]:
    """Return the tables that name a trace or a session, `but` for some, each with the condition on its rows."""
    tables = [each for each in metadata.sorted_tables if column in each.c and each.name not in _KEPT_BY_OTHERS]
    return [(each, among(each.c[column], "ids")) for each in tables if each not in but]


_OF_SUBJECTS: Final = (outcomes, judge_exchanges, judge_answers)
OF_TRACES: Final = [
    *_naming("trace_id"),
    *((table, _about(table, Subject.TRACE)) for table in _OF_SUBJECTS),
]
# What traces have left behind is gone with them, and is not looked for again where no index leads to it.
OF_SESSIONS: Final = [
    *_naming("session_id", traces, run_traces, conversations),
    *((table, _about(table, Subject.SESSION)) for table in _OF_SUBJECTS),
]


def erase(connection: TenantConnection, trace_ids: Collection[str], session_ids: Collection[str]) -> Counter[str]:
    """Delete traces, and sessions of which no trace is left by that. Returns the number of rows by table."""
    touched = set(connection.execute(_SESSIONS_OF, ids(trace_ids)).scalars()) - {*session_ids}
    removed: Counter[str] = Counter()
    sums = AgentSums(connection, trace_ids)
    live = set(connection.execute(_LIVE_FINDINGS, ids(session_ids)).scalars())
    for rows, doomed in ((OF_TRACES, trace_ids), (OF_SESSIONS, session_ids)):
        for table, condition in rows if doomed else ():
            removed[table.name] += connection.execute(delete(table).where(own(table), condition), ids(doomed)).rowcount
    refresh_problems(connection, {*trace_ids, *session_ids, *live})
    sums.forget()
    connection.execute(_COUNT_TRACES, ids(touched))
    forget_sums(connection, touched)
    refresh_sessions(connection, touched)
    return +removed


def without_traces(connection: TenantConnection, seen_before: int, limit: int) -> list[str]:
    """Return sessions without a trace that were last seen before that time (ns)."""
    return list(connection.execute(_EMPTY.limit(limit), {"before": seen_before}).scalars())


# Not DISTINCT: for that SQLite would read all traces, in the order of their sessions.
_SESSIONS_OF: Final = select(traces.c.session_id).where(own(traces), among(traces.c.trace_id, "ids"))
_LIVE_FINDINGS: Final = select(findings.c.trace_id).where(own(findings), among(findings.c.session_id, "ids"))
_MEMBERS: Final = (
    select(func.count())
    .select_from(traces)
    .where(traces.c.tenant == sessions.c.tenant, traces.c.session_id == sessions.c.session_id)
    .scalar_subquery()
)
_COUNT_TRACES: Final = (
    update(sessions).where(own(sessions), among(sessions.c.session_id, "ids")).values(trace_count=_MEMBERS)
)
_EMPTY: Final = select(sessions.c.session_id).where(
    own(sessions),
    sessions.c.last_seen_at < bindparam("before"),
    ~exists().where(traces.c.tenant == sessions.c.tenant, traces.c.session_id == sessions.c.session_id),
)
