"""Forget what was said in old traces. What was found and scored there stays, in numbers and names."""

import json
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Table,
    bindparam,
    delete,
    exists,
    false,
    func,
    literal,
    literal_column,
    select,
    update,
)

from agenteval_collector.runtime.json_lists import among
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.labels import LABELS
from agenteval_collector.stores.rows import to_json
from agenteval_collector.stores.schema import (
    findings,
    judge_answers,
    judge_exchanges,
    labels,
    outcomes,
    own,
    trace_views,
    traces,
)
from agenteval_collector.stores.trace_json import without_content
from otel_agenteval.outcome import Subject

FORGOTTEN: Final = "no longer kept (retention.content)"
"""The reason of an outcome or a finding whose reason was forgotten."""
_NAMES: Final = {"constraint", "severity", "shape", "tool", "tools"}
"""Keys of metadata under which names stand, and not words of the conversation. The shape of an error is its problem's
name."""


def forgotten_by(connection: TenantConnection, before: int, limit: int) -> set[str]:
    """Return all whose rows `forget_content` changes: these traces, their sessions, and labels."""
    old = connection.execute(_OLD.limit(limit), {"before": before}).scalars().all()
    return {*old, *connection.execute(_SESSIONS_OF, ids(old)).scalars(), LABELS} if old else set()


def forget_content(connection: TenantConnection, before: int, limit: int) -> int:
    """Forget what was said in the oldest traces scored before that time (ns), at most `limit`; return how many."""
    old = connection.execute(_OLD.limit(limit), {"before": before}).scalars().all()
    if not old:
        return 0
    connection.check_held(old)
    params = ids(old)
    for row in connection.execute(_VIEWS, params).all():
        connection.upsert(trace_views, [{"trace_id": row.trace_id, "view": without_content(row.view)}])
    connection.execute(_UNSAID, params)
    session_ids = set(connection.execute(_OVER, params).scalars())
    connection.check_held(session_ids)
    over = ids(session_ids)
    for subject, doomed in ((Subject.TRACE, params), (Subject.SESSION, over)):
        _forget_reasons(connection, outcomes, _about(outcomes, subject), doomed)
        for table in (judge_exchanges, judge_answers):
            connection.execute(delete(table).where(own(table), _about(table, subject)), doomed)
    _forget_reasons(connection, findings, among(findings.c.trace_id, "ids"), params)
    connection.execute(_NOTES.where(among(labels.c.trace_id, "ids")), params)
    connection.execute(_NOTES.where(labels.c.trace_id == "", among(labels.c.session_id, "ids")), over)
    return len(old)


def oldest_content(connection: TenantConnection, limit: int) -> int | None:
    """Return the time (ns) at which the `limit`th oldest trace with content was scored, or the last of fewer; None
    where there is none."""
    times = connection.execute(_OLDEST.limit(limit)).scalars().all()
    return times[-1] if times else None


def _forget_reasons(
    connection: TenantConnection, table: Table, condition: ColumnElement[bool], doomed: dict[str, str]
) -> None:
    """Replace the reasons of outcomes or findings, and the words in their metadata."""
    mine = own(table), condition
    told = select(table.c.metadata).distinct().where(*mine, table.c.metadata != "{}")
    for metadata in connection.execute(told, doomed).scalars().all():
        changed = update(table).where(*mine, table.c.metadata == literal(metadata))
        connection.execute(changed.values(metadata=to_json(_wordless(json.loads(metadata)))), doomed)
    connection.execute(update(table).where(*mine).values(reason=FORGOTTEN), doomed)


def _about(table: Table, subject: Subject) -> ColumnElement[bool]:
    return (table.c.subject == literal_column(f"'{subject}'")) & among(table.c.subject_id, "ids")


def _wordless(value: Any, key: str = "") -> Any:
    """Return metadata with its numbers and names, and with empty texts for all words."""
    match value:
        case dict():
            return {name: _wordless(each, name) for name, each in value.items()}
        case list():
            return [_wordless(each, key) for each in value]
        case str():
            return value if key in _NAMES else ""
        case _:
            return value


_OLD: Final = (
    select(traces.c.trace_id)
    .where(own(traces), traces.c.has_content == literal_column("true"), traces.c.scored_at < bindparam("before"))
    .order_by(traces.c.scored_at)
)
_OLDEST: Final = (
    select(traces.c.scored_at)
    .where(own(traces), traces.c.has_content == literal_column("true"))
    .order_by(traces.c.scored_at)
)
_VIEWS: Final = select(trace_views).where(own(trace_views), among(trace_views.c.trace_id, "ids"))
_UNSAID: Final = update(traces).where(own(traces), among(traces.c.trace_id, "ids")).values(said="", has_content=False)
_SESSIONS_OF: Final = select(traces.c.session_id).where(own(traces), among(traces.c.trace_id, "ids"))
_OTHER: Final = traces.alias()
# Sessions of which nothing is left that was said.
_OVER: Final = select(traces.c.session_id).where(
    own(traces),
    among(traces.c.trace_id, "ids"),
    # In a form that no index has: by that of ages SQLite would read all traces with content.
    ~exists().where(
        own(_OTHER), _OTHER.c.session_id == traces.c.session_id, func.coalesce(_OTHER.c.has_content, false())
    ),
)
_NOTES: Final = update(labels).where(own(labels)).values(note=None)
