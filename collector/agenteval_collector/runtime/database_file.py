"""The space in a database file: count it, give it back, and leave nothing of deleted rows in it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine

from agenteval_collector.runtime.database import DATABASE_ERRORS
from agenteval_collector.runtime.errors import Unavailable

SMALL: Final = 256 * 1024 * 1024
"""Bytes of a file that is vacuumed at any time: it takes a few seconds, in which writers wait."""


class DatabaseFile:
    """The space in a SQLite file with an auto-vacuum pointer map. For one thread. Raises Unavailable."""

    def __init__(self, path: Path, engine: Engine) -> None:
        self._path = path
        self._engine = engine
        self._last_write: int | None = None

    @property
    def used_bytes(self) -> int:
        """The bytes of the file that hold something."""
        with self._connected("read") as connection:
            pages, free, size = _pages(connection)
        return (pages - free) * size

    @property
    def is_small(self) -> bool:
        """True if a vacuum holds up writers for a few seconds at most."""
        return self._path.stat().st_size <= SMALL

    def is_quiet(self) -> bool:
        """Return whether nobody has written to the file since the last call."""
        log = Path(f"{self._path}-wal")
        last_write = os.stat(log if log.exists() else self._path).st_mtime_ns
        is_quiet = last_write == self._last_write
        self._last_write = last_write
        return is_quiet

    def give_back(self, most: int) -> int:
        """Give at most `most` bytes of unused pages back to the disk; return how many. A tenth of the file stays free,
        because the space is needed again."""
        with self._connected("made smaller") as connection:
            pages, free, size = _pages(connection)
            surplus = min(free - (pages - free) // 9, most // size)
            if surplus <= 0:
                return 0
            # As a script: each row that is read frees one page, and only a script reads rows without columns to the
            # end.
            driver: Any = connection.connection.driver_connection
            driver.executescript(f"PRAGMA incremental_vacuum({surplus})")
        return surplus * size

    def vacuum(self) -> None:
        """Write the file anew, without the remains of deleted rows. Writers wait; it takes about a second for 100 MB.

        `secure_delete` overwrites a row where it is deleted, but not the copies that SQLite leaves of rows that it
        moved from page to page before.
        """
        needed, free = 2 * self.used_bytes, shutil.disk_usage(self._path.parent).free
        if free < needed:
            raise Unavailable(f"{self._path} cannot be vacuumed: that takes {needed} free bytes, and {free} are free")
        with self._connected("vacuumed") as connection:
            connection.exec_driver_sql("VACUUM")

    def empty_log(self) -> None:
        """Move everything from the write-ahead log into the file, and empty the log."""
        with self._connected("emptied of its write-ahead log") as connection:
            if connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()[0]:
                raise Unavailable(f"the write-ahead log of {self._path} cannot be emptied: somebody reads it for long")

    @contextmanager
    def _connected(self, what: str) -> Iterator[Connection]:
        """Connect. If the file refuses, the error says that it cannot be `what`, such as "read"."""
        try:
            with self._engine.connect() as connection:
                yield connection
        except (*DATABASE_ERRORS, OSError) as error:
            raise Unavailable(f"{self._path} cannot be {what}: {getattr(error, 'orig', None) or error}") from error


def _pages(connection: Connection) -> tuple[int, int, int]:
    """Return the number of pages of a file, the number of empty ones, and the bytes of a page."""
    pages, free, size = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
        for name in ("page_count", "freelist_count", "page_size")
    )
    return pages, free, size
