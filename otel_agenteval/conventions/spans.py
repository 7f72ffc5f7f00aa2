"""Spans and log records as plain values. The dialects read these.

Decoding OTLP never raises: bytes that are not UTF-8 become base64 text, numbers that JSON lacks become text, and values
that are nested too deeply become None.
"""

import base64
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as LogMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from otel_agenteval.model import Json

MAX_DEPTH = 32
"""Levels of arrays and maps inside one attribute value that are kept."""

STATUS_OK = 1
STATUS_ERROR = 2


@dataclass(slots=True, kw_only=True)
class EventRecord:
    """A span event; `time` is in nanoseconds since the Unix epoch."""

    name: str
    time: int = 0
    attributes: Mapping[str, Json] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class SpanRecord:
    """A finished span. Ids are lower-case hex, times nanoseconds since the Unix epoch, `status` is the OTLP code."""

    span_id: str | None
    parent_id: str | None = None
    trace_id: str | None = None
    name: str = ""
    started_at: int = 0
    ended_at: int = 0
    attributes: Mapping[str, Json] = field(default_factory=dict)
    events: tuple[EventRecord, ...] = ()
    status: int = 0
    status_message: str = ""
    resource: Mapping[str, Json] = field(default_factory=dict)
    scope: str = ""
    dropped_attributes_count: int = 0


@dataclass(slots=True, kw_only=True)
class LogRecord:
    """A log record. `event_name` is also read from the attribute `event.name`, if older SDKs put it."""

    trace_id: str | None = None
    span_id: str | None = None
    time: int = 0
    event_name: str = ""
    body: Json = None
    attributes: Mapping[str, Json] = field(default_factory=dict)
    resource: Mapping[str, Json] = field(default_factory=dict)
    scope: str = ""


def span_record(span: SpanMessage, resource: Mapping[str, Json], scope: str) -> SpanRecord:
    """Decode a span of OTLP, given the attributes of its resource and the name of its scope."""
    return SpanRecord(
        trace_id=span.trace_id.hex() or None,
        span_id=span.span_id.hex() or None,
        parent_id=span.parent_span_id.hex() or None,
        name=span.name,
        started_at=span.start_time_unix_nano,
        ended_at=span.end_time_unix_nano,
        attributes=attributes(span.attributes),
        events=tuple(map(_event, span.events)) if span.events else (),
        status=span.status.code,
        status_message=span.status.message,
        resource=resource,
        scope=scope,
        dropped_attributes_count=span.dropped_attributes_count,
    )


def _event(event: SpanMessage.Event) -> EventRecord:
    return EventRecord(name=event.name, time=event.time_unix_nano, attributes=attributes(event.attributes))


def log_record(record: LogMessage, resource: Mapping[str, Json], scope: str) -> LogRecord:
    """Decode a log record of OTLP, given the attributes of its resource and the name of its scope."""
    decoded = attributes(record.attributes)
    return LogRecord(
        trace_id=record.trace_id.hex() or None,
        span_id=record.span_id.hex() or None,
        time=record.time_unix_nano or record.observed_time_unix_nano,
        event_name=record.event_name or str(decoded.get("event.name", "")),
        body=_value(record.body, MAX_DEPTH),
        attributes=decoded,
        resource=resource,
        scope=scope,
    )


def attributes(pairs: Iterable[KeyValue]) -> dict[str, Json]:
    """Decode OTLP key-value pairs into a dict; of a repeated key the last value counts."""
    # Most values are texts: reading one is faster than asking for its kind first.
    return {pair.key: pair.value.string_value or _value(pair.value, MAX_DEPTH) for pair in pairs}


def _value(value: AnyValue, depth: int) -> Json:
    match kind := value.WhichOneof("value"):
        case "string_value" | "int_value" | "bool_value":
            plain: Json = getattr(value, kind)
            return plain
        case "double_value":
            return value.double_value if math.isfinite(value.double_value) else str(value.double_value)
        case "bytes_value":
            return _text(value.bytes_value)
        case "array_value" if depth:
            return [_value(item, depth - 1) for item in value.array_value.values]
        case "kvlist_value" if depth:
            return {pair.key: _value(pair.value, depth - 1) for pair in value.kvlist_value.values}
    return None


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return base64.b64encode(content).decode()
