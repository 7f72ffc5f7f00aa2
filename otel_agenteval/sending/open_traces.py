"""The table of traces that are open in this process: whose their spans are, and when the last open span has ended."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from otel_agenteval.context import SpanIdentity

MAX_TRACES: Final = 4096
MAX_OPEN_SPANS: Final = 65_536
REMEMBER_CLOSED: Final = 600.0
"""Seconds for which a closed trace is remembered, so that a late span continues its count. The collector waits as long
(`assembly.max_age`)."""


@dataclass(slots=True, eq=False)
class TraceEntry:
    """A trace: the identity of its first span that had one, and the identities of its open spans."""

    identity: SpanIdentity | None = None
    open: dict[int, SpanIdentity | None] = field(default_factory=dict)
    handed_over: int = 0
    closed_at: float = 0.0
    outlives_root: bool = False


@dataclass(eq=False)
class TraceTable:
    """Keeps a bounded number of traces and open spans. Evicts the trace that closed first, else the one that opened
    first.

    A span of an evicted trace is exported all the same, without an identity or a completion marker. Not thread-safe.
    `monotonic` gives seconds.
    """

    monotonic: Callable[[], float]
    max_traces: int = MAX_TRACES
    max_open_spans: int = MAX_OPEN_SPANS

    def __post_init__(self) -> None:
        # Dicts keep order: `_open` by first start, `_closed` by time of closing.
        self._open: dict[int, TraceEntry] = {}
        self._closed: dict[int, TraceEntry] = {}
        self.open_spans = 0
        self.evicted_spans = 0
        self.without_root = 0
        """The number of open traces whose root has ended. Any end may close one of them."""

    def __len__(self) -> int:
        return len(self._open) + len(self._closed)

    def inherited(self, trace_id: int, parent_id: int | None) -> SpanIdentity | None:
        """Return the identity of the parent span if it is open, else that of the trace."""
        entry = self._open.get(trace_id) or self._closed.get(trace_id)
        if entry is None:
            return None
        parent = None if parent_id is None else entry.open.get(parent_id)
        return parent or entry.identity

    def is_open(self, trace_id: int) -> bool:
        """Return whether a span of the trace is open."""
        return trace_id in self._open

    def start(self, trace_id: int, span_id: int, identity: SpanIdentity | None) -> None:
        """Note that a span is open, and its identity."""
        if self.open_spans >= self.max_open_spans:
            self._evict_open()
        entry = self._open.get(trace_id)
        if entry is None:
            entry = self._closed.pop(trace_id, None) or TraceEntry()
            if len(self) >= self.max_traces:
                self._evict()
            self._open[trace_id] = entry
        entry.open[span_id] = identity
        self.open_spans += 1
        if entry.identity is None:
            entry.identity = identity

    def end(
        self, trace_id: int, span_id: int, *, is_root: bool = False
    ) -> tuple[TraceEntry | None, SpanIdentity | None]:
        """Close a span. Return the entry of its trace, None if that was evicted, and the span's identity."""
        entry = self._open.get(trace_id)
        if entry is None:
            entry = self._closed.get(trace_id)
            return entry, entry.identity if entry is not None else None
        if span_id not in entry.open:
            return entry, entry.identity
        identity = entry.open.pop(span_id)
        self.open_spans -= 1
        if not entry.open:
            entry.closed_at = self.monotonic()
            self._closed[trace_id] = self._remove_open(trace_id)
            self._forget_oldest(entry.closed_at)
        elif is_root and not entry.outlives_root:
            entry.outlives_root = True
            self.without_root += 1
        return entry, identity

    def disown(self) -> None:
        """After a fork, leave all open spans to the parent process. This process has handed over none so far."""
        now = self.monotonic()
        self._closed.update(self._open)
        self._open.clear()
        self.open_spans = self.without_root = 0
        for entry in self._closed.values():
            entry.open = {}
            entry.outlives_root = False
            entry.handed_over = 0
            entry.closed_at = now

    def _forget_oldest(self, now: float) -> None:
        # Two are looked at for each trace that closes: constant work, and old entries still go faster than new ones
        # come.
        for trace_id in [key for key, _ in zip(self._closed, range(2), strict=False)]:
            if now - self._closed[trace_id].closed_at > REMEMBER_CLOSED:
                del self._closed[trace_id]

    def _evict(self) -> None:
        if self._closed:
            del self._closed[next(iter(self._closed))]
        else:
            self._evict_open()

    def _evict_open(self) -> None:
        entry = self._remove_open(next(iter(self._open)))
        self.open_spans -= len(entry.open)
        self.evicted_spans += len(entry.open)

    def _remove_open(self, trace_id: int) -> TraceEntry:
        """Remove a trace from the open ones, and return its entry."""
        entry = self._open.pop(trace_id)
        self.without_root -= entry.outlives_root
        entry.outlives_root = False
        return entry
