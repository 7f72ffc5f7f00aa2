"""The traces that are open in this process: the identities of their spans, and the end of the last open one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from otel_agenteval.context import SpanIdentity

MAX_TRACES: Final = 4096
MAX_OPEN_SPANS: Final = 65_536
REMEMBER_CLOSED: Final = 600.0
"""Seconds a closed trace is remembered, so that a late span continues its count: the collector's `max_age`."""


@dataclass(slots=True, eq=False)
class TraceEntry:
    """One trace: the identity of its first span that had any, and of each open span."""

    identity: SpanIdentity | None = None
    open: dict[int, SpanIdentity | None] = field(default_factory=dict)
    handed_over: int = 0
    closed_at: float = 0.0
    outlives_root: bool = False


class TraceTable:
    """Bounded by traces and by open spans; the trace that closed first goes first, then the one that opened first.

    A span whose entry went is exported all the same, with no identity and no completion marker of its own. Not
    thread-safe. `monotonic` gives seconds.
    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        *,
        max_traces: int = MAX_TRACES,
        max_open_spans: int = MAX_OPEN_SPANS,
    ) -> None:
        self._monotonic = monotonic
        self._max_traces = max_traces
        self._max_open_spans = max_open_spans
        # Dicts keep order: `_open` by first start, `_closed` by time of closing.
        self._open: dict[int, TraceEntry] = {}
        self._closed: dict[int, TraceEntry] = {}
        self.open_spans = 0
        self.evicted_spans = 0
        self.without_root = 0
        """Open traces whose root has ended: any end may close them."""

    def __len__(self) -> int:
        return len(self._open) + len(self._closed)

    def inherited(self, trace_id: int, parent_id: int | None) -> SpanIdentity | None:
        """Return the identity of the parent span while it is open, else of the trace."""
        entry = self._open.get(trace_id) or self._closed.get(trace_id)
        if entry is None:
            return None
        parent = None if parent_id is None else entry.open.get(parent_id)
        return parent or entry.identity

    def is_open(self, trace_id: int) -> bool:
        """Return whether a span of the trace is open."""
        return trace_id in self._open

    def start(self, trace_id: int, span_id: int, identity: SpanIdentity | None) -> None:
        """Note that the span is open and whose it is."""
        if self.open_spans >= self._max_open_spans:
            self._evict_open()
        entry = self._open.get(trace_id)
        if entry is None:
            entry = self._closed.pop(trace_id, None) or TraceEntry()
            if len(self) >= self._max_traces:
                self._evict()
            self._open[trace_id] = entry
        entry.open[span_id] = identity
        self.open_spans += 1
        if entry.identity is None:
            entry.identity = identity

    def end(
        self, trace_id: int, span_id: int, *, is_root: bool = False
    ) -> tuple[TraceEntry | None, SpanIdentity | None]:
        """Return the trace's entry (None: forgotten) and the span's identity, the span being closed from here on."""
        entry = self._open.get(trace_id)
        if entry is None:
            entry = self._closed.get(trace_id)
            return entry, entry.identity if entry is not None else None
        if span_id not in entry.open:
            return entry, entry.identity
        identity = entry.open.pop(span_id)
        self.open_spans -= 1
        if not entry.open:
            entry.closed_at = self._monotonic()
            self._closed[trace_id] = self._left(trace_id)
            self._forget_oldest(entry.closed_at)
        elif is_root and not entry.outlives_root:
            entry.outlives_root = True
            self.without_root += 1
        return entry, identity

    def disown(self) -> None:
        """Leave everything open to the parent process, after a fork. This process has handed over nothing."""
        now = self._monotonic()
        self._closed.update(self._open)
        self._open.clear()
        self.open_spans = self.without_root = 0
        for entry in self._closed.values():
            entry.open = {}
            entry.outlives_root = False
            entry.handed_over = 0
            entry.closed_at = now

    def _forget_oldest(self, now: float) -> None:
        # Two for each one that closes: the work stays constant and old entries still run out.
        for trace_id in [key for key, _ in zip(self._closed, range(2), strict=False)]:
            if now - self._closed[trace_id].closed_at > REMEMBER_CLOSED:
                del self._closed[trace_id]

    def _evict(self) -> None:
        if self._closed:
            del self._closed[next(iter(self._closed))]
        else:
            self._evict_open()

    def _evict_open(self) -> None:
        entry = self._left(next(iter(self._open)))
        self.open_spans -= len(entry.open)
        self.evicted_spans += len(entry.open)

    def _left(self, trace_id: int) -> TraceEntry:
        """Return the entry of a trace that is not among the open ones any more."""
        entry = self._open.pop(trace_id)
        self.without_root -= entry.outlives_root
        entry.outlives_root = False
        return entry
