"""A schema of a PostgreSQL database with the rows of a tenant. This module is imported only if `store.url` asks for
it."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import psycopg
from sqlalchemy import ColumnElement, Connection, Dialect, Engine, NullPool, Table, create_engine, event, make_url, text
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from agenteval_collector.model.callers import DEFAULT_TENANT
from agenteval_collector.runtime.database_file import DatabaseFile
from agenteval_collector.runtime.errors import Unavailable
from agenteval_collector.stores.engines.ports import Use, WriterLocks
from agenteval_collector.stores.engines.postgres_locks import PostgresDuty, SchemaLocks, claim
from agenteval_collector.stores.engines.postgres_parts import drop_parts, make_parts
from agenteval_collector.stores.engines.postgres_sessions import CONNECT_WITHIN, check, options_of, read_numbers, shown
from agenteval_collector.stores.schema import upsert_of


class PostgresSchema:
    """The `Database` in the tenant's schema behind `url`."""

    begin_snapshot: Sequence[str] = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",)
    has_said_index = False

    def __init__(self, url: str, tenant: str = DEFAULT_TENANT, *, use: Use = Use.ALONE) -> None:
        """Connect, and claim the schema. Raises Unavailable if the server cannot be reached, PermanentError if it
        cannot be used."""
        self._url = make_url(url)
        self.schema = "agenteval" if tenant == DEFAULT_TENANT else f"agenteval_{tenant}"
        if len(self.schema) > 63:  # A longer name would be cut, to one that may be another tenant's.
            # No tenant's name has an underscore, so no other tenant's schema has this name.
            self.schema = f"agenteval__{hashlib.sha256(tenant.encode()).hexdigest()[:40]}"
        self.name = f"the schema {self.schema} of {shown(self._url)}"
        self.is_shared = use is not Use.ALONE
        self.dialect: Dialect = _dialect()
        self._locks = SchemaLocks(self.schema)
        self.begin_alone = self._locks.begin_alone
        self.writer_locks: WriterLocks | None = self._locks
        # The claim's connection is in no pool, because it is held as long as this object is open.
        self._own = create_engine(self._url, poolclass=NullPool, **options_of(self._url, self.schema))
        self._claim: Connection | None = None
        self._duty = PostgresDuty(self._own, self._locks.key("duty")) if use is Use.TOGETHER else None
        try:
            self._claim = self._own.connect()
            check(self._claim, self.schema)
            claim(self._claim, use, self._locks.key("own"), self.name)
        except (SQLAlchemyError, psycopg.Error) as error:
            self.close()
            raise Unavailable(f"store.url: {shown(self._url)} cannot be used now: {_said(error)}") from error
        except BaseException:
            self.close()
            raise

    def engine(self, *, durable: bool, pool_size: int) -> Engine:
        options = options_of(self._url, self.schema)
        engine = create_engine(
            self._url, pool_size=pool_size, pool_use_lifo=True, pool_timeout=CONNECT_WITHIN, **options
        )
        event.listen(engine, "connect", read_numbers)
        return engine

    @contextmanager
    def migrating(self, engine: Engine) -> Iterator[Connection]:
        with engine.execution_options(isolation_level="READ COMMITTED").begin() as connection:
            connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({self._locks.key('migrate')})")
            self._create(connection)
            yield connection
            _index_said(connection)

    def upsert(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        make_parts(connection, table, rows)
        fit = _fitting(table)
        values = [tuple(make(row[name]) for name, make in fit) for row in rows]
        # One statement for each row, all in one round trip: the rows of a single statement must not have the same key.
        connection.exec_driver_sql(_upsert_sql(table), values)

    def drop_old(self, connection: Connection, table: Table, before: int) -> bool:
        drop_parts(connection, table, before)
        return True

    def contains(self, column: ColumnElement[str], text: str) -> ColumnElement[bool]:
        # An index of trigrams can answer this condition, if there is one.
        return column.contains(text, autoescape=True)

    def is_about_values(self, error: Exception) -> bool:
        cause = error.orig if isinstance(error, DBAPIError) else error
        return isinstance(cause, psycopg.DataError | psycopg.errors.ProgramLimitExceeded)

    def files(self, engine: Engine) -> Sequence[DatabaseFile]:
        """Return none: the server's own vacuum gives space back, and removes what is left of deleted rows."""
        return ()

    def take_duty(self) -> bool:
        return self._duty is None or self._duty.take()

    def close(self) -> None:
        if self._duty is not None:
            self._duty.close()
        if self._claim is not None:
            self._claim.close()
            self._claim = None
        self._own.dispose()

    def _create(self, connection: Connection) -> None:
        # Asked first, because IF NOT EXISTS needs the right to make schemas even if there is nothing to make.
        there = connection.execute(text("SELECT 1 FROM pg_namespace WHERE nspname = :name"), {"name": self.schema})
        if there.first() is None:
            connection.exec_driver_sql(f'CREATE SCHEMA IF NOT EXISTS "{self.schema}"')


@cache
def _fitting(table: Table) -> list[tuple[str, Callable[[Any], Any]]]:
    """Return the columns, each with the function that makes its values fit. PostgreSQL takes no NUL in a text, and no
    boolean as a number."""
    return [(column.name, _FITTING.get(column.type.python_type, _as_it_is)) for column in table.columns]


def _text(value: str | None) -> str | None:
    return value.replace("\0", "?") if value is not None and "\0" in value else value


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def _as_it_is(value: Any) -> Any:
    return value


_FITTING: Final[dict[type, Callable[[Any], Any]]] = {str: _text, float: _number}


def _said(error: Exception) -> str:
    """Return what an error says, in one line. The statement and the link that SQLAlchemy adds are left out."""
    return " ".join(str(getattr(error, "orig", None) or error).split())


def _index_said(connection: Connection) -> None:
    """Index what was said by pieces of three characters, if the server has the extension for it. Without the index,
    a search reads all traces."""
    extension = "SELECT nspname FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'pg_trgm'"
    home = connection.exec_driver_sql(extension).scalar()
    if home is not None:
        sql = f'said "{home}".gin_trgm_ops'
        connection.exec_driver_sql(f"CREATE INDEX IF NOT EXISTS traces_said ON traces USING gin ({sql})")


def _dialect(**options: Any) -> Dialect:
    kind: Any = registry.load("postgresql.psycopg")
    dialect: Dialect = kind(**options)
    return dialect


@cache
def _upsert_sql(table: Table) -> str:
    return str(upsert_of(table, insert).compile(dialect=_dialect(paramstyle="format")))
