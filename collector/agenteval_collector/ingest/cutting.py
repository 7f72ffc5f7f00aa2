"""Cut what is too large to be kept: its largest texts, so that the rest of a span is not lost with them."""

from typing import Final

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.model.otlp_values import values_of

KEPT: Final = 16 * 1024
"""Bytes that are kept of every value that is cut, at least."""
_SIZES: Final = 64
"""Bytes by which a message may grow or shrink beside its texts, since the lengths of these are written in it."""


def cut(item: Span | LogRecord, limit: int) -> int:
    """Cut the largest values of a span or a log record until it has `limit` bytes at most. Return how many were cut; 0
    if it cannot be done.

    Of a text its beginning stays. A list or an object goes. The values that were cut are counted as dropped attributes,
    as an SDK counts those that it does not record: so readers know that the item is not whole.
    """
    values = sorted(values_of(item), key=lambda value: value.ByteSize(), reverse=True)
    over = item.ByteSize() - limit
    number = 0
    for value in values:
        size = value.ByteSize()
        if over <= 0 or size <= KEPT:
            break
        number += 1
        if value.WhichOneof("value") == "string_value":
            room = max(KEPT, size - over - _SIZES)
            value.string_value = value.string_value.encode()[:room].decode(errors="ignore")
        else:
            value.Clear()
        over = item.ByteSize() - limit
    if over > 0:
        return 0
    item.dropped_attributes_count += number
    return number
