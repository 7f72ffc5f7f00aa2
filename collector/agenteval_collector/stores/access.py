"""Connections to the rows of one tenant. Whatever the database refuses is raised as Unavailable."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from sqlalchemy import Connection, CursorResult, Engine, Executable
from sqlalchemy.exc import SQLAlchemyError

from agenteval_collector.runtime.errors import Unavailable

Values: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = "CursorResult[*tuple[Any, ...]]"
_NONE: Values = {}


class TenantConnection:
    """A connection on which every statement is about one tenant: what it reads by `own`, and the rows that it adds."""

    def __init__(self, connection: Connection, tenant: str) -> None:
        self._connection = connection
        self._bound = {"own": tenant}
        self._column = {"tenant": tenant}

    def execute(self, statement: Executable, values: Values = _NONE) -> Rows:
        """Run a statement with the values of its parameters."""
        return self._connection.execute(statement, {**self._bound, **values})

    def insert(self, statement: Executable, rows: Iterable[Values]) -> None:
        """Run a statement that adds rows, for each of these."""
        if added := [{**self._column, **row} for row in rows]:
            self._connection.execute(statement, added)

    def read_sql(self, sql: str, values: Values) -> Rows:
        """Run SQL that was made before: the driver does so in a fifth of the time that SQLAlchemy takes to."""
        return self._connection.exec_driver_sql(sql, {**self._bound, **values})

    def insert_sql(self, sql: str, rows: Iterable[Values]) -> None:
        """Run SQL that adds rows, which was made before, for each of these."""
        if added := [{**self._column, **row} for row in rows]:
            self._connection.exec_driver_sql(sql, added)


class TenantDatabase:
    """The rows of one tenant in the database behind `engine`."""

    def __init__(self, engine: Engine, tenant: str) -> None:
        self.engine = engine
        self._tenant = tenant

    @contextmanager
    def reading(self) -> Iterator[TenantConnection]:
        """Connect for look-ups; each statement sees the store at its own moment."""
        try:
            with self.engine.connect() as connection:
                yield TenantConnection(connection, self._tenant)
        except SQLAlchemyError as error:
            raise Unavailable(f"the store could not be read: {error}") from error

    @contextmanager
    def snapshot(self) -> Iterator[TenantConnection]:
        """Connect for look-ups that belong together: all statements see the store at the same moment."""
        try:
            with self.engine.connect() as connection:
                connection.exec_driver_sql("BEGIN")
                yield TenantConnection(connection, self._tenant)
        except SQLAlchemyError as error:
            raise Unavailable(f"the store could not be read: {error}") from error

    @contextmanager
    def writing(self) -> Iterator[TenantConnection]:
        """Connect for one transaction without other writers: it is kept as a whole or not at all."""
        try:
            with self.engine.begin() as connection:
                # A write that starts as a read would fail, not wait, when another one gets in between.
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield TenantConnection(connection, self._tenant)
        except SQLAlchemyError as error:
            raise Unavailable(f"the store could not be written: {error}") from error
