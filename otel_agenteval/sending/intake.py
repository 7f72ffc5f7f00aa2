"""The queue of span starts and ends: the agent's threads append to it, threads of ours take them in."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext

from otel_agenteval.context import SpanIdentity, identity_in_baggage
from otel_agenteval.sending.buffer import EndedSpan, SpanBuffer, ended_span
from otel_agenteval.sending.open_traces import TraceTable

MAX_UNWEIGHED: Final = 4096
"""Ended spans that may wait for a thread of ours. When more wait, the agent's threads take some in themselves."""
MAX_UNTIMED: Final = 512
"""The same bound if no watch thread takes spans in every second."""
HELP: Final = 4
"""Starts and ends that a thread of the agent takes in for each start that it appends. A start brings an end, so any
number above two makes the queue shrink."""
MAX_EVENTS: Final = 8 * MAX_UNWEIGHED
"""Starts and ends that may wait at all. When more wait, the newest are dropped."""

# The size of spans that wait is guessed: a moving average over about so many spans, starting at so many bytes.
_MEAN_OF: Final = 8
_FIRST_MEAN: Final = 16 * 1024

Start: TypeAlias = tuple[ReadableSpan, SpanIdentity | None, SpanIdentity | Context | None]
"""A span that started, the identity that its own context names, and a fallback for a trace without identity: another
identity, or the context whose baggage may hold one."""


class SpanObserver(Protocol):
    """Receives starts and ends of spans, once they are taken in."""

    def started(self, span: ReadableSpan, identity: SpanIdentity | None) -> None:
        """Take a start."""

    def ended(self, span: EndedSpan) -> None:
        """Take an end."""


@dataclass(eq=False)
class SpanIntake:
    """Takes starts and ends into the table of open traces, the buffer and the observer, in the order in which they
    came.

    The agent's threads append to `events` and wait for nothing. `take_in` does all that costs more, mostly on threads
    of ours. The buffer's bounds also hold for spans that still wait here; their sizes are taken from the last spans.

    `wake` is called when too much waits. `fault` takes an exception that a bug of ours has raised.
    """

    table: TraceTable
    buffer: SpanBuffer
    observer: SpanObserver | None
    wake: Callable[[], None]
    fault: Callable[[Exception], None]

    def __post_init__(self) -> None:
        self.events: deque[Start | ReadableSpan] = deque()
        """Starts and ends in the order in which they came. After appending a start, call `relieve` if there are more
        than `limit`. Ends need no such check, because each has a start."""
        # Re-entrant: a garbage collection may end a span, and so come here again on the same thread.
        self._lock = threading.RLock()
        self._is_taking = False
        self._losing = threading.RLock()
        self._stopped = False
        self._mean_size: float = _FIRST_MEAN
        self.limit = self._room()
        """Starts and ends that may wait."""
        self.too_late = 0
        """Spans that ended after `stop`."""
        self.lost = 0
        """Spans that were dropped because MAX_EVENTS waited."""

    def __len__(self) -> int:
        """Return the number of starts and ends that wait."""
        return len(self.events)

    def take_in(self, at_most: int | None = None, *, timeout: float = -1) -> None:
        """Take in what waits now, the oldest first.

        If another thread is at it, wait for that one, at most `timeout` seconds (negative: without a limit).
        """
        if not self._lock.acquire(timeout=timeout):
            return
        is_first = not self._is_taking
        try:
            # A garbage collection on this thread may come here while it is at it: the order would be lost.
            if is_first:
                self._is_taking = True
                self._take_in(len(self.events) if at_most is None else at_most)
        finally:
            self._is_taking = not is_first
            self._lock.release()

    def relieve(self) -> None:
        """Take in some events on a thread of the agent. It is called there because our threads are busy or gone."""
        self.wake()
        self.take_in(HELP, timeout=0)
        while len(self.events) > MAX_EVENTS:
            with self._losing:
                # A start is a tuple. Only spans are counted as lost, not their starts.
                self.lost += type(self.events.pop()) is not tuple

    def hurry(self, timeout: float) -> None:
        """Let the export thread send soon everything that has ended by now. Waits at most `timeout` seconds for a
        thread that takes in."""
        self.take_in(timeout=timeout)
        self.buffer.hurry()

    def identity_of(
        self,
        context: SpanContext,
        parent: SpanContext | None,
        identity: SpanIdentity | None,
        around: SpanIdentity | Context | None,
    ) -> SpanIdentity | None:
        """Return the identity of a span: its own, completed by that of its trace. What came before must be taken in."""
        inherited = self.table.inherited(context.trace_id, parent.span_id if parent is not None else None)
        if identity is None:
            return inherited or _around(parent, around)
        return identity if inherited is None or inherited is identity else identity.completed_by(inherited)

    def stop(self, timeout: float) -> None:
        """Take in what waits. Spans that end from here on are only counted."""
        self.take_in(timeout=timeout)
        self._stopped = True
        self.limit = self._room()

    def disown(self) -> None:
        """After a fork, keep what the parent process knew of open traces, and leave all its spans to it."""
        self.observer = None
        self._stopped = True
        self._take_in(len(self.events))
        self.table.disown()

    def _take_in(self, count: int) -> None:
        pop = self.events.popleft
        for _ in range(min(count, len(self.events))):
            event = pop()
            try:
                if type(event) is tuple:
                    self._take_start(*event)
                else:
                    self._take_end(event)  # type: ignore[arg-type]
            except Exception as error:  # noqa: BLE001 - a bug of ours costs one span; it is logged and counted
                self.fault(error)
        self.limit = self._room()

    def _take_start(
        self, span: ReadableSpan, identity: SpanIdentity | None, around: SpanIdentity | Context | None
    ) -> None:
        context = span.get_span_context()
        if context is None or not context.trace_flags.sampled:
            return
        identity = self.identity_of(context, span.parent, identity, around)
        self.table.start(context.trace_id, context.span_id, identity)
        if self.observer is not None:
            self.observer.started(span, identity)

    def _take_end(self, span: ReadableSpan) -> None:
        context, parent = span.get_span_context(), span.parent
        if context is None or not context.trace_flags.sampled:
            return
        is_root = parent is None or parent.is_remote
        entry, identity = self.table.end(context.trace_id, context.span_id, is_root=is_root)
        if self._stopped:
            self.too_late += 1
            return
        ended = ended_span(span, identity)
        if self.observer is not None:
            self.observer.ended(ended)
        self._mean_size += (ended.size - self._mean_size) / _MEAN_OF
        if not self.buffer.has_room(ended.size):
            return
        closes = entry is not None and not entry.open
        if entry is not None:
            entry.handed_over += 1
            ended.span_count = entry.handed_over if closes else None
        self.buffer.add(ended)
        if closes:
            self.buffer.hurry()

    def _room(self) -> int:
        """Return how many starts and ends may wait: two for each span that the buffer has room for."""
        if self._stopped:
            return 0
        most = MAX_UNWEIGHED if self.observer is not None else MAX_UNTIMED
        return 2 * max(1, min(most, self.buffer.free_spans, int(self.buffer.free_bytes / self._mean_size)))


def _around(parent: SpanContext | None, around: SpanIdentity | Context | None) -> SpanIdentity | None:
    """Return the fallback identity. Baggage counts for roots alone: another span has the identity of its trace."""
    if around is None or isinstance(around, SpanIdentity):
        return around
    return identity_in_baggage(around) if parent is None or parent.is_remote else None
