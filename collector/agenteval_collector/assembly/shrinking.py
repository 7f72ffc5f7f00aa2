"""Cut the largest values of a trace, so that a trace that is too large keeps all that is small."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.model.largest_kept import LEAST
from agenteval_collector.model.otlp_values import values_of

Item = TypeVar("Item", Span, LogRecord)


def shrunk(raw: bytes, parse: Callable[[bytes], Item], most: int) -> bytes:
    """Return the serialized item with every value cut to `most` bytes. What was cut counts as dropped attributes."""
    item = parse(raw)
    number = 0
    for value in values_of(item):
        if value.ByteSize() <= most:
            continue
        number += 1
        if value.WhichOneof("value") == "string_value":
            value.string_value = value.string_value.encode()[:most].decode(errors="ignore")
        else:
            value.Clear()
    if number == 0:
        return raw
    item.dropped_attributes_count += number
    return item.SerializeToString()


def value_sizes(raw: bytes, parse: Callable[[bytes], Span | LogRecord]) -> Iterator[int]:
    """Yield the sizes of the values in an item that can be cut."""
    if len(raw) <= LEAST:
        return
    value: AnyValue
    for value in values_of(parse(raw)):
        if (size := value.ByteSize()) > LEAST:
            yield size
