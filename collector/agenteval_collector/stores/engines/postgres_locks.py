"""The advisory locks by which the processes that use a schema in PostgreSQL know of each other.

The locks of writers end with their transaction. The locks for the use of a schema, and for the duty, last as long as
their holder is connected.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import psycopg
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from agenteval_collector.runtime.errors import PermanentError
from agenteval_collector.stores.engines.ports import Use

OWNED_WITHIN: Final = 15
"""Seconds of waiting for a schema that another collector uses, before this one gives up. A server needs some seconds to
notice that its client was killed."""
SILENT: Final = 20
"""Seconds without a statement after which the server takes the duty from a process. This is more than `DUTY_LASTS`, so
that a stopped process no longer counts itself on duty before another one does."""

_OTHERS: Final = {
    Use.ALONE: ("pg_advisory_lock", "another collector uses {}, or several do that share a log (log.url)"),
    Use.TOGETHER: (
        "pg_advisory_lock_shared",
        "a collector without log.url uses {}: stop it, or give this one another database",
    ),
}
_HOLD: Final = "SELECT count(pg_advisory_xact_lock(key)) FROM unnest(%s::bigint[]) AS key"
# At this level, whatever the server's default is: a statement that runs after a wait for a lock reads what the lock's
# last holder has left.
_BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"


class SchemaLocks:
    """The `WriterLocks` of a schema, and the keys of its other locks."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        write = self.key("write")
        self.begin_alone: Sequence[str] = (_BEGIN, f"SELECT pg_advisory_xact_lock({write})")
        self.begin_beside: Sequence[str] = (_BEGIN, f"SELECT pg_advisory_xact_lock_shared({write})")
        self.lock_sums = f"SELECT pg_advisory_xact_lock({self.key('sums')})"

    def hold(self, connection: Connection, names: Iterable[str]) -> None:
        # Every transaction takes its locks in the same order, so that no two of them wait for each other.
        keys = sorted({self.key(f"name {name}") for name in names})
        # All keys in one statement, as PostgreSQL's text for an array: {1,2}.
        connection.exec_driver_sql(_HOLD, (f"{{{','.join(map(str, keys))}}}",))

    def key(self, purpose: str) -> int:
        """Return the key of an advisory lock of this schema."""
        digest = hashlib.sha256(f"otel-agenteval {purpose} {self._schema}".encode()).digest()
        return int.from_bytes(digest[:8], signed=True)


def claim(connection: Connection, use: Use, lock: int, name: str) -> None:
    """Hold the lock of a schema as long as this connection lasts, alone or together with others. A guest needs no lock.
    Raises PermanentError if another process holds the lock and does not use the schema together with this one."""
    if use is Use.GUEST:
        return
    take, refusal = _OTHERS[use]
    connection.exec_driver_sql(f"SET lock_timeout = '{OWNED_WITHIN}s'")
    try:
        connection.exec_driver_sql(f"SELECT {take}({lock})")
    except DBAPIError as error:
        if isinstance(error.orig, psycopg.errors.LockNotAvailable):
            raise PermanentError(f"store.url: {refusal.format(name)}") from error
        raise


class PostgresDuty:
    """The lock for the duty, which one of several processes has. For one thread only."""

    def __init__(self, engine: Engine, lock: int) -> None:
        self._engine = engine
        self._lock = lock
        self._session: Connection | None = None

    def take(self) -> bool:
        """Take the lock if nobody has it, or tell the server that this process goes on. Return whether this process has
        it."""
        try:
            if self._session is None:
                self._session = self._engine.connect()
                self._session.exec_driver_sql(f"SET idle_session_timeout = '{SILENT}s'")
            # A session that has the lock may take it again. The end of the session gives back all of these at once.
            return bool(self._session.exec_driver_sql(f"SELECT pg_try_advisory_lock({self._lock})").scalar())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the lock back. It is safe to call this twice."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
