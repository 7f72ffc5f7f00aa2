"""Connections to the rows of one tenant. A refusal by the database is raised as Unavailable or PermanentError."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeAlias, TypeVar

from sqlalchemy import Connection, CursorResult, Delete, Engine, Executable, Row, RowMapping, Table, bindparam, delete
from sqlalchemy.exc import SQLAlchemyError

from agenteval_collector.runtime.errors import PermanentError, Unavailable
from agenteval_collector.stores.damaged_rows import UNREADABLE, DamagedRows
from agenteval_collector.stores.engines.ports import Database, WriterLocks
from agenteval_collector.stores.schema import own

P = ParamSpec("P")
T = TypeVar("T")
AnyRow = TypeVar("AnyRow", Row[Any], Mapping[Any, Any])
Values: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = "CursorResult[*tuple[Any, ...]]"
_NONE: Values = {}
MOST_HELD: Final = 1000
"""The most names that a transaction holds. A transaction with more names writes alone, because a server has room for
some thousand locks."""


class NotHeld(Exception):
    """Raised if a transaction reaches a row that it does not hold, and that others may change meanwhile."""


class TenantConnection:
    """A connection on which every statement is about one tenant. Queries read that tenant's rows by the condition
    `own`, and the rows that it adds get the tenant's name."""

    def __init__(
        self,
        connection: Connection,
        database: Database,
        tenant: str,
        locks: WriterLocks | None,
        held: Collection[str],
        damaged: DamagedRows,
    ) -> None:
        self.database = database
        self._damaged = damaged
        self._connection = connection
        self._locks = locks
        self._held = held
        self._bound = {"own": tenant}
        self._column = {"tenant": tenant}

    def execute(self, statement: Executable, values: Values = _NONE) -> Rows:
        """Run a statement with the values of its parameters."""
        return self._connection.execute(statement, {**self._bound, **values})

    def readable(
        self, table: Table, rows: Iterable[AnyRow], make: Callable[[AnyRow], T], *, key: Sequence[str]
    ) -> list[T]:
        """Make an object of each row that can be read, and note the others. `key` names columns of the rows by which
        one of them is found in its table."""
        made: list[T] = []
        for row in rows:
            try:
                made.append(make(row))
            except UNREADABLE as error:
                self._damaged.note(table.name, row._mapping if isinstance(row, Row) else row, key, error)
        return made

    def upsert(self, table: Table, rows: Iterable[Values]) -> None:
        """Insert `rows`, or update those with the same key. Each has every column of the table by its name; the tenant
        is added."""
        if full_rows := [{**row, **self._column} for row in rows]:
            self.database.upsert(self._connection, table, full_rows)

    def delete(self, table: Table, keys: Iterable[Values]) -> None:
        """Delete the rows with these keys. Each key has the columns of the table's primary key by their names; the
        tenant is added."""
        for key in keys:
            self.execute(delete_one(table), key)

    def drop_old(self, table: Table, before: int) -> bool:
        """Drop the parts of a table in which all rows are from before that time (ns). Return whether the table has
        parts. If it has, an old row stays until the newest row of its part is old. If not, the caller deletes the old
        rows."""
        return self.database.drop_old(self._connection, table, before)

    def lock_sums(self) -> None:
        """Lock the sums that the traces of all transactions add to, until this transaction ends. Wait until no other
        transaction has them locked. Do everything else before, because others wait from here on."""
        if self._locks is not None:
            self._connection.exec_driver_sql(self._locks.lock_sums)

    def check_held(self, names: Iterable[str]) -> None:
        """Raise NotHeld if other transactions may change one of these names meanwhile."""
        if self._locks is not None and not set(names) <= set(self._held):
            raise NotHeld

    def read_sql(self, sql: str, values: Values) -> Rows:
        """Run SQL that was compiled before. The driver takes a fifth of the time that SQLAlchemy takes for it."""
        return self._connection.exec_driver_sql(sql, {**self._bound, **values})


class TenantDatabase:
    """The rows of one tenant in a database, reached by one `engine` of it."""

    def __init__(self, database: Database, engine: Engine, tenant: str, damaged: DamagedRows) -> None:
        self.database = database
        self.engine = engine
        self._damaged = damaged
        self._tenant = tenant
        self._errors = (SQLAlchemyError, engine.dialect.loaded_dbapi.Error)

    def reading(self) -> AbstractContextManager[TenantConnection]:
        """Connect for look-ups. Each statement sees the store at its own moment."""
        return self._connected("read")

    def snapshot(self) -> AbstractContextManager[TenantConnection]:
        """Connect for look-ups that belong together: all statements see the store at the same moment."""
        return self._connected("read", self.database.begin_snapshot)

    def rows(self, query: Executable, values: Values = _NONE) -> Sequence[Row[Any]]:
        """Return the rows that one look-up finds."""
        with self.reading() as connection:
            return connection.execute(query, values).all()

    def mappings(self, query: Executable, values: Values = _NONE) -> Sequence[RowMapping]:
        """Return the rows that one look-up finds, by the names of their columns."""
        with self.reading() as connection:
            return connection.execute(query, values).mappings().all()

    def value(self, query: Executable, values: Values = _NONE) -> Any:
        """Return the first column of the first row that one look-up finds; None if it finds none."""
        with self.reading() as connection:
            return connection.execute(query, values).scalar()

    def change(self, statement: Executable, values: Values = _NONE) -> None:
        """Run one statement that writes, without other writers."""
        with self.writing() as connection:
            connection.execute(statement, values)

    def writing(self) -> AbstractContextManager[TenantConnection]:
        """Connect for one transaction without other writers. It is kept as a whole or not at all."""
        return self._connected("written", self.database.begin_alone)

    def sharing(self, *names: str) -> AbstractContextManager[TenantConnection]:
        """Connect for one transaction that writes beside others, if the database can do that. Transactions that hold
        one of the same `names` come one after the other."""
        locks = self.database.writer_locks
        if locks is None or len(names) > MOST_HELD:
            return self.writing()
        return self._connected("written", locks.begin_beside, locks, names)

    def write(self, names: Collection[str], change: Callable[[TenantConnection], T]) -> T:
        """Make a change to these traces and sessions in one transaction beside others. If the change reaches more
        traces or sessions, it begins anew in a transaction without other writers."""
        try:
            with self.sharing(*names) as connection:
                return change(connection)
        except NotHeld:
            with self.writing() as connection:
                return change(connection)

    @contextmanager
    def _connected(
        self, what: str, begin: Sequence[str] = (), locks: WriterLocks | None = None, names: Collection[str] = ()
    ) -> Iterator[TenantConnection]:
        with self.refusing(what), self.engine.connect() as connection:
            for statement in begin:
                connection.exec_driver_sql(statement)
            if locks is not None and names:
                locks.hold(connection, names)
            yield TenantConnection(connection, self.database, self._tenant, locks, names, self._damaged)
            if begin:
                connection.commit()

    @contextmanager
    def refusing(self, what: str) -> Iterator[None]:
        """Raise Unavailable for whatever the database refuses, and say that it cannot be `what`, such as
        "read". Raise PermanentError if the database would refuse the same again."""
        try:
            yield
        except self._errors as error:
            cause = getattr(error, "orig", None) or error  # Without SQLAlchemy's statement and parameters.
            if self.database.is_about_values(error):
                raise PermanentError(f"the store could not be {what}: {cause}") from error
            raise Unavailable(f"the store could not be {what}: {cause}") from error


@dataclass(frozen=True, slots=True)
class Snapshots(Generic[T]):
    """Opens views of the store at one moment, as objects that `of` makes from a connection. `revision` returns a
    different number when anything in the store may have changed."""

    database: TenantDatabase
    of: Callable[[TenantConnection], T]
    revision: Callable[[], int]

    @contextmanager
    def snapshot(self) -> Iterator[T]:
        """Make the object that looks at the store as it is now. Raises Unavailable."""
        with self.database.snapshot() as connection:
            yield self.of(connection)


def look_up(read: Callable[Concatenate[TenantConnection, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Make a method from a function that reads over a connection. The object needs a method `reading` that connects."""

    @wraps(read)
    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.reading() as connection:
            return read(connection, *args, **kwargs)

    return method


def ids(values: Iterable[str]) -> dict[str, str]:
    """Return the value of the parameter `ids` for a condition by `stores.json_lists.among`."""
    return {"ids": json.dumps(list(values))}


@cache
def delete_one(table: Table) -> Delete:
    """Return the statement that deletes a row by its key. Its parameters have the names of the key's columns."""
    key = (column == bindparam(column.name) for column in table.primary_key if column.name != "tenant")
    return delete(table).where(own(table), *key)
