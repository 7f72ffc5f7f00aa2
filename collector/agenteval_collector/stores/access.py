"""Connections to the rows of one tenant. Whatever the database refuses is raised as Unavailable."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from itertools import chain
from operator import itemgetter
from typing import Any, Final, Generic, TypeAlias, TypeVar

from sqlalchemy import ColumnElement, Connection, CursorResult, Engine, Executable, Table, func
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite import insert

from agenteval_collector.runtime.database import DATABASE_ERRORS
from agenteval_collector.runtime.errors import Unavailable
from agenteval_collector.stores.schema import ON_CONFLICT

T = TypeVar("T")
Values: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = "CursorResult[*tuple[Any, ...]]"
_NONE: Values = {}
MAX_ROWS: Final = 64
"""Rows that one statement keeps at most: a power of two."""
_CHANGED: Final[Mapping[str, Callable[[Any, Any], ColumnElement[Any]]]] = {
    "replace": lambda old, new: new,
    "or": lambda old, new: old | new,
    "add": lambda old, new: old + new,
    "fill": lambda old, new: func.coalesce(new, old),
}
"""The value of a column after a row of the same key came, from the old and the new one; see `schema.ON_CONFLICT`."""


class TenantConnection:
    """A connection on which every statement is about one tenant: what it reads by `own`, and the rows that it adds."""

    def __init__(self, connection: Connection, tenant: str) -> None:
        self._connection = connection
        self._driver: Any = connection.connection.driver_connection
        self._bound = {"own": tenant}

    def execute(self, statement: Executable, values: Values = _NONE) -> Rows:
        """Run a statement with the values of its parameters."""
        return self._connection.execute(statement, {**self._bound, **values})

    def upsert(self, table: Table, rows: Iterable[Values]) -> None:
        """Keep `rows`, each with every column of the table by its name, in place of those of the same key."""
        tenant = self._bound["own"]
        kept = [(tenant, *values) for values in map(_values_of(table), rows)]
        while kept:
            # As many rows at once as there are statements for: with each statement the interpreter changes threads.
            count = min(MAX_ROWS, 1 << len(kept).bit_length() - 1)
            # By the driver: rows need nothing done to them, and SQLAlchemy looks at each for what might be done.
            self._driver.execute(_upsert_sql(table, count), [*chain.from_iterable(kept[:count])])
            del kept[:count]

    def read_sql(self, sql: str, values: Values) -> Rows:
        """Run SQL that was made before: the driver does so in a fifth of the time that SQLAlchemy takes to."""
        return self._connection.exec_driver_sql(sql, {**self._bound, **values})


class TenantDatabase:
    """The rows of one tenant in the database behind `engine`."""

    def __init__(self, engine: Engine, tenant: str) -> None:
        self.engine = engine
        self._tenant = tenant

    def reading(self) -> AbstractContextManager[TenantConnection]:
        """Connect for look-ups; each statement sees the store at its own moment."""
        return self._connected("read")

    def snapshot(self) -> AbstractContextManager[TenantConnection]:
        """Connect for look-ups that belong together: all statements see the store at the same moment."""
        return self._connected("read", "BEGIN")

    def writing(self) -> AbstractContextManager[TenantConnection]:
        """Connect for one transaction without other writers: it is kept as a whole or not at all."""
        # A write that starts as a read would fail, not wait, when another one gets in between.
        return self._connected("written", "BEGIN IMMEDIATE")

    @contextmanager
    def _connected(self, done: str, begin: str | None = None) -> Iterator[TenantConnection]:
        with self.refusing(done), self.engine.connect() as connection:
            if begin is not None:
                connection.exec_driver_sql(begin)
            yield TenantConnection(connection, self._tenant)
            if begin is not None:
                connection.commit()

    @contextmanager
    def refusing(self, done: str) -> Iterator[None]:
        """Raise Unavailable for whatever the database refuses, saying what could not be `done`."""
        try:
            yield
        except DATABASE_ERRORS as error:
            raise Unavailable(f"the store could not be {done}: {error}") from error


class Snapshots(Generic[T]):
    """Looks at the store at one moment, by what `of` makes of a connection."""

    def __init__(self, database: TenantDatabase, of: Callable[[TenantConnection], T]) -> None:
        self._database = database
        self._of = of

    @contextmanager
    def snapshot(self) -> Iterator[T]:
        """Make what looks at the store as it is now. Raises Unavailable."""
        with self._database.snapshot() as connection:
            yield self._of(connection)


def ids(values: Iterable[str]) -> dict[str, str]:
    """Return the value of the parameter `ids` of a condition by `runtime.database.among`."""
    return {"ids": json.dumps(list(values))}


@cache
def _values_of(table: Table) -> Callable[[Values], tuple[Any, ...]]:
    """Return what takes the values of a row in the table's order, but for the tenant, which stands first."""
    first, *names = table.columns.keys()
    assert first == "tenant"
    # Of a single name it would take the value by itself.
    return itemgetter(*names) if len(names) > 1 else lambda row: tuple(map(row.__getitem__, names))


@cache
def _upsert_sql(table: Table, count: int) -> str:
    """Return SQL that keeps `count` rows, with a parameter for every column of each, in the table's order."""
    row = f"({', '.join('?' for _ in table.columns)})"
    return _upsert_one(table).replace(row, ", ".join(count * [row]), 1)


@cache
def _upsert_one(table: Table) -> str:
    statement = insert(table)
    changes = {
        column.name: _CHANGED[column.info.get(ON_CONFLICT, "replace")](column, statement.excluded[column.name])
        for column in table.columns
        if not column.primary_key and column.info.get(ON_CONFLICT) != "keep"
    }
    statement = statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=changes)
    return str(statement.compile(dialect=sqlite.dialect(paramstyle="qmark")))
