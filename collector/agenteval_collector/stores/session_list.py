"""Read the stored sessions of a listing, in its order. A search for a text uses the index of `traces.said` if the index
leads to few traces."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, String, Table, bindparam, exists, literal, literal_column, select, text

from agenteval_collector.model.cursors import Page
from agenteval_collector.model.effort import NO_EFFORT
from agenteval_collector.model.session_filter import Order, SessionFilter
from agenteval_collector.model.sessions import AttentionRow, SessionState
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.json_lists import among, listed
from agenteval_collector.stores.paging import read_page
from agenteval_collector.stores.rows import JUDGED_FAILED, effort_from, session_state
from agenteval_collector.stores.schema import SAID_INDEX, findings, matching, outcomes, own, sessions, traces
from otel_agenteval.internal.text import storable

FEW: Final = 10_000
"""The most traces that are looked at one by one. If more may have the text, a session with it is found soon."""
_LENGTH: Final = 3
"""Characters of a piece in the index."""
_MOST: Final = 64
"""The most pieces of a long text that are looked up: a query may have so many."""

_NEWEST: Final = (sessions.c.last_seen_at, sessions.c.session_id)
_ORDERS: Final = {Order.NEWEST: _NEWEST, Order.ATTENTION: (sessions.c.attention, *_NEWEST)}


def read_sessions(
    connection: TenantConnection, wanted: SessionFilter, cursor: str | None, limit: int
) -> Page[SessionState]:
    """Return at most `limit` sessions from where the cursor points. Raises InvalidRequest for a cursor of another
    listing."""
    query = select(sessions).where(own(sessions), *_conditions(connection, wanted))
    page = read_page(connection, query, _ORDERS[wanted.order], limit=limit, cursor=cursor)
    shown = connection.readable(sessions, page.items, session_state, key=["session_id"])
    return Page(items=shown, next_cursor=page.next_cursor)


def read_attention(connection: TenantConnection, wanted: SessionFilter, most: int) -> list[AttentionRow]:
    """Return what the newest wanted sessions are ordered by attention with, `most` at most."""
    query = select(*_FACTS).where(own(sessions), *_conditions(connection, wanted))
    rows = connection.execute(query.order_by(sessions.c.last_seen_at.desc(), sessions.c.session_id.desc()).limit(most))
    return connection.readable(sessions, rows, _attention_of, key=["session_id"])


def _attention_of(row: Row[Any]) -> AttentionRow:
    return AttentionRow(
        session_id=row.session_id,
        effort=effort_from(row.effort),
        last=NO_EFFORT if row.last is None else effort_from(row.last),
        errors=row.errors,
        warnings=row.warnings,
        infos=row.infos,
        judged_failed=bool(row.attention & JUDGED_FAILED),
    )


def read_sessions_of(connection: TenantConnection, session_ids: Sequence[str]) -> list[SessionState]:
    """Return the sessions with these ids that are stored, in this order."""
    query = select(sessions).where(own(sessions), among(sessions.c.session_id, "ids"))
    rows = connection.execute(query, ids(session_ids)).mappings()
    found = {
        state.session_id: state for state in connection.readable(sessions, rows, session_state, key=["session_id"])
    }
    return [found[session_id] for session_id in session_ids if session_id in found]


_LAST: Final = (
    select(traces.c.effort)
    .where(matching(traces, sessions, "session_id"))
    .order_by(traces.c.started_at.desc(), traces.c.trace_id.desc())
    .limit(1)
    .scalar_subquery()
)
_FACTS: Final = [
    *(sessions.c[name] for name in ("session_id", "effort", "errors", "warnings", "infos", "attention")),
    _LAST.label("last"),
]


def _conditions(connection: TenantConnection, wanted: SessionFilter) -> Iterator[ColumnElement[bool]]:
    if wanted.agent is not None:
        yield sessions.c.agent == wanted.agent
        if wanted.service is not None:
            yield sessions.c.service == wanted.service
    if wanted.user is not None:
        yield sessions.c.user_id == wanted.user
    if wanted.environment is not None:
        yield sessions.c.environment == wanted.environment
    if wanted.since is not None:
        yield sessions.c.last_seen_at >= wanted.since
    if wanted.until is not None:
        yield sessions.c.last_seen_at < wanted.until
    took_part = wanted.service if wanted.agent is None else None
    for column, value in ((sessions.c.services, took_part), (sessions.c.versions, wanted.version)):
        if value is not None:
            names = listed(column)
            yield exists(select(literal(1)).select_from(names).where(names.c.value == value))
    if wanted.finding is not None or wanted.severity is not None:
        filters = {findings.c.kind: wanted.finding, findings.c.severity: wanted.severity}
        yield _has(findings, *(column == value for column, value in filters.items() if value is not None))
    if wanted.below is not None:
        yield _has(outcomes, outcomes.c.name == wanted.below.name, outcomes.c.score < wanted.below.value)
    if wanted.text is not None:
        yield has_text(connection, wanted.text)


def _has(table: Table, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Make the condition that `table` has a row of the session that fulfils the `conditions`."""
    return exists(select(literal(1)).where(matching(table, sessions, "session_id"), *conditions))


def has_text(connection: TenantConnection, text: str, *, few: int = FEW) -> ColumnElement[bool]:
    """Make the condition that this was said in a session, in upper or lower case."""
    condition, is_listed = said_in(connection, text, few=few)
    if not is_listed:
        return _has(traces, condition)
    # The plus keeps SQLite from an index that begins with the tenant: by that, it would go through all traces of the
    # tenant.
    is_own = literal_column("+traces.tenant") == bindparam("own")
    return sessions.c.session_id.in_(select(traces.c.session_id).where(is_own, condition))


def said_in(connection: TenantConnection, text: str, *, few: int = FEW) -> tuple[ColumnElement[bool], bool]:
    """Make the condition that this was said in a trace, in upper or lower case. Also return whether the condition lists
    the traces, so that it is fastest to begin with it."""
    folded = storable(text.casefold())
    is_said = connection.database.contains(traces.c.said, folded)
    rows = _rows(connection, folded, few)
    if rows is None:
        return is_said, False
    numbers = listed(bindparam("rows", json.dumps(rows), type_=String))
    return literal_column("traces.rowid").in_(select(numbers.c.value)) & is_said, True


def _rows(connection: TenantConnection, folded: str, few: int) -> list[int] | None:
    """Return the rowids of the traces that have all pieces of the text. Return None if these are many, the text has
    no piece, or there is no index."""
    if not connection.database.has_said_index:
        return None
    pieces = dict.fromkeys(folded[start : start + _LENGTH] for start in range(len(folded) - _LENGTH + 1))
    if not pieces:
        return None
    # In FTS5 a quotation mark within a quoted text is doubled.
    match = " AND ".join('"' + piece.replace('"', '""') + '"' for piece in list(pieces)[:_MOST])
    matches = connection.execute(_FOUND, {"match": match, "most": few + 1}).scalars().all()
    return list(matches) if len(matches) <= few else None


_FOUND: Final = text(f"SELECT rowid FROM {SAID_INDEX} WHERE {SAID_INDEX} MATCH :match LIMIT :most")
