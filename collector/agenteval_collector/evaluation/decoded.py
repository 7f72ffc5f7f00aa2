"""Decoded telemetry of large traces. It is kept, so that a later revision decodes and reads only what is new."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final, TypeVar

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as LogMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.model.logged_requests import Origin, resource_of
from otel_agenteval.conventions.input_cache import EXPANSION
from otel_agenteval.conventions.span_reader import ReadingCache
from otel_agenteval.conventions.spans import LogRecord, SpanRecord, log_record, span_record
from otel_agenteval.internal.lru import LruMap

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MIN_ITEMS: Final = 50
"""The least number of spans and log records of a trace that is kept. Reading a smaller trace again takes a moment."""

Serialized = tuple[bytes, Origin]


class Decoded:
    """The decoded spans and log records of one trace."""

    def __init__(self) -> None:
        self._spans: dict[Serialized, SpanRecord] = {}
        self._logs: dict[Serialized, LogRecord] = {}
        self.read_span = ReadingCache()
        self.size = 0
        """The estimated bytes of memory that the decoded trace takes."""
        self.items = 0
        """The number of spans and log records of the trace."""

    def decode(
        self, spans: Iterable[Serialized], logs: Iterable[Serialized]
    ) -> tuple[list[SpanRecord], list[LogRecord]]:
        """Return the decoded spans and log records of a trace.

        A span or log record that was decoded by an earlier call is returned as the same object.
        """
        self.read_span.begin_again()
        self._spans = _each(spans, self._spans, _span)
        self._logs = _each(logs, self._logs, _log)
        self.size = EXPANSION * sum(len(raw) for held in (self._spans, self._logs) for raw, _ in held)
        self.items = len(self._spans) + len(self._logs)
        return list(self._spans.values()), list(self._logs.values())


class DecodedTraces:
    """Keeps the decoded telemetry of the large traces that were read last. Not thread-safe.

    A trace is large from `min_items` spans and log records on. All kept traces together take at most `max_bytes`.
    """

    def __init__(self, max_bytes: int, *, min_items: int = MIN_ITEMS) -> None:
        self._min_items = min_items
        self._kept: LruMap[str, Decoded] = LruMap(max_bytes, lambda decoded: decoded.size)

    @property
    def size(self) -> int:
        """The estimated bytes of memory that all kept traces take."""
        return self._kept.weight

    def take(self, trace_id: str) -> Decoded:
        """Remove and return the decoded telemetry of a trace, empty for an unknown trace. `keep` gives it back."""
        return self._kept.pop(trace_id) or Decoded()

    def __contains__(self, trace_id: str) -> bool:
        return trace_id in self._kept

    def keep(self, trace_id: str, decoded: Decoded) -> None:
        """Keep the decoded telemetry of a trace if it is large. The traces that were read longest ago make room."""
        if decoded.items >= self._min_items:
            self._kept.put(trace_id, decoded)


def _each(items: Iterable[K], known: Mapping[K, V], decode: Callable[[K], V]) -> dict[K, V]:
    return {item: decode(item) if (value := known.get(item)) is None else value for item in items}


def _span(item: Serialized) -> SpanRecord:
    raw, origin = item
    return span_record(Span.FromString(raw), resource_of(origin.resource), origin.scope)


def _log(item: Serialized) -> LogRecord:
    raw, origin = item
    return log_record(LogMessage.FromString(raw), resource_of(origin.resource), origin.scope)
