"""Take what was deleted out of the index of what was said.

FTS5 deletes a piece by a mark in a newer part of the index. The piece itself stays in the older part until both are
merged. `optimize` merges all parts into one, which has no piece of a deleted text (docs/decisions/0039).
"""

from typing import Final

from sqlalchemy import text

from agenteval_collector.stores.access import TenantConnection
from agenteval_collector.stores.schema import SAID_INDEX

_LONGEST: Final = 3000
"""Bytes of the list of the index's parts. In older SQLite (3.40) each `optimize` makes it up to four bytes longer, and
above some 4,000 the index cannot be read any more."""
_PARTS: Final = text(f"SELECT length(block) FROM {SAID_INDEX}_data WHERE id = 10")
_OPTIMIZE, _REBUILD = (
    text(f"INSERT INTO {SAID_INDEX}({SAID_INDEX}) VALUES ('{command}')") for command in ("optimize", "rebuild")
)


def drop_deleted(connection: TenantConnection) -> None:
    """Leave nothing in the index that is in no trace any more, where there is one. Writes it again as a whole."""
    if not connection.database.has_said_index:
        return
    is_long = connection.execute(_PARTS).scalar_one() > _LONGEST
    connection.execute(_REBUILD if is_long else _OPTIMIZE)
