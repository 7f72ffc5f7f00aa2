"""Collect the spans and log records of a trace while they arrive, and tell whether that is all."""

import hashlib
from typing import Final, NamedTuple

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.assembly.awaiting import Awaiting
from agenteval_collector.assembly.senders import Senders
from agenteval_collector.assembly.shrinking import shrunk, value_sizes
from agenteval_collector.assembly.span_counts import SpanCounts
from agenteval_collector.model.callers import participant_of
from agenteval_collector.model.largest_kept import LEAST, largest_kept
from agenteval_collector.model.logged_requests import (
    COUNTS_BYTES,
    LOG_BYTES,
    OFFSET_BYTES,
    SPAN_BYTES,
    TRACE_BYTES,
    Origin,
    item_bytes,
)
from otel_agenteval.semconv import AGENTEVAL_PROCESS_ID, AGENTEVAL_SPAN_COUNT

# With its length before it, as in a serialized key. A search from the end is fastest if the first byte is rare.
_MARKER = bytes([len(AGENTEVAL_SPAN_COUNT)]) + AGENTEVAL_SPAN_COUNT.encode()


MAX_BYTES: Final = 16 * 1024 * 1024
"""The most bytes of memory of a trace, unless `server.max_trace_bytes` says otherwise."""
_ROOM: Final = 0.25
"""Share of the most bytes that is made free when a trace is too large, so that the next spans find room."""
_FOR_ROOTS: Final = 1 / 16
"""Share of the most bytes that roots may take besides. They come last, and say what a trace is about."""


class LogPosition(NamedTuple):
    """The offset of a request in the log, and when it was received (ns since the Unix epoch, by the collector's
    clock)."""

    offset: int
    received_at: int


class SpanLogRecord(NamedTuple):
    """A log record about a span. `answer`: it holds the answer of that span's model."""

    span_id: bytes
    answer: bool


class OpenTrace:
    """The spans and log records of one trace, as the bytes they came in: no decoded copy waits in memory.

    `revision` is the one that the next completion makes; `changed` says whether there is anything new for it. `scored`
    is the newest committed revision, 0 before the first. `unscored_from` is the position of the first request with
    anything that no committed revision has. `received_at` is when the newest item was received (ns), 0 before the
    first. `came_whole`: its first items were all of it, and nothing has come since.

    `size` is the memory that the trace takes, in bytes: `max_bytes` and one item at most, or a sixteenth more with
    roots. Of a larger trace the largest values are cut. It is `full` if nothing is left to cut; what comes then is
    `dropped`, and counted.
    """

    __slots__ = (
        "_counts", "_cut_logs", "_max_bytes", "_new_from", "_unended", "awaiting", "came_whole", "changed", "dropped",
        "full", "logs", "offsets", "opened_at", "received_at", "revision", "scored", "size", "spans", "tenant",
        "touched_at", "trace_id", "unscored_from",
    )  # fmt: skip

    def __init__(
        self,
        trace_id: bytes,
        tenant: str,
        senders: Senders,
        *,
        now: float,
        position: LogPosition,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.trace_id = trace_id
        self.tenant = tenant
        self.opened_at = now
        self.touched_at = now
        self.unscored_from = position
        self.received_at = 0
        self.revision = 1
        self.scored = 0
        self.spans: dict[bytes, tuple[bytes, Origin]] = {}
        self.logs: dict[bytes, Origin] = {}
        self.offsets: list[int] = []
        self.size = TRACE_BYTES
        self.changed = False
        self.came_whole = False
        self.awaiting = Awaiting(tenant, senders)
        self.full = False
        self.dropped = 0
        self._max_bytes = max_bytes
        self._new_from = position
        # Most traces have neither, and many are open at once.
        self._unended: set[bytes] | None = None
        self._cut_logs: set[bytes] | None = None
        self._counts: SpanCounts | None = None

    def knows(self, item: Span | SpanLogRecord, raw: bytes) -> bool:
        """Return whether the item is here already, as exporters may send it twice."""
        if isinstance(item, SpanLogRecord):
            return self.full or self._knows_log(raw)
        return self.full or (item.span_id in self.spans and not self._ends(item.span_id, item))

    def add(self, item: Span | SpanLogRecord, raw: bytes, origin: Origin, position: LogPosition) -> bool:
        """Take a span or a log record; `raw` is its bytes. Returns False if it is known already, or is dropped."""
        if self.full and item_bytes(raw) + self.size > self._most_for(item):
            self.dropped += 1
            return False
        if isinstance(item, SpanLogRecord):
            added = self._add_log(item, raw, origin, position)
        else:
            added = self._add_span(item, raw, origin, position)
        if self.size > self._max_bytes and not self.full:
            self._shrink()
        return added

    def reopen(self, now: float) -> None:
        """Go on after a completion: items that come from now on make the next revision."""
        self.revision += 1
        self.changed = False
        self.opened_at = self.touched_at = now
        if self._counts is not None:
            self._counts.marked = False

    def restored(self, revision: int) -> None:
        """Note that the committed `revision` was made of all items that were added until now."""
        self.revision = self.scored = revision
        self.changed = False
        self.awaiting.told_before()

    def note_death(self, position: LogPosition) -> None:
        """Note that the agent died: the next revision will say so. `position` is that of the next request."""
        if self._counts is not None:
            self._counts.forget_awaited()
        self.note_retry(position)

    def note_retry(self, position: LogPosition) -> None:
        """Note that the next revision is wanted although nothing new has come. `position` is as in `note_death`."""
        if not self.changed:
            self._changed(position)

    def committed(self, revision: int) -> None:
        """Note that the store holds `revision`, so that no replay needs the requests before its completion."""
        self.scored = max(self.scored, revision)
        if self.changed and self.scored == self.revision - 1:
            self.unscored_from = self._new_from

    @property
    def running(self) -> bool:
        """True while a span is known not to have ended.

        Either it came without an end. Or a process has handed over more spans than its latest count, among them a child
        of a span that has not come. That one is open in the process then, however long a call below it takes.
        """
        return bool(self._unended) or (self._counts is not None and self._counts.going_on())

    @property
    def counted(self) -> bool:
        """True if spans of a process that counts them have come."""
        return self._counts is not None

    @property
    def delivered(self) -> bool:
        """True if every process that told its count since the trace was opened has delivered that many spans.

        False if a span has not ended, and if nobody counts some spans.
        """
        return self._counts is not None and not self._unended and self._counts.delivered(len(self.spans))

    @property
    def missing(self) -> int:
        """The number of spans that processes say they handed over, and that have not come."""
        return 0 if self._counts is None else self._counts.missing(len(self.spans))

    def learn(self) -> None:
        """Note in the senders' habits what came and what did not. Call this when the trace is complete."""
        for span_id in self.awaiting.followed_by_logs():
            span = self.spans.get(span_id)
            if span is not None:
                raw, origin = span
                self.awaiting.expect_logs(Span.FromString(raw), raw, origin)
        self.awaiting.learn()

    def _most_for(self, item: Span | SpanLogRecord) -> float:
        is_root = isinstance(item, Span) and not item.parent_span_id
        return (1 + _FOR_ROOTS) * self._max_bytes if is_root else self._max_bytes

    def _shrink(self) -> None:
        """Cut the largest values until a part of the most bytes is free. If that is too little, take nothing more."""
        goal = round((1 - _ROOM) * self._max_bytes)
        spans = (size for raw, _ in self.spans.values() for size in value_sizes(raw, Span.FromString))
        logs = (size for raw in self.logs for size in value_sizes(raw, LogRecord.FromString))
        most = largest_kept([*spans, *logs], self.size - goal)
        for span_id, (raw, origin) in self.spans.items():
            if len(raw) > most and (cut := shrunk(raw, Span.FromString, most)) is not raw:
                self.spans[span_id] = cut, origin
                self.size += item_bytes(cut) - item_bytes(raw)
        for raw, origin in list(self.logs.items()):
            if len(raw) > most and (cut := shrunk(raw, LogRecord.FromString, most)) is not raw:
                self._cut_log(raw, cut, origin)
        self.full = most == LEAST and self.size > goal

    def _cut_log(self, raw: bytes, cut: bytes, origin: Origin) -> None:
        """Keep a log record cut. Its digest is kept, too, as senders may send it again."""
        if self._cut_logs is None:
            self._cut_logs = set()
        self._cut_logs.add(_digest(raw))
        del self.logs[raw]
        self.logs[cut] = origin
        self.size += item_bytes(cut) - item_bytes(raw)

    def _knows_log(self, raw: bytes) -> bool:
        return raw in self.logs or (self._cut_logs is not None and _digest(raw) in self._cut_logs)

    def _begun(self, span_id: bytes) -> None:
        if self._unended is None:
            self._unended = set()
        self._unended.add(span_id)

    def _ends(self, span_id: bytes, span: Span) -> bool:
        """Return whether the item is the end of a span that came without one."""
        return self._unended is not None and span_id in self._unended and bool(span.end_time_unix_nano)

    def _add_span(self, span: Span, raw: bytes, origin: Origin, position: LogPosition) -> bool:
        span_id, parent_id, spans = span.span_id, span.parent_span_id, self.spans
        known = spans.get(span_id)
        if known is not None and not self._ends(span_id, span):
            return False
        if known is not None:
            self.size -= SPAN_BYTES + item_bytes(known[0])
            if self._unended:
                self._unended.discard(span_id)
        elif not span.end_time_unix_nano:
            self._begun(span_id)
        spans[span_id] = (raw, origin)
        self.size += SPAN_BYTES + item_bytes(raw)
        orphan = bool(parent_id) and parent_id not in spans
        self.awaiting.add(span, span_id, raw, origin, parent_id if orphan else None)
        self._added(position)
        # Searching bytes is far cheaper than walking attributes, and only one span of a trace carries the marker.
        process = (raw.rfind(_MARKER) >= 0 and self._mark(span, origin)) or origin.process
        if self._counts is not None:
            self._counts.parent_came(span_id)
        if process is not None and known is None:
            self._counting().came(process)
        if orphan and origin.process is not None:
            self._counting().await_parent(parent_id, origin.process)
        return True

    def _add_log(self, record: SpanLogRecord, raw: bytes, origin: Origin, position: LogPosition) -> bool:
        if self._knows_log(raw):
            return False
        self.logs[raw] = origin
        self.size += LOG_BYTES + item_bytes(raw)
        if record.answer:
            self.awaiting.answered(record.span_id)
        self._added(position)
        return True

    def _added(self, position: LogPosition) -> None:
        # Requests come in the order of the log, so that a known one can only be the last.
        if not self.offsets or position.offset != self.offsets[-1]:
            self.offsets.append(position.offset)
            self.size += OFFSET_BYTES
            self.received_at = max(self.received_at, position.received_at)
        if not self.changed:
            self._changed(position)

    def _changed(self, position: LogPosition) -> None:
        self.changed = True
        self._new_from = position
        if self.scored == self.revision - 1:
            self.unscored_from = position

    def _mark(self, span: Span, origin: Origin) -> str | None:
        """Note the count in the marker on a span. Returns the process of its origin, or the one that the marker names;
        None without a count."""
        named, count = _marker(span)
        process = origin.process
        reporter = process or (named and participant_of(origin.sender, named))
        if reporter is None or count is None:
            return None
        self._counting().expect(reporter, count, is_named=process is not None)
        return reporter

    def _counting(self) -> SpanCounts:
        if self._counts is None:
            self._counts = SpanCounts()
            self.size += COUNTS_BYTES
        return self._counts


def _digest(raw: bytes) -> bytes:
    return hashlib.blake2b(raw, digest_size=16).digest()


def _marker(span: Span) -> tuple[str | None, int | None]:
    process, count = None, None
    for attribute in span.attributes:
        if attribute.key == AGENTEVAL_PROCESS_ID:
            process = attribute.value.string_value or None
        elif attribute.key == AGENTEVAL_SPAN_COUNT and attribute.value.WhichOneof("value") == "int_value":
            count = attribute.value.int_value
    return process, count
