"""The SQLite file of the log: one row holds one request, not one span.

The offset of a request is its row id: it grows, and nothing is ever written before it.
"""

import logging
import sqlite3
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import sqlalchemy as sa
import zstandard

from agenteval_collector.model.logged_requests import LoggedRequest, Signal
from agenteval_collector.runtime import database
from agenteval_collector.runtime.database_file import DatabaseFile
from agenteval_collector.runtime.errors import PermanentError, Unavailable
from agenteval_collector.runtime.files import HeldFile

logger = logging.getLogger(__name__)

PAGE_SIZE = 32_768
"""Bytes. A request of 64 spans has about 300 KB: in pages of 4 KB its commit costs twice the CPU."""

TOGETHER = 4 * 1024 * 1024
"""Bytes of requests after which no further one is read into memory at the same time."""

_metadata = sa.MetaData()
_requests = sa.Table(
    "requests",
    _metadata,
    sa.Column("offset", sa.Integer, primary_key=True),
    sa.Column("tenant", sa.String, nullable=False),
    sa.Column("signal", sa.Integer, nullable=False),
    sa.Column("received_at", sa.BigInteger, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False, comment="one zstd frame"),
    sa.Column("crc", sa.BigInteger, nullable=False, comment="CRC-32 of that frame"),
    sqlite_autoincrement=True,
)

_LAST_USED = sa.text("SELECT max(seq) FROM sqlite_sequence")
_INSERT = "INSERT INTO requests (tenant, signal, received_at, body, crc) VALUES (?, ?, ?, ?, ?)"


class NewRequest(NamedTuple):
    """A request that has no offset yet; `received_at` in nanoseconds since the Unix epoch."""

    tenant: str
    signal: Signal
    received_at: int
    body: bytes


class RequestFile:
    """The requests on disk. Thread-safe. Every call raises Unavailable if the file refuses it."""

    def __init__(self, path: Path, beside: Sequence[Path] = ()) -> None:
        """Open or create the file. Raises PermanentError if it cannot be used as a log.

        Nothing is taken once this file, or one of those `beside` it, is deleted or replaced.
        """
        self._engine = database.open_database(path, synchronous="FULL", page_size=PAGE_SIZE)
        try:
            _metadata.create_all(self._engine)
        except database.DATABASE_ERRORS as error:
            self._engine.dispose()
            if damage := database.damage_in(error):
                raise PermanentError(database.damage_told(str(path), damage)) from error
            raise PermanentError(f"{path} cannot be used: {error}; give another --data-dir") from error
        self.space = DatabaseFile(path, self._engine)
        self._held = [HeldFile(held) for held in (path, *beside)]

    def shutdown(self) -> None:
        """Close the file. A later call opens it again."""
        self._engine.dispose()

    def commit(self, requests: Sequence[NewRequest]) -> list[LoggedRequest]:
        """Write requests in one commit; return them with their offsets once they are on disk. From one thread alone."""
        rows = [
            (
                request.tenant,
                request.signal.value,
                request.received_at,
                frame := _compressed(request.body),
                crc32(frame),
            )
            for request in requests
        ]
        # Straight by the driver, because this is done for every request that comes alone.
        with self._refusing("written"), closing(self._engine.raw_connection()) as connection:
            driver: Any = connection.driver_connection
            with driver:
                driver.executemany(_INSERT, rows[:-1])
                last: int = driver.execute(_INSERT, rows[-1]).lastrowid
        self._refuse_lost()
        # One thread writes and ids only grow, so these rows have the last ids.
        return [LoggedRequest(offset, *request) for offset, request in enumerate(requests, last - len(requests) + 1)]

    def probe(self, size: int) -> None:
        """Write a request of `size` bytes and delete it again. Raises Unavailable if that is refused."""
        with self._connected("written") as connection:
            probe = {"tenant": "", "signal": 0, "received_at": 0, "body": bytes(size), "crc": 0}
            offset = connection.execute(sa.insert(_requests), probe).lastrowid
            connection.execute(sa.delete(_requests).where(_requests.c.offset == offset))
        self._refuse_lost()

    def _refuse_lost(self) -> None:
        # After the commit: before it, the file could go while it is written.
        for held in self._held:
            if (trouble := held.trouble) is not None:
                raise Unavailable(trouble)

    def read(self, start: int, page: int = 16) -> Iterator[LoggedRequest]:
        """Yield the requests from offset `start` on that are committed now. A `page` of them is in memory at a time, or
        fewer with `TOGETHER` bytes."""
        while requests := self._look_up(sa.select(_requests).where(_requests.c.offset >= start).limit(page)):
            yield from requests
            start = requests[-1].offset + 1

    def get(self, offsets: Sequence[int], page: int = 16) -> Iterator[LoggedRequest]:
        """Yield the requests at these offsets that are still kept, in order."""
        wanted = sorted(offsets)
        while wanted:
            asked = wanted[:page]
            yield from (found := self._look_up(sa.select(_requests).where(_requests.c.offset.in_(asked))))
            # Those that are gone are passed over, and large ones are left to the next look.
            done = found[-1].offset if found and _size(found) >= TOGETHER else asked[-1]
            wanted = wanted[bisect_right(wanted, done) :]

    def _look_up(self, query: sa.Select[Any]) -> list[LoggedRequest]:
        """Return the requests that a query finds, but no further one once they have `TOGETHER` bytes."""
        found: list[LoggedRequest] = []
        size = 0
        with self._connected("read") as connection:
            # The driver reads a row when it is asked for the next one.
            for row in connection.execute(query.order_by(_requests.c.offset)):
                found.append(LoggedRequest(row.offset, row.tenant, Signal(row.signal), row.received_at, _whole(row)))
                size += len(found[-1].body)
                if size >= TOGETHER:
                    break
        return found

    def last_offset(self) -> int:
        """Return the newest offset; 0 for an empty log."""
        with self._connected("read") as connection:
            return connection.execute(sa.select(sa.func.max(_requests.c.offset))).scalar() or 0

    def go_on_after(self, offset: int) -> bool:
        """Give no offset up to this one to a new request. Return True if the newest one is too low for that.

        The store knows the requests up to this offset, so it would take new ones for those, and a replay would pass
        over them. That happens if the file was lost, or is an older one.
        """
        with self._connected("written") as connection:
            last = connection.execute(_LAST_USED).scalar() or 0
            if last + 1 >= offset:
                return False
            connection.exec_driver_sql("DELETE FROM sqlite_sequence")
            connection.exec_driver_sql("INSERT INTO sqlite_sequence VALUES ('requests', ?)", (offset,))
        return True

    def trim(self, below: int, older_than: int, batch: int, but: Collection[int] = ()) -> int:
        """Forget the first `batch` requests below offset `below` that were received before `older_than` (ns), except
        those at the offsets `but`; return how many that were. Their space is used again."""
        old = sa.select(_requests.c.offset).where(_requests.c.offset < below, _requests.c.received_at < older_than)
        if but:
            old = old.where(_requests.c.offset.not_in(but))
        victims = old.order_by(_requests.c.offset).limit(batch)
        with self._connected("trimmed") as connection:
            return connection.execute(sa.delete(_requests).where(_requests.c.offset.in_(victims))).rowcount

    def rewrite(self, bodies: Mapping[int, bytes | None]) -> None:
        """Replace the bodies of requests, by offset, in one commit. A request whose new body is None is forgotten."""
        with self._connected("rewritten") as connection:
            for offset, body in bodies.items():
                at = _requests.c.offset == offset
                if body is None:
                    connection.execute(sa.delete(_requests).where(at))
                else:
                    frame = _compressed(body)
                    connection.execute(sa.update(_requests).where(at).values(body=frame, crc=crc32(frame)))

    @contextmanager
    def _connected(self, what: str) -> Iterator[sa.Connection]:
        with self._refusing(what), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _refusing(self, what: str) -> Iterator[None]:
        """Turn an error of the file into Unavailable. `what` is the part of its message that names what failed."""
        try:
            yield
        except database.DATABASE_ERRORS as error:
            cause = (
                getattr(error, "orig", None) or error
            )  # The driver's own error: SQLAlchemy's text has the statement.
            raise Unavailable(f"the collector's log cannot be {what}: {cause}") from error


def _size(requests: Sequence[LoggedRequest]) -> int:
    return sum(len(request.body) for request in requests)


def _compressed(body: bytes) -> bytes:
    # Level 1: a request of 64 spans shrinks to a tenth, in 1.5 us a span. Higher levels take longer and win little.
    return zstandard.compress(body, level=1)


def _whole(row: sa.Row[Any]) -> bytes:
    """Return the body of a row; empty if it is not the one that was written."""
    if crc32(row.body) == row.crc:
        with suppress(zstandard.ZstdError):
            return zstandard.decompress(row.body)
    logger.error("request %d of the log is damaged and is passed over; `agenteval check` names all", row.offset)
    return b""


def damaged(path: Path) -> Iterator[int]:
    """Yield the offsets of requests whose bodies are not those that were written. Raises sqlite3.Error."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        for offset, body, crc in connection.execute('SELECT "offset", body, crc FROM requests'):
            if crc32(body) != crc:
                yield offset
