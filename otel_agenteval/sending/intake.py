"""Starts and ends of spans between the agent's threads, which only append them, and ours, which take them in."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext

from otel_agenteval.context import SpanIdentity, identity_in_baggage
from otel_agenteval.sending.buffer import EndedSpan, SpanBuffer, ended_span
from otel_agenteval.sending.open_traces import TraceTable

MAX_UNWEIGHED: Final = 4096
"""Ended spans that may wait for a thread of ours; then those who append take some in themselves."""
MAX_UNTIMED: Final = 512
"""The same where no observer has them taken in every second."""
HELP: Final = 4
"""Starts and ends that a thread of the agent takes in then, for each one that it appends: so the number falls."""
MAX_EVENTS: Final = 8 * MAX_UNWEIGHED
"""Starts and ends that may wait where the agent's threads do not come to help; the newest go then."""

_MEAN_OF: Final = 8
_FIRST_MEAN: Final = 16 * 1024

Start: TypeAlias = tuple[ReadableSpan, SpanIdentity | None, SpanIdentity | Context | None]
"""A span that started; the identity that its context names, and the one that counts where its trace has none, or the
context of a root to find that in."""


class Observer(Protocol):
    """Somebody who is told of starts and ends."""

    def started(self, span: ReadableSpan, identity: SpanIdentity | None) -> None:
        """Take a start."""

    def ended(self, span: EndedSpan) -> None:
        """Take an end."""


class SpanIntake:
    """Takes starts and ends into the table of open traces, the buffer and the observer, in the order of their arrival.

    The agent's threads append to `events`, and wait for nothing. Whatever costs more is done by `take_in`, mostly on
    threads of ours. What was not taken in counts in the bounds of the buffer with the size that spans had of late.
    """

    def __init__(
        self,
        table: TraceTable,
        buffer: SpanBuffer,
        observer: Observer | None,
        wake: Callable[[], None],
        fault: Callable[[Exception], None],
    ) -> None:
        """`wake` is called where too much waits; `fault` takes a bug of ours."""
        self._table = table
        self._buffer = buffer
        self._observer = observer
        self._wake = wake
        self._fault = fault
        self.events: deque[Start | ReadableSpan] = deque()
        """Starts and ends in the order in which they came. Whoever appends a start asks whether they are more than
        `limit`, and then calls `relieve`: no end is without a start."""
        # Re-entrant: a span may end inside a garbage collection that interrupts this on the same thread.
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
        """Spans that went because MAX_EVENTS waited."""

    def __len__(self) -> int:
        """Return the number of starts and ends that wait."""
        return len(self.events)

    def take_in(self, at_most: int | None = None, *, timeout: float = -1) -> None:
        """Take in what waits now, the oldest first. Waits for another thread that does, at most `timeout` seconds."""
        if not self._lock.acquire(timeout=timeout):
            return
        is_first = not self._is_taking
        try:
            # A garbage collection that interrupts this very thread comes here, too.
            if is_first:
                self._is_taking = True
                self._take_in(len(self.events) if at_most is None else at_most)
        finally:
            self._is_taking = not is_first
            self._lock.release()

    def relieve(self) -> None:
        """Take some in, on a thread of the agent, as those of ours are busy or gone."""
        self._wake()
        self.take_in(HELP, timeout=0)
        while len(self.events) > MAX_EVENTS:
            with self._losing:
                self.lost += type(self.events.pop()) is not tuple

    def hurry(self, timeout: float) -> None:
        """Let nothing that has ended by now linger. Waits for a thread that takes in, at most `timeout` seconds."""
        self.take_in(timeout=timeout)
        self._buffer.hurry()

    def whose(
        self,
        context: SpanContext,
        parent: SpanContext | None,
        identity: SpanIdentity | None,
        around: SpanIdentity | Context | None,
    ) -> SpanIdentity | None:
        """Return the identity of a span: what is named for it, completed by what its trace has, once all that came
        before was taken in."""
        inherited = self._table.inherited(context.trace_id, parent.span_id if parent is not None else None)
        if identity is None:
            return inherited or _around(parent, around)
        return identity if inherited is None or inherited is identity else identity.completed_by(inherited)

    def stop(self, timeout: float) -> None:
        """Take in what waits; what comes from here on is only counted."""
        self.take_in(timeout=timeout)
        self._stopped = True
        self.limit = self._room()

    def disown(self) -> None:
        """Take over from the parent process what is known of open traces, but none of its spans, after a fork."""
        self._observer = None
        self._stopped = True
        self._take_in(len(self.events))
        self._table.disown()

    def _take_in(self, count: int) -> None:
        pop = self.events.popleft
        for _ in range(min(count, len(self.events))):
            event = pop()
            try:
                if type(event) is tuple:
                    self._take_start(*event)
                else:
                    self._take_end(event)  # type: ignore[arg-type]
            except Exception as error:  # noqa: BLE001 - a bug of ours costs a span; logged and counted
                self._fault(error)
        self.limit = self._room()

    def _take_start(
        self, span: ReadableSpan, identity: SpanIdentity | None, around: SpanIdentity | Context | None
    ) -> None:
        context = span.get_span_context()
        if context is None or not context.trace_flags.sampled:
            return
        identity = self.whose(context, span.parent, identity, around)
        self._table.start(context.trace_id, context.span_id, identity)
        if self._observer is not None:
            self._observer.started(span, identity)

    def _take_end(self, span: ReadableSpan) -> None:
        context, parent = span.get_span_context(), span.parent
        if context is None or not context.trace_flags.sampled:
            return
        is_root = parent is None or parent.is_remote
        entry, identity = self._table.end(context.trace_id, context.span_id, is_root=is_root)
        if self._stopped:
            self.too_late += 1
            return
        ended = ended_span(span, identity)
        if self._observer is not None:
            self._observer.ended(ended)
        self._mean_size += (ended.size - self._mean_size) / _MEAN_OF
        if not self._buffer.has_room(ended.size):
            return
        closes = entry is not None and not entry.open
        if entry is not None:
            entry.handed_over += 1
            ended.span_count = entry.handed_over if closes else None
        self._buffer.add(ended)
        if closes:
            self._buffer.hurry()

    def _room(self) -> int:
        """Return how many starts and ends may wait: as many as the buffer has room for, a start for each end."""
        if self._stopped:
            return 0
        most = MAX_UNWEIGHED if self._observer is not None else MAX_UNTIMED
        return 2 * max(1, min(most, self._buffer.free_spans, int(self._buffer.free_bytes / self._mean_size)))


def _around(parent: SpanContext | None, around: SpanIdentity | Context | None) -> SpanIdentity | None:
    """Return the identity of a span that neither its context nor its trace names."""
    if around is None or isinstance(around, SpanIdentity):
        return around
    return identity_in_baggage(around) if parent is None or parent.is_remote else None
