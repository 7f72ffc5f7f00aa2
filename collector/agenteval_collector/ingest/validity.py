"""Check a request before it enters the log. Only the little that must be known before the answer is read.

A request is first taken apart into its spans or log records, as bytes. These are read one after another. So a bad one
costs only itself, and a large request is never decoded as a whole.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.ingest.cutting import cut
from agenteval_collector.model.logged_requests import Signal
from agenteval_collector.runtime.errors import InvalidRequest, RequestTooLarge
from otel_agenteval.proto.v1.frame_pb2 import Frame, ResourceFrame, ScopeFrame
from otel_agenteval.semconv import OWN_SCOPES, SERVICE_NAME

M = TypeVar("M", bound=Message)

PART: Final = 4 * 1024 * 1024
"""Bytes of a part, about. A larger request is logged in parts, so that no stage reads all of it at once."""
ITEM: Final = 64
"""Bytes that count for each item beside its own, because many small items are much work, too."""
MAX_RESOURCE: Final = 256 * 1024
"""Bytes of a resource or a scope at most: it stays in memory for as long as spans of it may come."""
NO_TRACE: Final = bytes(16)
NO_SPAN: Final = bytes(8)

_REQUESTS: Final[Mapping[Signal, type[Message]]] = {
    Signal.TRACES: ExportTraceServiceRequest,
    Signal.LOGS: ExportLogsServiceRequest,
}


class Limits(NamedTuple):
    """Limits in bytes, after decompression."""

    request: int
    span: int


@dataclass(slots=True)
class Checked:
    """The part of a request that may be logged: `bodies` are requests, none if nothing is left.

    `reason` says why the first of the `rejected` spans or log records was taken out. `service` names where it came
    from; empty if that is not known. `own` were dropped because they are our own telemetry.
    """

    bodies: list[bytes] = field(default_factory=list)
    accepted: int = 0
    rejected: int = 0
    own: int = 0
    reason: str = ""
    service: str = ""

    def reject(self, reason: str, count: int = 1) -> None:
        """Note that `count` spans or log records are left out."""
        if count:
            self.rejected += count
            self.reason = self.reason or reason


def check(signal: Signal, body: bytes, limits: Limits, checked: Checked | None = None) -> Checked:
    """Check `body`. `checked` holds what was found about the request before; the result adds to it.

    Raises InvalidRequest or RequestTooLarge if all of the request has to be refused.
    """
    if len(body) > limits.request:
        raise RequestTooLarge(f"the request has {len(body)} bytes, the limit is {limits.request}: send smaller batches")
    checked = checked or Checked()
    try:
        frame = Frame.FromString(body)
    except DecodeError as error:
        raise InvalidRequest(f"the body is no {_REQUESTS[signal].DESCRIPTOR.full_name} in protobuf") from error
    if body and not frame.resources:
        raise InvalidRequest(f"the body has nothing of a {_REQUESTS[signal].DESCRIPTOR.full_name}")
    # A list, not a generator: every resource has to be sifted, also after the first change.
    is_changed = any([_sift(resource, signal, limits.span, checked) for resource in frame.resources])
    if checked.accepted:
        checked.bodies = list(_parts(frame)) if is_changed or len(body) > PART else [body]
    return checked


def _sift(resource: ResourceFrame, signal: Signal, limit: int, checked: Checked) -> bool:
    """Take out our own telemetry, and items that cannot be kept. Returns whether anything was changed."""
    try:
        origin = _read_origin(Resource, resource.resource)
    except InvalidRequest as error:
        checked.reject(str(error), sum(len(scope.items) for scope in resource.scopes))
        del resource.scopes[:]
        return True
    admitted = _span if signal is Signal.TRACES else _log_record
    has_reason = bool(checked.reason)
    is_changed = any([_sift_scope(scope, admitted, limit, checked) for scope in resource.scopes])
    if checked.reason and not has_reason:
        checked.service = next(
            (attribute.value.string_value for attribute in origin.attributes if attribute.key == SERVICE_NAME), ""
        )
    return is_changed


def _sift_scope(scope: ScopeFrame, admitted: Callable[[bytes, int], bytes], limit: int, checked: Checked) -> bool:
    items = len(scope.items)
    try:
        is_own = _read_origin(InstrumentationScope, scope.scope).name.partition(".")[0] in OWN_SCOPES
    except InvalidRequest as error:
        checked.reject(str(error), items)
        del scope.items[:]
        return True
    if is_own:
        # Telemetry about evaluations would be evaluated, without end.
        checked.own += items
        del scope.items[:]
        return True
    kept: list[bytes] = []
    is_changed = False
    for raw in scope.items:
        try:
            item = admitted(raw, limit)
        except InvalidRequest as error:
            checked.reject(str(error))
            is_changed = True
        else:
            kept.append(item)
            is_changed = is_changed or item is not raw
    checked.accepted += len(kept)
    if is_changed:
        del scope.items[:]
        scope.items.extend(kept)
    return is_changed


def _span(raw: bytes, limit: int) -> bytes:
    """Return the span to keep, cut if it is too large; raises InvalidRequest if it cannot be."""
    span = _read(Span, raw)
    is_changed = len(raw) > limit
    if is_changed and not cut(span, limit):
        raise InvalidRequest(f"the span is larger than {limit} bytes (server.max_span_bytes), whatever is cut")
    trace_id, span_id = span.trace_id, span.span_id
    if len(trace_id) != 16 or trace_id == NO_TRACE:
        raise InvalidRequest("the trace id must be 16 bytes and not zero")
    if len(span_id) != 8 or span_id == NO_SPAN:
        raise InvalidRequest("the span id must be 8 bytes and not zero")
    if span.parent_span_id == NO_SPAN:
        # An id of zeros means no parent, as an empty one does, which every reader understands.
        span.ClearField("parent_span_id")
        is_changed = True
    return span.SerializeToString() if is_changed else raw


def _log_record(raw: bytes, limit: int) -> bytes:
    """Return the log record to keep, cut if it is too large; raises InvalidRequest if it cannot be."""
    record = _read(LogRecord, raw)
    is_cut = len(raw) > limit
    if is_cut and not cut(record, limit):
        raise InvalidRequest(f"the log record is larger than {limit} bytes (server.max_span_bytes), whatever is cut")
    # Log records without a trace are legal. The assembly passes over them.
    if len(record.trace_id) not in (0, 16) or len(record.span_id) not in (0, 8):
        raise InvalidRequest("the trace id must be 16 bytes and the span id 8, or absent")
    return record.SerializeToString() if is_cut else raw


def _read_origin(message: type[M], raw: bytes) -> M:
    if len(raw) > MAX_RESOURCE:
        raise InvalidRequest(f"a {message.DESCRIPTOR.name} is larger than {MAX_RESOURCE} bytes")
    return _read(message, raw)


def _read(message: type[M], raw: bytes) -> M:
    try:
        return message.FromString(raw)
    except DecodeError as error:
        raise InvalidRequest(f"a {message.DESCRIPTOR.name} is malformed, or has a text that is not UTF-8") from error


def _parts(frame: Frame) -> Iterator[bytes]:
    """Yield the items in requests of about `PART` bytes, each with its resource and scope."""
    part, size = Frame(), 0
    for resource in frame.resources:
        scopes = list(resource.scopes)
        del resource.scopes[:]
        in_resource: ResourceFrame | None = None
        for scope in scopes:
            # Each item is dropped as it is taken: a second copy of all would double the memory.
            items = deque(scope.items)
            del scope.items[:]
            in_scope: ScopeFrame | None = None
            while items:
                raw = items.popleft()
                if size >= PART:
                    yield part.SerializeToString()
                    part, size, in_resource, in_scope = Frame(), 0, None, None
                if in_resource is None:
                    in_resource = part.resources.add()
                    in_resource.CopyFrom(resource)
                if in_scope is None:
                    in_scope = in_resource.scopes.add()
                    in_scope.CopyFrom(scope)
                in_scope.items.append(raw)
                size += len(raw) + ITEM
    if size:
        yield part.SerializeToString()
