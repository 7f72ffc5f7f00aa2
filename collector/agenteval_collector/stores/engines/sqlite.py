"""A SQLite file with the rows of a tenant. It needs no other program."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Dialect, Engine, Table, func
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite import insert

from agenteval_collector.runtime.database import open_database
from agenteval_collector.runtime.database_file import DatabaseFile
from agenteval_collector.stores.engines.ports import WriterLocks
from agenteval_collector.stores.schema import upsert_of

MAX_ROWS: Final = 64
"""The most rows that one statement writes: a power of two."""
STATEMENTS: Final = 512
"""The most statements that are kept, those that were used last. A connection keeps as many."""


class SqliteFile:
    """The `Database` in the file at `path`."""

    begin_snapshot: Sequence[str] = ("BEGIN",)
    # A transaction that begins with a read, and then writes, would fail instead of waiting if another one wrote in
    # between.
    begin_alone: Sequence[str] = ("BEGIN IMMEDIATE",)
    writer_locks: WriterLocks | None = None
    is_shared = False

    has_said_index = True

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.dialect: Dialect = sqlite.dialect(paramstyle="named")
        self._path = path

    def engine(self, *, durable: bool, pool_size: int) -> Engine:
        return open_database(self._path, synchronous="FULL" if durable else "NORMAL", pool_size=pool_size)

    @contextmanager
    def migrating(self, engine: Engine) -> Iterator[Connection]:
        with engine.begin() as connection:
            connection.exec_driver_sql("BEGIN")  # The driver begins none for a CREATE: each would be kept by itself.
            yield connection

    def upsert(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        driver: Any = connection.connection.driver_connection
        columns = [*zip(*map(itemgetter(*table.columns.keys()), rows), strict=True)]
        # The driver looks for an adapter for each None, which takes longer than to write the column. Most columns that
        # have one have nothing else.
        empty = frozenset(index for index, values in enumerate(columns) if values.count(None) == len(rows))
        lines = [*zip(*(values for index, values in enumerate(columns) if index not in empty), strict=True)]
        done = 0
        while remaining := len(lines) - done:
            # The largest power of two of rows that fits, which needs few statements: with each one the interpreter
            # changes threads.
            count = min(MAX_ROWS, 1 << remaining.bit_length() - 1)
            # Straight by the driver: these rows need no conversion, and SQLAlchemy would look at each value for one.
            driver.execute(_upsert_sql(table, count, empty), [*chain.from_iterable(lines[done : done + count])])
            done += count

    def drop_old(self, connection: Connection, table: Table, before: int) -> bool:
        """Return False: a file has no parts."""
        return False

    def contains(self, column: ColumnElement[str], text: str) -> ColumnElement[bool]:
        return func.instr(column, text) > 0

    def is_about_values(self, error: Exception) -> bool:
        return False

    def take_duty(self) -> bool:
        """Return True: no other process writes to the file."""
        return True

    def files(self, engine: Engine) -> Sequence[DatabaseFile]:
        return [DatabaseFile(self._path, engine)]

    def close(self) -> None:
        """Do nothing: nothing is open beside the engines."""


@lru_cache(STATEMENTS)
def _upsert_sql(table: Table, count: int, empty: Collection[int]) -> str:
    """Return the SQL that writes `count` rows. It has a parameter for each column of each row, in the table's order,
    except for the columns at the places in `empty`, which become NULL."""
    row = f"({', '.join('?' for _ in table.columns)})"
    values = f"({', '.join('NULL' if number in empty else '?' for number in range(len(table.columns)))})"
    return _upsert_one(table).replace(row, ", ".join(count * [values]), 1)


@cache
def _upsert_one(table: Table) -> str:
    return str(upsert_of(table, insert).compile(dialect=sqlite.dialect(paramstyle="qmark")))
