"""The advisory locks by which the processes that use a schema in PostgreSQL know of each other.

Those of writers end with their transaction. Who may use a schema, and who does what one does, holds a lock as long as
it is connected.
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
"""Seconds until another collector's schema is given up: a server needs some to see that its client was killed."""
SILENT: Final = 20
"""Seconds without a word after which the server takes the duty from a process. More than `DUTY_LASTS`: who was stopped
believes no longer that it has it before anybody else does."""

_OTHERS: Final = {
    Use.ALONE: ("pg_advisory_lock", "another collector uses {}, or several do that share a log (log.url)"),
    Use.TOGETHER: (
        "pg_advisory_lock_shared",
        "a collector without log.url uses {}: stop it, or give this one another database",
    ),
}
_HOLD: Final = "SELECT count(pg_advisory_xact_lock(key)) FROM unnest(%s::bigint[]) AS key"
# Whatever the server's default is: what is read after waiting is what the one before has left.
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
        # All in one order: so nobody waits for somebody who waits for him.
        keys = sorted({self.key(f"name {name}") for name in names})
        connection.exec_driver_sql(_HOLD, (f"{{{','.join(map(str, keys))}}}",))

    def key(self, purpose: str) -> int:
        """Return the key of an advisory lock of this schema."""
        digest = hashlib.sha256(f"otel-agenteval {purpose} {self._schema}".encode()).digest()
        return int.from_bytes(digest[:8], signed=True)


def claim(connection: Connection, use: Use, lock: int, name: str) -> None:
    """Hold the lock of a schema as long as this connection, alone or together. Raises PermanentError where somebody
    else holds it who does not use it together."""
    if use is Use.GUEST:
        return
    take, said = _OTHERS[use]
    connection.exec_driver_sql(f"SET lock_timeout = '{OWNED_WITHIN}s'")
    try:
        connection.exec_driver_sql(f"SELECT {take}({lock})")
    except DBAPIError as error:
        if isinstance(error.orig, psycopg.errors.LockNotAvailable):
            raise PermanentError(f"store.url: {said.format(name)}") from error
        raise


class PostgresDuty:
    """The lock that one process of several has. Of one thread."""

    def __init__(self, engine: Engine, lock: int) -> None:
        self._engine = engine
        self._lock = lock
        self._session: Connection | None = None

    def take(self) -> bool:
        """Take the lock where nobody has it, or tell the server that this process goes on; return whether it has it."""
        try:
            if self._session is None:
                self._session = self._engine.connect()
                self._session.exec_driver_sql(f"SET idle_session_timeout = '{SILENT}s'")
            # Who has it may take it again; the end of its session gives all of that back.
            return bool(self._session.exec_driver_sql(f"SELECT pg_try_advisory_lock({self._lock})").scalar())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the lock back. Safe twice."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
