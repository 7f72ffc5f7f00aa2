"""Delete traces and sessions from every table and from the sums that they are part of, or forget what was said in them.

The findings and scores of a trace whose content is forgotten stay, in numbers and names.
"""

import json
from collections import Counter
from collections.abc import Collection
from typing import Any, Final

import sqlalchemy as sa

from agenteval_collector.model.judge_jobs import FAILED_AGENT, FAILED_SPAN
from agenteval_collector.stores.access import TenantConnection, TenantDatabase, ids
from agenteval_collector.stores.agents import AgentSums
from agenteval_collector.stores.findings import refresh_sessions
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.labels import LABELS
from agenteval_collector.stores.pipeline_reads import forget_sums
from agenteval_collector.stores.problems import has_splits, refresh_problems
from agenteval_collector.stores.rows import to_json
from agenteval_collector.stores.schema import (
    SAID_INDEX,
    conversations,
    findings,
    judge_answers,
    judge_exchanges,
    labels,
    matching,
    metadata,
    outcomes,
    own,
    run_traces,
    sessions,
    trace_views,
    traces,
)
from agenteval_collector.stores.trace_json import without_content
from agenteval_collector.stores.unasked import FORGOTTEN
from otel_agenteval.outcome import SubjectKind

_REBUILD: Final = sa.text(f"INSERT INTO {SAID_INDEX}({SAID_INDEX}) VALUES ('rebuild')")
_NAMES: Final = {"constraint", "severity", "shape", "tool", "tools", FAILED_AGENT, FAILED_SPAN}
"""Keys of metadata whose values are names, and not words of the conversation. The shape of an error is the name of its
problem."""
_KEPT_BY_OTHERS: Final = {
    "outcomes": "by their subject",
    "problem_traces": "by `refresh_problems`",
    "agent_hours": "by `AgentSums`",
    "erasures": "until the log is done",
}
"""The tables with ids of traces or sessions that are cleared elsewhere, each with what clears it."""


def _about(table: sa.Table, subject: SubjectKind) -> sa.ColumnElement[bool]:
    return (table.c.subject == sa.literal_column(f"'{subject}'")) & among(table.c.subject_id, "ids")


def _naming(column: str, *but: sa.Table) -> list[tuple[sa.Table, sa.ColumnElement[bool]]]:
    """Return the tables that name a trace or a session in this column, except those in `but`. Each comes with the
    condition on its rows."""
    tables = [table for table in metadata.sorted_tables if column in table.c and table.name not in _KEPT_BY_OTHERS]
    return [(table, among(table.c[column], "ids")) for table in tables if table not in but]


_OF_SUBJECTS: Final = (outcomes, judge_exchanges, judge_answers)
OF_TRACES: Final = [*_naming("trace_id"), *((table, _about(table, SubjectKind.TRACE)) for table in _OF_SUBJECTS)]
# Three tables are left out: their rows go with the traces, and not all of them have an index by session.
OF_SESSIONS: Final = [
    *_naming("session_id", traces, run_traces, conversations),
    *((table, _about(table, SubjectKind.SESSION)) for table in _OF_SUBJECTS),
]


def erase(connection: TenantConnection, trace_ids: Collection[str], session_ids: Collection[str]) -> Counter[str]:
    """Delete traces, and the sessions that this leaves without a trace. Update the sums, and the other sessions that
    the traces were in. Return the number of removed rows by table."""
    # The sessions, the sums and the findings are read before their rows are deleted.
    touched = set(connection.execute(_SESSIONS_OF, ids(trace_ids)).scalars()) - {*session_ids}
    removed: Counter[str] = Counter()
    sums = AgentSums(connection, trace_ids)
    live = set(connection.execute(_LIVE_FINDINGS, ids(session_ids)).scalars())
    for rows, doomed in ((OF_TRACES, trace_ids), (OF_SESSIONS, session_ids)):
        for table, condition in rows if doomed else ():
            removed[table.name] += connection.execute(
                sa.delete(table).where(own(table), condition), ids(doomed)
            ).rowcount
    refresh_problems(connection, {*trace_ids, *session_ids, *live})
    sums.forget()
    connection.execute(_COUNT_TRACES, ids(touched))
    forget_sums(connection, touched)
    refresh_sessions(connection, touched)
    return +removed


def rebuild_said_index(connection: TenantConnection) -> None:
    """Make the index of what was said anew, if the database has one. No piece of a deleted text is left in it.

    FTS5 deletes a piece by a mark in a newer part of the index. The piece itself stays in the older part
    (docs/decisions/0039).
    """
    if connection.database.has_said_index:
        connection.execute(_REBUILD)


def forgotten_by(database: TenantDatabase, before: int, limit: int) -> set[str]:
    """Return the names of all whose rows `forget_content` changes: these traces, their sessions, and labels."""
    old = database.rows(_OLD.limit(limit), {"before": before})
    return {LABELS}.union(*((row.trace_id, row.session_id) for row in old)) if old else set()


def forget_content(connection: TenantConnection, before: int, limit: int) -> int:
    """Forget what was said in traces that were scored before that time (ns): at most `limit`, the oldest first. Return
    how many."""
    old = connection.execute(_OLD.limit(limit), {"before": before}).scalars().all()
    if not old:
        return 0
    # Since `forgotten_by` has looked, other traces may have become the oldest.
    connection.check_held(old)
    params = ids(old)
    for row in connection.execute(_VIEWS, params).all():
        connection.upsert(trace_views, [{**row._mapping, "view": without_content(row.view)}])
    connection.execute(_UNSAID, params)
    session_ids = set(connection.execute(_OVER, params).scalars())
    connection.check_held(session_ids)
    over = ids(session_ids)
    for subject, doomed in ((SubjectKind.TRACE, params), (SubjectKind.SESSION, over)):
        _forget_reasons(connection, outcomes, _about(outcomes, subject), doomed)
        for table in (judge_exchanges, judge_answers):
            connection.execute(sa.delete(table).where(own(table), _about(table, subject)), doomed)
    _forget_reasons(connection, findings, among(findings.c.trace_id, "ids"), params)
    connection.execute(_NOTES.where(among(labels.c.trace_id, "ids")), params)
    connection.execute(_NOTES.where(labels.c.trace_id == "", among(labels.c.session_id, "ids")), over)
    if has_splits(connection):
        refresh_problems(connection, {*old, *session_ids})
    return len(old)


def _forget_reasons(
    connection: TenantConnection, table: sa.Table, condition: sa.ColumnElement[bool], doomed: dict[str, str]
) -> None:
    """Replace the reasons of outcomes or findings, and the words in their metadata."""
    mine = own(table), condition
    statement = sa.select(table.c.metadata).distinct().where(*mine, table.c.metadata != "{}")
    for words in connection.execute(statement, doomed).scalars().all():
        changed = sa.update(table).where(*mine, table.c.metadata == sa.literal(words))
        connection.execute(changed.values(metadata=to_json(_wordless(json.loads(words)))), doomed)
    connection.execute(sa.update(table).where(*mine).values(reason=FORGOTTEN), doomed)


def _wordless(value: Any, key: str = "") -> Any:
    """Return metadata with its numbers and names kept, and every other text replaced by an empty one."""
    match value:
        case dict():
            return {name: _wordless(item, name) for name, item in value.items()}
        case list():
            return [_wordless(item, key) for item in value]
        case str():
            return value if key in _NAMES else ""
        case _:
            return value


# Not DISTINCT: with it SQLite would read all traces, in the order of their sessions.
_SESSIONS_OF: Final = sa.select(traces.c.session_id).where(own(traces), among(traces.c.trace_id, "ids"))
_LIVE_FINDINGS: Final = sa.select(findings.c.trace_id).where(own(findings), among(findings.c.session_id, "ids"))
_MEMBERS: Final = (
    sa.select(sa.func.count()).select_from(traces).where(matching(traces, sessions, "session_id")).scalar_subquery()
)
_COUNT_TRACES: Final = (
    sa.update(sessions).where(own(sessions), among(sessions.c.session_id, "ids")).values(trace_count=_MEMBERS)
)
# Sessions without a trace, last seen before `before` (ns).
EMPTY: Final = sa.select(sessions.c.session_id).where(
    own(sessions),
    sessions.c.last_seen_at < sa.bindparam("before"),
    ~sa.exists().where(matching(traces, sessions, "session_id")),
)
OLDEST_CONTENT: Final = (
    sa.select(traces.c.trace_id, traces.c.session_id, traces.c.scored_at)
    .where(own(traces), traces.c.has_content == sa.literal_column("true"))
    .order_by(traces.c.scored_at)
)
_OLD: Final = OLDEST_CONTENT.where(traces.c.scored_at < sa.bindparam("before"))
_VIEWS: Final = sa.select(trace_views).where(own(trace_views), among(trace_views.c.trace_id, "ids"))
_UNSAID: Final = (
    sa.update(traces).where(own(traces), among(traces.c.trace_id, "ids")).values(said="", has_content=False)
)
_OTHER: Final = traces.alias()
# Sessions in which nothing that was said is left.
_OVER: Final = _SESSIONS_OF.where(
    # Written so that no index fits: with the index of ages, SQLite would read all traces with content.
    ~sa.exists().where(
        own(_OTHER), _OTHER.c.session_id == traces.c.session_id, sa.func.coalesce(_OTHER.c.has_content, sa.false())
    )
)
_NOTES: Final = sa.update(labels).where(own(labels)).values(note=None)
