"""A trace while its spans arrive: what came, from which process, and whether that is all."""

from typing import NamedTuple

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.assembly.awaiting import Awaiting
from agenteval_collector.assembly.senders import Senders
from agenteval_collector.model.telemetry import Origin
from otel_agenteval.semconv import AGENTEVAL_PROCESS_ID, AGENTEVAL_SPAN_COUNT

# With its length before it, as in a serialized key: a search from the end is fastest for a first byte that is rare.
_MARKER = bytes([len(AGENTEVAL_SPAN_COUNT)]) + AGENTEVAL_SPAN_COUNT.encode()


class Receipt(NamedTuple):
    """The offset of a request in the log, and the time of its receipt (ns since the Unix epoch, by the collector's
    clock)."""

    offset: int
    received_at: int


class SpanLog(NamedTuple):
    """A log record of the span that it names. `answer` is true where it holds the answer of that span's model."""

    span_id: bytes
    answer: bool


class OpenTrace:
    """The spans and log records of one trace, each kept as the bytes it came in: no decoded copy waits in memory.

    `revision` is the one that the next completion makes, `changed` says whether there is anything new for it, and
    `scored` is the newest revision that is committed, 0 before the first. `unscored_from` is the first request with
    anything that is in no committed revision yet, `received_at` when the newest of what it has was received, 0 before.
    """

    __slots__ = (
        "_awaited", "_delivered", "_expected", "_marked", "_marked_only", "_new_from", "_unattributed", "_unended",
        "awaiting", "changed", "logs", "offsets", "opened_at", "received_at", "revision", "scored", "size", "spans",
        "tenant", "touched_at", "trace_id", "unscored_from",
    )  # fmt: skip

    def __init__(self, trace_id: bytes, tenant: str, senders: Senders, *, now: float, receipt: Receipt) -> None:
        self.trace_id = trace_id
        self.tenant = tenant
        self.opened_at = now
        self.touched_at = now
        self.unscored_from = receipt
        self.received_at = 0
        self.revision = 1
        self.scored = 0
        self.spans: dict[bytes, tuple[bytes, Origin]] = {}
        self.logs: dict[bytes, Origin] = {}
        self.offsets: dict[int, None] = {}
        self.size = 0
        self.changed = False
        self.awaiting = Awaiting(tenant, senders)
        self._new_from = receipt
        self._unended: set[bytes] = set()
        self._expected: dict[str, int] = {}
        self._delivered: dict[str, int] = {}
        # Parents that have not come, each with the processes that count their spans and have handed over a child.
        self._awaited: dict[bytes, set[str]] = {}
        self._marked = False
        self._marked_only: set[str] = set()
        self._unattributed = 0

    def knows(self, item: Span | SpanLog, raw: bytes) -> bool:
        """Return whether the item is here already, because an exporter has sent it again."""
        if isinstance(item, SpanLog):
            return raw in self.logs
        return item.span_id in self.spans and not self._ends(item.span_id, item)

    def add(self, item: Span | SpanLog, raw: bytes, origin: Origin, receipt: Receipt) -> bool:
        """Take a span or a log record, which came in the bytes `raw`. Returns False where it is known already."""
        if isinstance(item, SpanLog):
            return self._add_log(item, raw, origin, receipt)
        return self._add_span(item, raw, origin, receipt)

    def reopen(self, now: float) -> None:
        """Go on after a completion: what comes from now on makes the next revision."""
        self.revision += 1
        self.changed = False
        self.opened_at = self.touched_at = now
        self._marked = False

    def restored(self, revision: int) -> None:
        """Note that the committed `revision` was made of all that was added until now."""
        self.revision = self.scored = revision
        self.changed = False
        self.awaiting.told_before()

    def died(self, receipt: Receipt) -> None:
        """Note that the agent died, which the next revision will say. `receipt` is that of the next request."""
        self._awaited.clear()
        if not self.changed:
            self._changed(receipt)

    def committed(self, revision: int) -> None:
        """Note that the store holds `revision`, so that nothing before its completion needs a replay."""
        self.scored = max(self.scored, revision)
        if self.changed and self.scored == self.revision - 1:
            self.unscored_from = self._new_from

    @property
    def running(self) -> bool:
        """True while a span is known not to have ended.

        It came without an end, or a process that counts its spans has handed over more than its latest count, and a
        child of one that has not come: so that one is open there, however long a call below it takes.
        """
        if self._unended:
            return True
        if not self._awaited:
            return False
        going_on = {
            process for process, count in list(self._delivered.items()) if count > self._expected.get(process, 0)
        }
        return any(not going_on.isdisjoint(processes) for processes in list(self._awaited.values()))

    @property
    def delivered(self) -> bool:
        """True where every process that reported a count of its spans has delivered that many.

        False where no process reported since the trace was opened, and where there are spans that nobody counts.
        """
        if not self._marked or self._unended or (self._unattributed and not self._marked_only):
            return False
        return not self.missing

    @property
    def missing(self) -> int:
        """Spans that processes say they handed over, and that have not come.

        Spans that name no process may belong to a process that is known from its markers only; they never stand in
        for the spans of one that names itself.
        """
        if not self._expected:
            return 0
        missing, spare = 0, self._unattributed
        for process, expected in list(self._expected.items()):
            of_process = max(0, expected - self._delivered.get(process, 0))
            if process in self._marked_only:
                found = min(of_process, spare)
                spare -= found
                of_process -= found
            missing += of_process
        return missing

    def learn(self) -> None:
        """Teach the habits what of the trace came and what did not, as it is complete."""
        for span_id in self.awaiting.followed_by_logs():
            known = self.spans.get(span_id)
            if known is not None:
                raw, origin = known
                self.awaiting.expect_logs(Span.FromString(raw), raw, origin)
        self.awaiting.learn()

    def _ends(self, span_id: bytes, span: Span) -> bool:
        """Return whether the item is the end of a span that came without one."""
        return span_id in self._unended and bool(span.end_time_unix_nano)

    def _add_span(self, span: Span, raw: bytes, origin: Origin, receipt: Receipt) -> bool:
        span_id, parent_id, spans = span.span_id, span.parent_span_id, self.spans
        known = spans.get(span_id)
        if known is not None and not self._ends(span_id, span):
            return False
        if known is not None:
            self.size -= len(known[0])
            self._unended.discard(span_id)
        elif not span.end_time_unix_nano:
            self._unended.add(span_id)
        spans[span_id] = (raw, origin)
        self.size += len(raw)
        self._awaited.pop(span_id, None)
        orphan = bool(parent_id) and parent_id not in spans
        self.awaiting.add(span, span_id, raw, origin, parent_id if orphan else None)
        if orphan and origin.process is not None:
            self._awaited.setdefault(parent_id, set()).add(origin.process)
        if not self.changed or receipt.offset not in self.offsets:
            self._added(receipt)
        # Searching bytes is far cheaper than walking attributes, and one span in a trace carries the marker.
        process = (raw.rfind(_MARKER) >= 0 and self._mark(span, origin.process)) or origin.process
        if known is None:
            if process is None:
                self._unattributed += 1
            else:
                self._delivered[process] = self._delivered.get(process, 0) + 1
        return True

    def _add_log(self, record: SpanLog, raw: bytes, origin: Origin, receipt: Receipt) -> bool:
        if raw in self.logs:
            return False
        self.logs[raw] = origin
        self.size += len(raw)
        if record.answer:
            self.awaiting.answered(record.span_id)
        self._added(receipt)
        return True

    def _added(self, receipt: Receipt) -> None:
        if receipt.offset not in self.offsets:
            self.offsets[receipt.offset] = None
            self.received_at = max(self.received_at, receipt.received_at)
        if not self.changed:
            self._changed(receipt)

    def _changed(self, receipt: Receipt) -> None:
        self.changed = True
        self._new_from = receipt
        if self.scored == self.revision - 1:
            self.unscored_from = receipt

    def _mark(self, span: Span, process: str | None) -> str | None:
        """Note the count that the marker on a span has; the process that it names where `process` is not known."""
        named, count = _marker(span)
        reporter = process or named
        if reporter is None or count is None:
            return None
        self._marked = True
        self._expected[reporter] = max(count, self._expected.get(reporter, 0))
        if process is None:
            self._marked_only.add(reporter)
        return reporter


def _marker(span: Span) -> tuple[str | None, int | None]:
    process, count = None, None
    for attribute in span.attributes:
        if attribute.key == AGENTEVAL_PROCESS_ID:
            process = attribute.value.string_value or None
        elif attribute.key == AGENTEVAL_SPAN_COUNT and attribute.value.WhichOneof("value") == "int_value":
            count = attribute.value.int_value
    return process, count
