"""A trace while its spans arrive: what came, from which process, and whether that is all."""

import math
from typing import NamedTuple

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.pipeline import Origin
from otel_agenteval.semconv import AGENTEVAL_PROCESS_ID, AGENTEVAL_SPAN_COUNT

_MARKER = AGENTEVAL_SPAN_COUNT.encode()


class Receipt(NamedTuple):
    """The offset of a request in the log, and when it was received (ns since the Unix epoch, by our own clock)."""

    offset: int
    received_at: int


class OpenTrace:
    """The spans and log records of one trace, each kept as the bytes it came in: no decoded copy waits in memory.

    `revision` is the one that the next completion makes, `changed` says whether there is anything new for it, and
    `scored` is the newest revision that is committed, 0 before the first. `unscored_from` is the first request with
    anything that is in no committed revision yet, `received_at` when the newest of what it has was received, 0 before.
    """

    def __init__(self, trace_id: bytes, tenant: str, *, now: float, receipt: Receipt) -> None:
        self.trace_id = trace_id
        self.tenant = tenant
        self.opened_at = now
        self.touched_at = now
        self.deadline = math.inf
        self.unscored_from = receipt
        self.received_at = 0
        self.revision = 1
        self.scored = 0
        self.spans: dict[bytes, tuple[bytes, Origin]] = {}
        self.logs: dict[bytes, Origin] = {}
        self.offsets: dict[int, None] = {}
        self.size = 0
        self.changed = False
        self._new_from = receipt
        self._unended: set[bytes] = set()
        self._expected: dict[str, int] = {}
        self._delivered: dict[str, int] = {}
        # Parents that have not come, each with the processes that count their spans and have handed over a child.
        self._awaited: dict[bytes, set[str]] = {}
        self._marked = False
        self._marked_only: set[str] = set()
        self._unattributed = 0

    def add(self, item: Span | bytes, origin: Origin, receipt: Receipt) -> bool:
        """Take a span or a serialized log record; False where it is known already (an exporter sent it again)."""
        if isinstance(item, bytes):
            return self._add_log(item, origin, receipt)
        return self._add_span(item, origin, receipt)

    def reopen(self, now: float) -> None:
        """Go on after a completion: what comes from now on makes the next revision."""
        self.revision += 1
        self.changed = False
        self.opened_at = self.touched_at = now
        self.deadline = math.inf
        self._marked = False

    def restored(self, revision: int, now: float) -> None:
        """What was added until now is what the committed `revision` was made of."""
        self.revision = self.scored = revision
        self.reopen(now)

    def died(self, receipt: Receipt) -> None:
        """Its agent died, of which the next revision tells; `receipt` is that of the next request."""
        self._awaited.clear()
        self._changed(receipt)

    def unchanged(self) -> None:
        """Nothing came since it was opened again: the revision before stands, as it was."""
        self.revision -= 1
        self.changed = True

    def committed(self, revision: int) -> None:
        """The store holds `revision` now; what came before its completion needs no replay any more."""
        self.scored = max(self.scored, revision)
        if self.changed and self.scored == self.revision - 1:
            self.unscored_from = self._new_from

    @property
    def running(self) -> bool:
        """Whether a span is known not to have ended.

        It came without an end, or a process that counts its spans has handed over more than its latest count, and a
        child of one that has not come: so that one is open there, however long a call below it takes.
        """
        if self._unended:
            return True
        going_on = {process for process, count in self._delivered.items() if count > self._expected.get(process, 0)}
        return bool(going_on) and any(not going_on.isdisjoint(processes) for processes in self._awaited.values())

    @property
    def delivered(self) -> bool:
        """Whether every process that reported how many spans it handed over has delivered that many.

        False where no process reported since the trace was opened.
        """
        return self._marked and not self._unended and not self.missing

    @property
    def missing(self) -> int:
        """Spans that processes say they handed over, and that have not come.

        Spans that name no process may belong to a process that is known from its markers only; they never stand in
        for the spans of one that names itself.
        """
        missing, spare = 0, self._unattributed
        for process, expected in self._expected.items():
            of_process = max(0, expected - self._delivered.get(process, 0))
            if process in self._marked_only:
                found = min(of_process, spare)
                spare -= found
                of_process -= found
            missing += of_process
        return missing

    def _add_span(self, span: Span, origin: Origin, receipt: Receipt) -> bool:
        known = self.spans.get(span.span_id)
        if known is not None and (span.span_id not in self._unended or not span.end_time_unix_nano):
            return False
        raw = span.SerializeToString()
        if known is not None:
            self.size -= len(known[0])
            self._unended.discard(span.span_id)
        elif not span.end_time_unix_nano:
            self._unended.add(span.span_id)
        self.spans[span.span_id] = (raw, origin)
        self._awaited.pop(span.span_id, None)
        if origin.process is not None and span.parent_span_id and span.parent_span_id not in self.spans:
            self._awaited.setdefault(span.parent_span_id, set()).add(origin.process)
        self.size += len(raw)
        self._added(receipt)
        self._attribute(span, raw, origin, again=known is not None)
        return True

    def _add_log(self, raw: bytes, origin: Origin, receipt: Receipt) -> bool:
        if raw in self.logs:
            return False
        self.logs[raw] = origin
        self.size += len(raw)
        self._added(receipt)
        return True

    def _added(self, receipt: Receipt) -> None:
        self.offsets[receipt.offset] = None
        self.received_at = max(self.received_at, receipt.received_at)
        self._changed(receipt)

    def _changed(self, receipt: Receipt) -> None:
        if not self.changed:
            self.changed = True
            self._new_from = receipt
            if self.scored == self.revision - 1:
                self.unscored_from = receipt

    def _attribute(self, span: Span, raw: bytes, origin: Origin, *, again: bool) -> None:
        process = origin.process
        # Searching bytes is far cheaper than walking attributes, and one span in a trace carries the marker.
        if _MARKER in raw:
            named, count = _marker(span)
            reporter = process or named
            if reporter is not None and count is not None:
                self._marked = True
                self._expected[reporter] = max(count, self._expected.get(reporter, 0))
                if process is None:
                    self._marked_only.add(reporter)
                    process = reporter
        if again:
            return
        if process is None:
            self._unattributed += 1
        else:
            self._delivered[process] = self._delivered.get(process, 0) + 1


def _marker(span: Span) -> tuple[str | None, int | None]:
    process, count = None, None
    for attribute in span.attributes:
        if attribute.key == AGENTEVAL_PROCESS_ID:
            process = attribute.value.string_value or None
        elif attribute.key == AGENTEVAL_SPAN_COUNT and attribute.value.WhichOneof("value") == "int_value":
            count = attribute.value.int_value
    return process, count
