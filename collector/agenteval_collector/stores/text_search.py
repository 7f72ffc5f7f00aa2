"""Find the sessions in which something was said, by the index of `traces.said` where that leads to few traces; and take
what was deleted out of that index.

FTS5 deletes a piece by a mark in a newer part of the index. The piece itself stays in the older part until both are
merged. `optimize` merges all parts into one, which has no piece of a deleted text (docs/decisions/0039).
"""

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

_LONGEST: Final = 3000
"""Bytes of the list of the index's parts. In older SQLite (3.40) each `optimize` makes it up to four bytes longer, and
above some 4,000 the index cannot be read any more."""
_PARTS: Final = text(f"SELECT length(block) FROM {SAID_INDEX}_data WHERE id = 10")
_OPTIMIZE, _REBUILD = (
    text(f"INSERT INTO {SAID_INDEX}({SAID_INDEX}) VALUES ('{command}')") for command in ("optimize", "rebuild")
)


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


def drop_deleted(connection: TenantConnection) -> None:
    """Leave nothing in the index that is in no trace any more, where there is one. Writes it again as a whole."""
    if not connection.database.has_said_index:
        return
    is_long = connection.execute(_PARTS).scalar_one() > _LONGEST
    connection.execute(_REBUILD if is_long else _OPTIMIZE)
