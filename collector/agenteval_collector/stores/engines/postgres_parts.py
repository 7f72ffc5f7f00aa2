"""Parts of tables in PostgreSQL, each with the rows of some hours: what is old goes with its part, not row by row."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, Table, text
from sqlalchemy.exc import DBAPIError

from agenteval_collector.stores.schema import PARTED_BY

PART: Final = 4 * 3600 * 1_000_000_000
"""Nanoseconds of a part. What is kept for a day has seven parts then, and stays for four hours more at most."""
_PATIENCE: Final = "50ms"
"""How long the end of a part waits for its readers. Others wait behind it meanwhile; it is tried again later."""
_PARTS: Final = text(
    "SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid "
    "WHERE inhparent = to_regclass(:table) ORDER BY relname"
)


def make_parts(connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
    """Make the parts of a table that these rows belong to."""
    column = table.info.get(PARTED_BY)
    if column is None:
        return
    needed = {row[column] // PART for row in rows}
    if needed <= {*_parts(connection, table)}:
        return
    # Others may be about to make the same; who writes rows goes on meanwhile.
    connection.exec_driver_sql(f"LOCK TABLE {table.name} IN SHARE UPDATE EXCLUSIVE MODE")
    for number in sorted(needed - {*_parts(connection, table)}):
        name = f"{table.name}_{number}"
        connection.exec_driver_sql(f"CREATE TABLE {name} (LIKE {table.name} INCLUDING ALL)")
        # Apart from making it: so a long reader of the table, as a copy is, holds up nobody.
        bounds = f"FROM ({number * PART}) TO ({(number + 1) * PART})"
        connection.exec_driver_sql(f"ALTER TABLE {table.name} ATTACH PARTITION {name} FOR VALUES {bounds}")


def drop_parts(connection: Connection, table: Table, before: int) -> None:
    """Drop the parts with rows from before that time (ns) alone, unless somebody reads the table for long."""
    old = [number for number in _parts(connection, table) if (number + 1) * PART <= before]
    if not old:
        return
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
