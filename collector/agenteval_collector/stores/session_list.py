"""Read the stored sessions of a listing, in its order, and find where its next page begins."""

from collections.abc import Iterator
from typing import Final

from sqlalchemy import ColumnElement, Table, exists, literal, select

from agenteval_collector.model.cursors import Page
from agenteval_collector.model.session_filter import Order, SessionFilter
from agenteval_collector.model.sessions import SessionRecord
from agenteval_collector.runtime.json_lists import listed
from agenteval_collector.stores.access import TenantConnection
from agenteval_collector.stores.paging import read_page
from agenteval_collector.stores.rows import session_record
from agenteval_collector.stores.schema import findings, outcomes, own, sessions
from agenteval_collector.stores.text_search import has_text

_NEWEST: Final = (sessions.c.last_seen_at, sessions.c.session_id)
_ORDERS: Final = {Order.NEWEST: _NEWEST, Order.ATTENTION: (sessions.c.attention, *_NEWEST)}


def read_sessions(
    connection: TenantConnection, wanted: SessionFilter, cursor: str | None, limit: int
) -> Page[SessionRecord]:
    """Return at most `limit` sessions from where the cursor points on. Raises InvalidRequest for a foreign one."""
    query = select(sessions).where(own(sessions), *_conditions(connection, wanted))
    page = read_page(connection, query, _ORDERS[wanted.order], limit=limit, cursor=cursor)
    return Page(items=[session_record(row) for row in page.items], next_cursor=page.next_cursor)


def _conditions(connection: TenantConnection, wanted: SessionFilter) -> Iterator[ColumnElement[bool]]:
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
            names = listed(column)
            yield exists(select(literal(1)).select_from(names).where(names.c.value == value))
    if wanted.finding is not None or wanted.severity is not None:
        asked = {findings.c.kind: wanted.finding, findings.c.severity: wanted.severity}
        yield _has(findings, *(column == value for column, value in asked.items() if value is not None))
    if wanted.below is not None:
        yield _has(outcomes, outcomes.c.name == wanted.below.name, outcomes.c.score < wanted.below.value)
    if wanted.text is not None:
        yield has_text(connection, wanted.text)


def _has(table: Table, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Make the condition that the session has such a row of `table`."""
    is_of_session = table.c.tenant == sessions.c.tenant, table.c.session_id == sessions.c.session_id
    return exists(select(literal(1)).where(*is_of_session, *conditions))
