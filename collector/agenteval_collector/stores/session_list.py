"""Read the stored sessions of a listing, in its order, and find where its next page begins."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Table, exists, func, literal, select, tuple_

from agenteval_collector.model.cursors import decode_cursor, encode_cursor, foreign_cursor
from agenteval_collector.model.running import RunningTrace
from agenteval_collector.model.session_filter import Order, SessionFilter
from agenteval_collector.stores.schema import findings, outcomes, sessions, traces

MAX_INTEGER: Final = 2**63 - 1

_NEWEST: Final = (sessions.c.last_seen_at, sessions.c.session_id)
_ORDERS: Final = {Order.NEWEST: _NEWEST, Order.ATTENTION: (sessions.c.attention, *_NEWEST)}


def read_sessions(
    connection: Connection, tenant: str, wanted: SessionFilter, cursor: str | None, limit: int
) -> Sequence[Row[Any]]:
    """At most `limit` rows of sessions from where the cursor points on. Raises InvalidRequest for a foreign one."""
    columns = _ORDERS[wanted.order]
    query = select(sessions).where(sessions.c.tenant == tenant, *_conditions(wanted))
    if cursor is not None:
        query = query.where(tuple_(*columns) < _place(cursor, wanted.order))
    return connection.execute(query.order_by(*(column.desc() for column in columns)).limit(limit)).all()


def cursor_after(row: Row[Any] | None, order: Order) -> str:
    """The cursor that leads to what follows this row; None: to the first row of all."""
    if row is None:
        return encode_cursor([MAX_INTEGER, ""] if order is Order.NEWEST else [MAX_INTEGER, MAX_INTEGER, ""])
    return encode_cursor([getattr(row, column.name) for column in _ORDERS[order]])


def may_be_wanted(wanted: SessionFilter, running: Sequence[RunningTrace]) -> bool:
    """Whether a session of which nothing is stored is wanted, as far as its running traces tell: of them neither the
    version is known, nor a score, nor what was said."""
    if wanted.version is not None or wanted.below is not None or wanted.text is not None or wanted.until is not None:
        return False
    asked = {"agent": wanted.agent, "service": wanted.service, "user_id": wanted.user}
    return all(
        value is None or any(getattr(trace, name) == value for trace in running) for name, value in asked.items()
    )


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
    """Whether the session has such a row of `table`."""
    is_of_session = table.c.tenant == sessions.c.tenant, table.c.session_id == sessions.c.session_id
    return exists(select(literal(1)).where(*is_of_session, *conditions))


def _place(cursor: str, order: Order) -> tuple[int | str, ...]:
    place = decode_cursor(cursor)
    *numbers, session_id = place or [None]
    are_numbers = all(isinstance(each, int) and abs(each) <= MAX_INTEGER for each in numbers)
    if len(place) != len(_ORDERS[order]) or not are_numbers or not isinstance(session_id, str):
        raise foreign_cursor(cursor)
    return place
