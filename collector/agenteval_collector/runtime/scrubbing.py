"""Look after the space in a database file: count it, give it back, overwrite what SQLite leaves behind of deleted rows.

`secure_delete` overwrites a row where it is deleted. It leaves copies of rows that moved to another page before. They
are in the gap of a page, between the pointers to its cells and the cells. Only a VACUUM would remove them, and that
writes the whole file anew while nobody else can write. So the gaps are overwritten in place (docs/decisions/0039).
"""

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine

from agenteval_collector.runtime.database import DATABASE_ERRORS
from agenteval_collector.runtime.errors import Unavailable

SLICE: Final = 8 * 1024 * 1024
"""Bytes that are looked at in one go, while writers wait for some milliseconds."""
_PENDING_BYTE: Final = 0x40000000
"""SQLite never uses the page with this byte: file locks are on it."""
_TREE_PAGES: Final = {1, 5}
"""Types of pages in the pointer map that hold cells: the root of a tree, and any other page of one."""
_HEADERS: Final = {2: 12, 5: 12, 10: 8, 13: 8}
"""Bytes of a page's header, by its flag: interior pages have a longer one."""


class DatabaseFile:
    """The space in a database file with an auto-vacuum pointer map. For one thread. Raises Unavailable.

    `scrub` overwrites the gaps in its pages. Nothing reads a gap, so readers and a crash in the middle do no harm.
    While a slice is overwritten, this holds the write lock, and everything in the WAL is in the file as well: so nobody
    else writes to the file. The commit after each slice makes all connections read its pages again.
    """

    def __init__(self, path: Path, engine: Engine) -> None:
        self._path = path
        self._engine = engine
        # Opened by the first `scrub`, for as long as the engine: closing any descriptor of a file ends SQLite's locks
        # on it in this process.
        self._file = -1

    def close(self) -> None:
        """Close the file, after the engine is disposed. Safe twice."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    @property
    def used_bytes(self) -> int:
        """The bytes of the file that hold something."""
        with self._connected("read") as connection:
            pages, free, size = _pages(connection)
        return (pages - free) * size

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

    def scrub(self, start: int = 0) -> int | None:
        """Overwrite the slice that begins at byte `start`; return where the next one begins. None: the file is done,
        and its write-ahead log is empty. Raises Unavailable where a reader or writer is in the way: try the slice
        again."""
        with self._connected("cleaned of deleted rows") as writer, self._engine.connect() as other:
            if self._file < 0:
                self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            return self._scrub(start, writer, other)

    def _scrub(self, start: int, writer: Connection, other: Connection) -> int | None:
        if start >= os.fstat(self._file).st_size:
            if _checkpoint(other, "TRUNCATE")[0]:
                raise Unavailable("the write-ahead log cannot be emptied: somebody reads the file for long")
            return None
        page_size = int(writer.exec_driver_sql("PRAGMA page_size").scalar_one())
        writer.exec_driver_sql("BEGIN IMMEDIATE")
        busy, waiting, written = _checkpoint(other, "PASSIVE")
        if busy or waiting != written:
            raise Unavailable("not all that was committed is in the file: somebody reads it for long")
        pages = Pages(self._file, page_size)
        if sum(pages.scrub(number) for number in pages.numbers(start, start + SLICE)):
            # Any committed write does: connections drop their cached pages when the file has changed.
            version = int(writer.exec_driver_sql("PRAGMA user_version").scalar_one())
            writer.exec_driver_sql(f"PRAGMA user_version={(version + 1) % 2**31}")
        writer.commit()
        return start + SLICE

    @contextmanager
    def _connected(self, done: str) -> Iterator[Connection]:
        """Connect, and say what could not be `done` where the file refuses."""
        try:
            with self._engine.connect() as connection:
                yield connection
        except (*DATABASE_ERRORS, OSError) as error:
            raise Unavailable(f"{self._path} cannot be {done}: {getattr(error, 'orig', None) or error}") from error


FILE_HEADER: Final = 100
"""Bytes of the header of a database file, with which its first page begins."""


class Pages:
    """The pages of a database file, numbered from 1."""

    def __init__(self, file: int, size: int) -> None:
        self._file = file
        self._size = size
        self._mapped = size // 5
        self._map: tuple[int, bytes] = (0, b"")

    def numbers(self, start: int, end: int) -> range:
        """Return the numbers of the pages that begin between two bytes of the file."""
        end = min(end, os.fstat(self._file).st_size)
        return range(-(-start // self._size) + 1, -(-end // self._size) + 1)

    def scrub(self, number: int) -> int:
        """Overwrite the gap of a page; return how many of its bytes were not zero."""
        if number != 1 and self._type(number) not in _TREE_PAGES:
            return 0
        page = self._read(number)
        start, end = _gap(page, FILE_HEADER if number == 1 else 0)
        count = len(page[start:end].strip(b"\0"))
        if count:
            os.pwrite(self._file, bytes(end - start), (number - 1) * self._size + start)
        return count

    def _type(self, number: int) -> int:
        """Return the type of a page in the pointer map; 0 for pages of the map itself, and for the page without use."""
        unused = _PENDING_BYTE // self._size + 1
        first = (number - 2) // (self._mapped + 1) * (self._mapped + 1) + 2
        first += first == unused
        if number in (first, unused) or number < first:
            return 0
        if self._map[0] != first:
            self._map = first, self._read(first)
        return self._map[1][5 * (number - first - 1)]

    def _read(self, number: int) -> bytes:
        return os.pread(self._file, self._size, (number - 1) * self._size)


def _gap(page: bytes, at: int) -> tuple[int, int]:
    """Return where the gap of a page with cells begins and ends. The page's header is at byte `at`."""
    flag, _, cells, content = struct.unpack_from(">BHHH", page, at)
    if flag not in _HEADERS:  # The file is damaged.
        return at, at
    start = at + _HEADERS[flag] + 2 * cells
    return start, max(start, content or 65536)  # SQLite writes 65536 as 0.


def _checkpoint(connection: Connection, mode: str) -> Any:
    return connection.exec_driver_sql(f"PRAGMA wal_checkpoint({mode})").one()


def _pages(connection: Connection) -> tuple[int, int, int]:
    """Return the number of pages of a file, the number of empty ones, and the bytes of a page."""
    pages, free, size = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
        for name in ("page_count", "freelist_count", "page_size")
    )
    return pages, free, size
