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
from agenteval_collector.stores.inventory import INVENTORY, Erased
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.labels import LABELS
from agenteval_collector.stores.pipeline_reads import forget_sums
from agenteval_collector.stores.problems import has_splits, refresh_problems
from agenteval_collector.stores.rows import to_json
from agenteval_collector.stores.schema import (
    SAID_INDEX,
    agent_hours,
    alarm_examples,
    alarm_watches,
    alarms,
    findings,
    judge_answers,
    judge_exchanges,
    labels,
    matching,
    metadata,
    outcomes,
    own,
    problem_moves,
    problems,
    run_reports,
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


def _about(table: sa.Table, subject: SubjectKind) -> sa.ColumnElement[bool]:
    return (table.c.subject == sa.literal_column(f"'{subject}'")) & among(table.c.subject_id, "ids")


def _erased_by(erased: Erased) -> list[sa.Table]:
    return [table for table in metadata.sorted_tables if erased in INVENTORY[table.name].erased]


OF_TRACES: Final = [
    *((table, among(table.c.trace_id, "ids")) for table in _erased_by(Erased.TRACE)),
    *((table, _about(table, SubjectKind.TRACE)) for table in _erased_by(Erased.SUBJECT)),
]
"""The tables with rows of a deleted trace, each with the condition on its rows."""
OF_SESSIONS: Final = [
    *((table, among(table.c.session_id, "ids")) for table in _erased_by(Erased.SESSION)),
    *((table, _about(table, SubjectKind.SESSION)) for table in _erased_by(Erased.SUBJECT)),
]
"""The same of a deleted session."""


def erase(connection: TenantConnection, trace_ids: Collection[str], session_ids: Collection[str]) -> Counter[str]:
    """Delete traces, and the sessions that this leaves without a trace. Update the sums, and the other sessions that
    the traces were in. Return the number of removed rows by table."""
    # The sessions, the sums and the findings are read before their rows are deleted.
    touched = set(connection.execute(_SESSIONS_OF, ids(trace_ids)).scalars()) - {*session_ids}
    removed: Counter[str] = Counter()
    sums = AgentSums(connection, trace_ids)
    live = set(connection.execute(_LIVE_FINDINGS, ids(session_ids)).scalars())
    runs = set(connection.execute(_RUNS_OF, ids(trace_ids)).all())
    shown_in = set(connection.execute(_ALARMS_OF, ids(trace_ids)).scalars())
    agents = {(agent or "", service or "") for agent, service in connection.execute(_AGENTS_OF, ids(trace_ids))}
    agents |= {(agent or "", service or "") for agent, service in connection.execute(_ACTORS_OF, ids(trace_ids))}
    for rows, doomed in ((OF_TRACES, trace_ids), (OF_SESSIONS, session_ids)):
        for table, condition in rows if doomed else ():
            removed[table.name] += connection.execute(
                sa.delete(table).where(own(table), condition), ids(doomed)
            ).rowcount
    for task_id, run_id in runs:
        removed[run_reports.name] += connection.execute(_LEFT_REPORTS, {"task": task_id, "run": run_id}).rowcount
    refresh_problems(connection, {*trace_ids, *session_ids, *live})
    sums.forget()
    removed[alarms.name] += connection.execute(_LEFT_ALARMS, ids(shown_in)).rowcount
    for agent, service in agents:
        for statement in _OF_NO_AGENT:
            connection.execute(statement, {"agent": agent, "service": service})
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


def _text(table: sa.Table, name: str) -> sa.ColumnElement[str]:
    return sa.func.coalesce(table.c[name], "") if table.c[name].nullable else table.c[name]


# Not DISTINCT: with it SQLite would read all traces, in the order of their sessions.
_SESSIONS_OF: Final = sa.select(traces.c.session_id).where(own(traces), among(traces.c.trace_id, "ids"))
# Not DISTINCT: with it SQLite would read all runs.
_RUNS_OF: Final = sa.select(run_traces.c.task_id, run_traces.c.run_id).where(
    own(run_traces), among(run_traces.c.trace_id, "ids")
)
# With the time, which is in no index: else SQLite would read all examples in the order of their alarms.
_ALARMS_OF: Final = sa.select(alarm_examples.c.alarm_id, alarm_examples.c.seen_at).where(
    own(alarm_examples), among(alarm_examples.c.trace_id, "ids")
)
_AGENTS_OF: Final = sa.select(traces.c.agent, traces.c.service).where(own(traces), among(traces.c.trace_id, "ids"))
_ACTORS_OF: Final = sa.select(findings.c.agent, findings.c.service).where(
    own(findings), among(findings.c.trace_id, "ids")
)
# Alarms whose examples are all deleted.
_LEFT_ALARMS: Final = sa.delete(alarms).where(
    own(alarms),
    among(alarms.c.alarm_id, "ids"),
    ~sa.exists().where(matching(alarm_examples, alarms, "alarm_id")),
)
# What is known of an agent, if no trace of it is left.
_OF_NO_AGENT: Final = [
    sa.delete(table).where(
        own(table),
        *(_text(table, name) == sa.bindparam(name) for name in ("agent", "service")),
        *(
            ~sa.exists().where(own(other), *(_text(other, name) == sa.bindparam(name) for name in ("agent", "service")))
            for other in (agent_hours, problems)
        ),
    )
    for table in (alarms, alarm_watches, problem_moves)
]
# The reports on a run of which no trace is left. Whoever reported may not have known the session.
_LEFT_REPORTS: Final = sa.delete(run_reports).where(
    own(run_reports),
    run_reports.c.task_id == sa.bindparam("task"),
    run_reports.c.run_id == sa.bindparam("run"),
    ~sa.exists().where(own(run_traces), *(run_traces.c[name] == run_reports.c[name] for name in ("task_id", "run_id"))),
)
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
