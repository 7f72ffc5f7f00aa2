"""Complete traces as the bytes of a message (`assembled.proto`)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from google.protobuf.message import DecodeError
from pydantic import TypeAdapter, ValidationError

from agenteval_collector.log.kafka.cluster import LARGEST
from agenteval_collector.model.assembled_trace import AssembledTrace, Closing, Death
from agenteval_collector.model.logged_requests import Origin
from agenteval_collector.runtime.errors import PermanentError
from otel_agenteval.proto.v1.assembled_pb2 import Assembled, TraceItem, TraceOrigin

_SAME: Final = ("trace_id", "tenant", "revision", "received_at", "missing")
"""The fields that `AssembledTrace` and the message have alike."""
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
    kept: set[int] = set()
    known: set[Origin] = set()
    for position in positions:
        raw, origin = items[position]
        most -= len(raw) + _AROUND
        if origin not in known:
            known.add(origin)
            # Twice, as the process and the service are stored beside the resource that has them.
            most -= 2 * len(origin.resource) + len(origin.scope.encode()) + _AROUND
        if most < 0 or position in kept:
            break
        kept.add(position)
    return [items[position] for position in sorted(kept)]


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
        origins=[
            TraceOrigin(resource=each.resource, scope=each.scope, process=each.process, service=each.service)
            for each in origins
        ],
    )
    return message.SerializeToString()


def from_bytes(body: bytes) -> AssembledTrace:
    """Return the trace in a message. Raises PermanentError where it is none."""
    try:
        message = Assembled.FromString(body)
        origins = [
            Origin(each.resource, each.scope, each.process if each.HasField("process") else None, each.service)
            for each in message.origins
        ]
        return AssembledTrace(
            **{name: getattr(message, name) for name in _SAME},
            spans=[(each.item, origins[each.origin]) for each in message.spans],
            logs=[(each.item, origins[each.origin]) for each in message.logs],
            offsets=[*message.offsets],
            death=_DEATH.validate_json(message.death) if message.death else None,
            closing=_CLOSING.validate_json(message.closing) if message.closing else None,
        )
    except (DecodeError, ValidationError, IndexError) as error:
        raise PermanentError(f"a message of {len(body)} bytes is no complete trace: {error}") from error
