"""Find the sessions in which something was said, by the index of `traces.said` where that leads to few traces."""

import json
from typing import Final

from sqlalchemy import ColumnElement, String, bindparam, exists, literal, literal_column, select, text

from agenteval_collector.runtime.json_lists import listed
from agenteval_collector.stores.access import TenantConnection
from agenteval_collector.stores.schema import SAID_INDEX, sessions, traces
from otel_agenteval.text import storable

FEW: Final = 10_000
"""Traces that are looked at one by one. Where more may have the text, it is soon found in some session."""
_LENGTH: Final = 3
"""Characters of a piece."""
_MOST: Final = 64
"""Pieces of a long text that are looked up: a query may have so many."""


def has_text(connection: TenantConnection, said: str, *, few: int = FEW) -> ColumnElement[bool]:
    """Make the condition that this was said in a session, in whatever case."""
    folded = storable(said.casefold())
    is_said = connection.database.contains(traces.c.said, folded)
    rows = _rows(connection, folded, few)
    if rows is None:
        is_of_session = traces.c.tenant == sessions.c.tenant, traces.c.session_id == sessions.c.session_id
        return exists(select(literal(1)).where(*is_of_session, is_said))
    numbers = listed(bindparam("rows", json.dumps(rows), type_=String))
    is_listed = literal_column("traces.rowid").in_(select(numbers.c.value))
    # With the plus: else SQLite goes through all traces of the tenant, as an index begins with it.
    is_own = literal_column("+traces.tenant") == bindparam("own")
    return sessions.c.session_id.in_(select(traces.c.session_id).where(is_own, is_listed, is_said))


def _rows(connection: TenantConnection, folded: str, few: int) -> list[int] | None:
    """Return the rows of the traces that have all pieces of the text; None where these are many, it has none, or
    there is no index to ask."""
    if not connection.database.has_said_index:
        return None
    pieces = dict.fromkeys(folded[start : start + _LENGTH] for start in range(len(folded) - _LENGTH + 1))
    if not pieces:
        return None
    match = " AND ".join('"' + piece.replace('"', '""') + '"' for piece in list(pieces)[:_MOST])
    found = connection.execute(_FOUND, {"match": match, "most": few + 1}).scalars().all()
    return list(found) if len(found) <= few else None


_FOUND: Final = text(f"SELECT rowid FROM {SAID_INDEX} WHERE {SAID_INDEX} MATCH :match LIMIT :most")
