"""The bounded buffer of ended spans that the collector has not answered for."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from sys import getsizeof
from typing import Any, Final

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import Link

from otel_agenteval.context import SpanIdentity
from otel_agenteval.finding import Finding

_SPAN_OVERHEAD: Final = 1024
"""Bytes that count for a span, an event or a link beside its values."""
_FLAT: Final = frozenset((str, int, float, bool, bytes, type(None)))


@dataclass(slots=True)
class EndedSpan:
    """A span on its way out.

    `attributes`, `events` and `links` belong to the span and must not be changed. `size` estimates its bytes in memory.
    `span_count` is set on the span that closed its trace in this process. `loops` are the loops that the span
    completed, None if no detector looked at it.
    """

    span: ReadableSpan
    identity: SpanIdentity | None
    attributes: dict[str, Any]
    events: Sequence[Event]
    links: Sequence[Link]
    size: int
    span_count: int | None = None
    loops: tuple[Finding, ...] | None = None


def ended_span(span: ReadableSpan, identity: SpanIdentity | None = None) -> EndedSpan:
    """Return the needed parts of a span, each read once. The SDK copies them at each access, or runs code for each
    item."""
    copied = attributes_of(span)
    events, links = span.events, span.links
    size = _SPAN_OVERHEAD + getsizeof(copied) + _sizes(copied.values())
    for event in events:
        size += _SPAN_OVERHEAD + _sizes((event.attributes or {}).values())
    for link in links:
        size += _SPAN_OVERHEAD + _sizes((link.attributes or {}).values())
    return EndedSpan(span, identity, copied, events, links, size)


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    """Return the attributes of a span as a plain dict, because the SDK's mapping runs Python code for each item."""
    attributes = span.attributes
    return attributes.copy() if attributes is not None else {}  # type: ignore[attr-defined]


def _sizes(values: Collection[Any]) -> int:
    total = sum(map(getsizeof, values))
    if not _FLAT.issuperset(map(type, values)):
        for value in values:
            if isinstance(value, Mapping):
                total += _sizes(value.values())
            elif isinstance(value, (tuple, list)):
                total += _sizes(value)
    return total


class SpanBuffer:
    """Keeps ended spans until the collector has answered for them. A full buffer refuses new spans.

    It never drops older ones: the counts in completion markers that are in the buffer must stay true. Both bounds
    include the spans of the request in flight.

    Each counter has one writer at a time, hence no lock. The thread that takes spans in writes `accepted`,
    `accepted_bytes`, `refused`, `oversized` and `urgent`; the export thread writes the others.
    """

    def __init__(self, max_spans: int, max_bytes: int) -> None:
        self._max_spans = max_spans
        self.max_bytes = max_bytes
        self._waiting: deque[EndedSpan] = deque()
        self.accepted = 0
        self.accepted_bytes = 0
        self.refused = 0
        self.oversized = 0
        self.oversized_bytes = 0
        """Size of the newest span that not even an empty buffer would hold."""
        self.urgent = 0
        self.taken = 0
        self.taken_bytes = 0
        self.settled = 0
        self.settled_bytes = 0

    def has_room(self, size: int) -> bool:
        """Return whether a span of `size` bytes may be added. If not, count it as refused, or as oversized."""
        if size > self.max_bytes:
            self.oversized += 1
            self.oversized_bytes = size
            return False
        has_room = self.free_spans > 0 and self.free_bytes >= size
        self.refused += not has_room
        return has_room

    def add(self, ended: EndedSpan) -> None:
        """Add the span. Ask `has_room` first."""
        self._waiting.append(ended)
        self.accepted += 1
        self.accepted_bytes += ended.size

    def hurry(self) -> None:
        """Mark all spans that are in the buffer now as urgent: they do not wait for more spans."""
        self.urgent = self.accepted

    @property
    def free_spans(self) -> int:
        """The number of spans that there is room for."""
        return self._max_spans - (self.accepted - self.settled)

    @property
    def free_bytes(self) -> int:
        """The number of bytes that there is room for."""
        return self.max_bytes - (self.accepted_bytes - self.settled_bytes)

    @property
    def is_urgent(self) -> bool:
        """True while a span waits that is marked as urgent."""
        return self.taken < self.urgent

    @property
    def waiting(self) -> int:
        """The number of spans that are in no request yet."""
        return len(self._waiting)

    @property
    def waiting_bytes(self) -> int:
        """The size of the spans that are in no request yet."""
        return self.accepted_bytes - self.taken_bytes

    def take(self, max_spans: int, max_bytes: int) -> list[EndedSpan]:
        """Remove and return the oldest spans, at least one if there is any. They take up room until `settle`."""
        batch: list[EndedSpan] = []
        size = 0
        while self._waiting and len(batch) < max_spans:
            size += self._waiting[0].size
            if batch and size > max_bytes:
                break
            batch.append(self._waiting.popleft())
        self.taken += len(batch)
        self.taken_bytes += sum(ended.size for ended in batch)
        return batch

    def settle(self) -> None:
        """Free the room of all spans that were taken, because they are delivered or given up."""
        self.settled = self.taken
        self.settled_bytes = self.taken_bytes
