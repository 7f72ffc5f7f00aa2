"""Read the stored sessions of a listing, in its order, and find where its next page begins."""

from collections.abc import Iterator
from typing import Final

from sqlalchemy import ColumnElement, Table, exists, func, literal, select, tuple_

from agenteval_collector.model.cursors import Page, decode_cursor, encode_cursor, foreign_cursor
from agenteval_collector.model.session_filter import Order, SessionFilter
from agenteval_collector.model.sessions import SessionRecord
from agenteval_collector.stores.access import TenantConnection
from agenteval_collector.stores.rows import session_record
from agenteval_collector.stores.schema import findings, outcomes, own, sessions, traces

MAX_INTEGER: Final = 2**63 - 1

_NEWEST: Final = (sessions.c.last_seen_at, sessions.c.session_id)
_ORDERS: Final = {Order.NEWEST: _NEWEST, Order.ATTENTION: (sessions.c.attention, *_NEWEST)}


def read_sessions(
    connection: TenantConnection, wanted: SessionFilter, cursor: str | None, limit: int
) -> Page[SessionRecord]:
    """Return at most `limit` sessions from where the cursor points on. Raises InvalidRequest for a foreign one."""
    columns = _ORDERS[wanted.order]
    query = select(sessions).where(own(sessions), *_conditions(wanted))
    if cursor is not None:
        query = query.where(tuple_(*columns) < _place(cursor, wanted.order))
    query = query.order_by(*(column.desc() for column in columns)).limit(limit + 1)
    rows = connection.execute(query).mappings().all()
    shown = rows[:limit]
    next_cursor = None
    if len(rows) > limit:
        # Where none is shown, the next page begins with the first of all.
        first = [MAX_INTEGER] * (len(columns) - 1) + [""]
        next_cursor = encode_cursor([shown[-1][column.name] for column in columns] if shown else first)
    return Page(items=[session_record(row) for row in shown], next_cursor=next_cursor)


def _conditions(wanted: SessionFilter) -> Iterator[ColumnElement[bool]]:
    if wanted.agent is not None:
        yield sessions.c.agent == wanted.agent
    if wanted.user is not None:
        yield sessions.c.user_id == wanted.user
    if wanted.since is not None:
        yield sessions.c.last_seen_at >= wanted.since
    if wanted.until is not None:
        yield sessions.c.last_seen_at < wanted.until
    for column, value in ((sessions.c.services, wanted.service), (sessions.c.versions, wanted.version)):
        if value is not None:
            listed = func.json_each(column).table_valued("value")
            yield exists(select(literal(1)).select_from(listed).where(listed.c.value == value))
    if wanted.finding is not None or wanted.severity is not None:
        asked = {findings.c.kind: wanted.finding, findings.c.severity: wanted.severity}
        yield _has(findings, *(column == value for column, value in asked.items() if value is not None))
    if wanted.below is not None:
        yield _has(outcomes, outcomes.c.name == wanted.below.name, outcomes.c.score < wanted.below.value)
    if wanted.text is not None:
        yield _has(traces, func.instr(traces.c.said, wanted.text.casefold()) > 0)


def _has(table: Table, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Make the condition that the session has such a row of `table`."""
    is_of_session = table.c.tenant == sessions.c.tenant, table.c.session_id == sessions.c.session_id
    return exists(select(literal(1)).where(*is_of_session, *conditions))


def _place(cursor: str, order: Order) -> tuple[int | str, ...]:
    place = decode_cursor(cursor)
    *numbers, session_id = place or [None]
    are_numbers = all(isinstance(each, int) and abs(each) <= MAX_INTEGER for each in numbers)
    if len(place) != len(_ORDERS[order]) or not are_numbers or not isinstance(session_id, str):
        raise foreign_cursor(cursor)
    return place
