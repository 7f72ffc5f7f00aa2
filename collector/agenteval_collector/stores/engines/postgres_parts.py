"""Parts of tables in PostgreSQL, each with the rows of some hours. Old rows go with their part, not row by row."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, Table, text
from sqlalchemy.exc import DBAPIError

from agenteval_collector.stores.schema import PARTED_BY

PART: Final = 4 * 3600 * 1_000_000_000
"""Nanoseconds of a part. What is kept for a day then has seven parts, and stays for at most four hours longer."""
_PATIENCE: Final = "50ms"
"""The longest wait for the readers of a part that is to be dropped. Other transactions wait behind it meanwhile, so it
is short, and the drop is tried again later."""
_PARTS: Final = text(
    "SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid "
    "WHERE inhparent = to_regclass(:table) ORDER BY relname"
)


def make_parts(connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
    """Make the parts of a table that these rows belong to, if they are missing."""
    column = table.info.get(PARTED_BY)
    if column is None:
        return
    needed = {row[column] // PART for row in rows}
    if needed <= {*_parts(connection, table)}:
        return
    # Another transaction may be about to make the same parts. This lock lets those that only write rows go on.
    connection.exec_driver_sql(f"LOCK TABLE {table.name} IN SHARE UPDATE EXCLUSIVE MODE")
    # Looked up again: another transaction may have made some of them before this one had the lock.
    for number in sorted(needed - {*_parts(connection, table)}):
        name = f"{table.name}_{number}"
        connection.exec_driver_sql(f"CREATE TABLE {name} (LIKE {table.name} INCLUDING ALL)")
        # The part is made first and attached then, so that a long reader of the table, such as a copy, blocks nobody.
        bounds = f"FROM ({number * PART}) TO ({(number + 1) * PART})"
        connection.exec_driver_sql(f"ALTER TABLE {table.name} ATTACH PARTITION {name} FOR VALUES {bounds}")


def drop_parts(connection: Connection, table: Table, before: int) -> None:
    """Drop the parts in which all rows are from before that time (ns). While somebody reads the table for long, none is
    dropped."""
    old = [number for number in _parts(connection, table) if (number + 1) * PART <= before]
    if not old:
        return
    # In PostgreSQL an error ends the transaction. After the savepoint it can go on without the drop.
    connection.exec_driver_sql("SAVEPOINT parts")
    try:
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_PATIENCE}'")
        connection.exec_driver_sql(f"DROP TABLE {', '.join(f'{table.name}_{number}' for number in old)}")
        connection.exec_driver_sql("SET LOCAL lock_timeout TO DEFAULT")
    except DBAPIError as error:
        if not isinstance(error.orig, LockNotAvailable):
            raise
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT parts")
    connection.exec_driver_sql("RELEASE SAVEPOINT parts")


def _parts(connection: Connection, table: Table) -> Sequence[int]:
    """Return the numbers of the parts of a table."""
    names = connection.execute(_PARTS, {"table": table.name}).scalars()
    return [int(name.rpartition("_")[2]) for name in names]
