"""Rows that cannot be read: they are left out of what is read, and noted until they are set aside."""

import hashlib
import threading
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

UNREADABLE: Final = (ValueError, TypeError, LookupError, AttributeError, zlib.error)
"""The errors of a row whose bytes are not those that were written: no JSON, no such name, a field too few."""
MOST_NOTED: Final = 100
"""Rows that wait to be set aside. Further ones are noted when they are read again."""


class DamagedRow(NamedTuple):
    """A row that could not be read. Its key is a digest, as ids of sessions are content. `trace_id` is None if it is
    about no trace. `reason` is a sentence without content."""

    key: str
    trace_id: str | None
    reason: str


class DamagedRows:
    """The rows of a tenant that could not be read. Thread-safe."""

    def __init__(self) -> None:
        self._noted: dict[str, DamagedRow] = {}
        self._lock = threading.Lock()

    def note(self, table: str, row: Mapping[Any, Any], key: Sequence[str], error: Exception) -> None:
        """Note a row of a table, which is found by the columns in `key`."""
        digest = hashlib.sha256("\0".join(str(row[column]) for column in key).encode(errors="replace")).hexdigest()[:12]
        trace_id = row.get("trace_id") or (row.get("subject_id") if row.get("subject") == "trace" else None)
        damaged = DamagedRow(
            f"{table}-{digest}", trace_id, f"a row of {table} cannot be read: {type(error).__name__}; it is left out"
        )
        with self._lock:
            if len(self._noted) < MOST_NOTED:
                self._noted[damaged.key] = damaged

    def take(self) -> Sequence[DamagedRow]:
        """Return what was noted since the last call."""
        if not self._noted:
            return ()
        with self._lock:
            noted, self._noted = self._noted, {}
        return [*noted.values()]
