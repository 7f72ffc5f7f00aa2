"""Requests as they came, appended and committed in groups before anybody is told they were taken.

One row holds one request, not one span; one commit holds every request that waited for it. The offset of a request
is its row id: it grows, and nothing is ever written before it.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    delete,
    func,
    insert,
    select,
)
from sqlalchemy.exc import SQLAlchemyError

from agenteval_collector.model.telemetry import LoggedRequest, Signal
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.database import open_database
from agenteval_collector.runtime.errors import Overloaded, PermanentError, Unavailable
from agenteval_collector.runtime.inbox import Inbox

logger = logging.getLogger(__name__)

GROUP = 512
"""Requests in one commit at most."""

PAGE_SIZE = 32_768
"""Bytes. A request of 64 spans has about 300 KB: in pages of 4 KB its commit costs twice the CPU."""

_metadata = MetaData()
_requests = Table(
    "requests",
    _metadata,
    Column("offset", Integer, primary_key=True),
    Column("tenant", String, nullable=False),
    Column("signal", Integer, nullable=False),
    Column("received_at", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    sqlite_autoincrement=True,
)


@dataclass(slots=True)
class _Append:
    signal: Signal
    body: bytes
    tenant: str
    received_at: int
    offset: Future[int]


class RequestLog:
    """The log on one SQLite file, written by one thread of its own. Reading raises Unavailable where the file refuses.

    `deliver` gets every committed request in the order of offsets, on the log's thread, after the one who appended
    it was answered.
    """

    def __init__(
        self, path: Path, clock: Clock, deliver: Callable[[LoggedRequest], None], *, max_pending_bytes: int
    ) -> None:
        self._engine = open_database(path, synchronous="FULL", page_size=PAGE_SIZE)
        try:
            _metadata.create_all(self._engine)
        except SQLAlchemyError as error:
            self._engine.dispose()
            raise PermanentError(f"{path} cannot be used: {error}; give another --data-dir") from error
        self._clock = clock
        self._deliver = deliver
        self._inbox: Inbox[_Append] = Inbox(max_pending_bytes)
        self._refused = 0
        self._thread = threading.Thread(target=self._run, name="agenteval-log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def shutdown(self, timeout: float = 10.0) -> None:
        """Commit what was appended, then refuse more. Safe before start and twice."""
        self._inbox.close()
        if self._thread.is_alive():
            self._thread.join(timeout)
        self._engine.dispose()

    def append(self, signal: Signal, body: bytes, tenant: str = "default") -> Future[int]:
        """The request's offset, once it is on disk. Raises Overloaded where too much waits already.

        The future raises Unavailable where the disk refused the commit: nothing was kept then.
        """
        entry = _Append(signal, body, tenant, self._clock.now(), Future())
        if not self._inbox.put(entry, len(body)):
            if self._inbox.closed:
                raise Unavailable("the collector is stopping")
            raise Overloaded("the log has more requests waiting for the disk than fit; send again later")
        return entry.offset

    def read(self, start: int, page: int = 64) -> Iterator[LoggedRequest]:
        """Requests from offset `start` on, as far as they are committed now."""
        while True:
            query = select(_requests).where(_requests.c.offset >= start).order_by(_requests.c.offset).limit(page)
            with self._reading() as connection:
                rows = connection.execute(query).all()
            for row in rows:
                yield LoggedRequest(row.offset, row.tenant, Signal(row.signal), row.received_at, row.body)
            if len(rows) < page:
                return
            start = rows[-1].offset + 1

    def get(self, offsets: Sequence[int], page: int = 64) -> Iterator[LoggedRequest]:
        """The requests at these offsets that are still kept, in order."""
        wanted = sorted(offsets)
        for first in range(0, len(wanted), page):
            query = select(_requests).where(_requests.c.offset.in_(wanted[first : first + page]))
            with self._reading() as connection:
                rows = connection.execute(query.order_by(_requests.c.offset)).all()
            for row in rows:
                yield LoggedRequest(row.offset, row.tenant, Signal(row.signal), row.received_at, row.body)

    def last_offset(self) -> int:
        """The newest offset; 0 for an empty log."""
        with self._reading() as connection:
            return connection.execute(select(func.max(_requests.c.offset))).scalar() or 0

    def trim(self, below: int, older_than: int, batch: int = 256) -> int:
        """Forget requests below offset `below` received before `older_than` (ns); the number forgotten.

        At most `batch` at a time, so that an append never waits long for the file. Raises Unavailable.
        """
        old = select(_requests.c.offset).where(_requests.c.offset < below, _requests.c.received_at < older_than)
        victims = old.order_by(_requests.c.offset).limit(batch)
        try:
            with self._engine.begin() as connection:
                return connection.execute(delete(_requests).where(_requests.c.offset.in_(victims))).rowcount
        except SQLAlchemyError as error:
            raise Unavailable(f"the log could not be trimmed: {error}") from error

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Requests that wait for a commit now."""
        return len(self._inbox)

    def _run(self) -> None:
        while True:
            group = self._inbox.take(GROUP, timeout=None)
            if not group:
                return
            try:
                offsets = self._commit(group)
            except Exception as error:  # noqa: BLE001  # Those who wait must hear of it, and the next group is tried.
                self._refuse(group, error)
                continue
            if self._refused:
                logger.warning("the log can be written again; %d requests were refused meanwhile", self._refused)
                self._refused = 0
            for entry, offset in zip(group, offsets, strict=True):
                entry.offset.set_result(offset)
            for entry, offset in zip(group, offsets, strict=True):
                self._deliver(LoggedRequest(offset, entry.tenant, entry.signal, entry.received_at, entry.body))

    def _refuse(self, group: Sequence[_Append], error: Exception) -> None:
        cause = getattr(error, "orig", None) or error  # Without SQLAlchemy's statement and parameters.
        if not self._refused:  # Once: a full disk must not be filled with its own complaints.
            logger.error("the log cannot be written, requests are refused until it can: %s", cause, exc_info=error)
        self._refused += len(group)
        for entry in group:
            entry.offset.set_exception(Unavailable(f"the collector's log cannot be written: {cause}"))

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise Unavailable(f"the log could not be read: {error}") from error

    def _commit(self, group: Sequence[_Append]) -> range:
        rows = [
            {"tenant": e.tenant, "signal": int(e.signal), "received_at": e.received_at, "body": e.body} for e in group
        ]
        with self._engine.begin() as connection:
            connection.execute(insert(_requests), rows)
            # This thread is the only writer of rows and ids only grow, so the group's ids end at the last one.
            last = int(connection.exec_driver_sql("SELECT last_insert_rowid()").scalar_one())
        return range(last - len(group) + 1, last + 1)
