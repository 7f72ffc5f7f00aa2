"""The values in a span or a log record of OTLP."""

from collections.abc import Iterator

from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span


def values_of(item: Span | LogRecord) -> Iterator[AnyValue]:
    """Yield the values of its attributes, of its events' and links' attributes, and of its body."""
    yield from (attribute.value for attribute in item.attributes)
    if isinstance(item, Span):
        yield from (attribute.value for event in item.events for attribute in event.attributes)
        yield from (attribute.value for link in item.links for attribute in link.attributes)
    else:
        yield item.body
