"""The locks by which the writers of a schema in PostgreSQL know of each other: advisory ones, that end with their
transaction."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from sqlalchemy import Connection

_HOLD: Final = "SELECT count(pg_advisory_xact_lock(key)) FROM unnest(%s::bigint[]) AS key"
# Whatever the server's default is: what is read after waiting is what the one before has left.
_BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"


class SchemaLocks:
    """The `Beside` of a schema, and the keys of its other locks."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        write = self.key("write")
        self.alone: Sequence[str] = (_BEGIN, f"SELECT pg_advisory_xact_lock({write})")
        self.begin: Sequence[str] = (_BEGIN, f"SELECT pg_advisory_xact_lock_shared({write})")
        self.lock_sums = f"SELECT pg_advisory_xact_lock({self.key('sums')})"

    def hold(self, connection: Connection, names: Iterable[str]) -> None:
        # All in one order: so nobody waits for somebody who waits for him.
        keys = sorted({self.key(f"name {name}") for name in names})
        connection.exec_driver_sql(_HOLD, (f"{{{','.join(map(str, keys))}}}",))

    def key(self, purpose: str) -> int:
        """Return the key of an advisory lock of this schema."""
        digest = hashlib.sha256(f"otel-agenteval {purpose} {self._schema}".encode()).digest()
        return int.from_bytes(digest[:8], signed=True)
