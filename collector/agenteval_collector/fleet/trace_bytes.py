"""Complete traces as the bytes of a message (`assembled.proto`)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from google.protobuf.message import DecodeError
from pydantic import TypeAdapter, ValidationError

from agenteval_collector.fleet.cluster import LARGEST
from agenteval_collector.model.assembled_trace import AssembledTrace, Closing, Death
from agenteval_collector.model.logged_requests import Origin
from agenteval_collector.runtime.errors import PermanentError
from otel_agenteval.proto.v1.assembled_pb2 import Assembled, TraceItem, TraceOrigin

_SAME: Final = ("trace_id", "tenant", "revision", "received_at", "missing")
"""The fields that `AssembledTrace` and the message have alike."""
_ORIGIN: Final = ("resource", "scope", "process", "service", "sender")
"""The same of `Origin`."""
_DEATH: Final = TypeAdapter(Death)
_CLOSING: Final = TypeAdapter(Closing)

MOST: Final = LARGEST - 1024 * 1024
"""Bytes of a message at most: Kafka adds a few of its own."""
_AROUND: Final = 32
"""Bytes that the encoding adds to an item, at most."""

_Items: TypeAlias = Sequence[tuple[bytes, Origin]]


def to_bytes(trace: AssembledTrace, most: int = MOST) -> bytes:
    """Return a complete trace as a message of at most `most` bytes. A larger trace loses items in its middle, and the
    lost spans count as missing: the brokers would refuse the message, and all traces behind it would wait."""
    body = _written(trace)
    return body if len(body) <= most else _written(_cut(trace, most))


def _cut(trace: AssembledTrace, most: int) -> AssembledTrace:
    logs = _ends(trace.logs, most // 4)
    spans = _ends(trace.spans, most // 2)
    return replace(trace, spans=spans, logs=logs, missing=trace.missing + len(trace.spans) - len(spans))


def _ends(items: _Items, most: int) -> _Items:
    """Return the first and the last items, as many as fit into `most` bytes together with their origins."""
    positions = (
        position for pair in zip(range(len(items)), reversed(range(len(items))), strict=True) for position in pair
    )
    indexes: set[int] = set()
    origins: set[Origin] = set()
    for position in positions:
        raw, origin = items[position]
        most -= len(raw) + _AROUND
        if origin not in origins:
            origins.add(origin)
            # Twice, as the process and the service are stored beside the resource that has them.
            most -= 2 * len(origin.resource) + len(origin.scope.encode()) + _AROUND
        if most < 0 or position in indexes:
            break
        indexes.add(position)
    return [items[position] for position in sorted(indexes)]


def _written(trace: AssembledTrace) -> bytes:
    origins: dict[Origin, int] = {}

    def placed(items: Iterable[tuple[bytes, Origin]]) -> list[TraceItem]:
        return [TraceItem(item=raw, origin=origins.setdefault(origin, len(origins))) for raw, origin in items]

    message = Assembled(
        **{name: getattr(trace, name) for name in _SAME},
        spans=placed(trace.spans),
        logs=placed(trace.logs),
        offsets=trace.offsets,
        death=b"" if trace.death is None else _DEATH.dump_json(trace.death),
        closing=b"" if trace.closing is None else _CLOSING.dump_json(trace.closing),
        origins=[TraceOrigin(**{name: getattr(origin, name) for name in _ORIGIN}) for origin in origins],
    )
    return message.SerializeToString()


def from_bytes(body: bytes) -> AssembledTrace:
    """Return the trace in a message. Raises PermanentError if it is none."""
    try:
        message = Assembled.FromString(body)
        origins = [
            Origin(
                origin.resource,
                origin.scope,
                origin.process if origin.HasField("process") else None,
                origin.service,
                origin.sender,
            )
            for origin in message.origins
        ]
        return AssembledTrace(
            **{name: getattr(message, name) for name in _SAME},
            spans=[(span.item, origins[span.origin]) for span in message.spans],
            logs=[(log.item, origins[log.origin]) for log in message.logs],
            offsets=[*message.offsets],
            death=_DEATH.validate_json(message.death) if message.death else None,
            closing=_CLOSING.validate_json(message.closing) if message.closing else None,
        )
    except (DecodeError, ValidationError, IndexError) as error:
        raise PermanentError(f"a message of {len(body)} bytes is no complete trace: {error}") from error
