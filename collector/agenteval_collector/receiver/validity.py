"""Checks of a request before it enters the log: the little that has to be read before the answer."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.model.telemetry import Signal
from agenteval_collector.runtime.errors import InvalidRequest, RequestTooLarge
from otel_agenteval.semconv import OWN_SCOPES

Request = TypeVar("Request", bound=Message)
NO_TRACE = bytes(16)
NO_SPAN = bytes(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits in bytes, after decompression."""

    request: int
    span: int


@dataclass(slots=True)
class Checked:
    """A request that may be logged. `body` is None where nothing of it is left.

    `reason` says why `rejected` spans or log records were taken out; `own` were dropped as our own telemetry.
    """

    body: bytes | None
    accepted: int = 0
    rejected: int = 0
    own: int = 0
    reason: str = ""


def check(signal: Signal, body: bytes, limits: Limits) -> Checked:
    """Parse and check `body`. Raises InvalidRequest or RequestTooLarge where all of it has to be refused."""
    if len(body) > limits.request:
        raise RequestTooLarge(f"the request has {len(body)} bytes, the limit is {limits.request}: send smaller batches")
    if signal is Signal.TRACES:
        return _check_traces(parse(ExportTraceServiceRequest, body), body, limits)
    return _check_logs(parse(ExportLogsServiceRequest, body), body, limits)


def parse(message: type[Request], body: bytes) -> Request:
    """Parse `body` as a message. Raises InvalidRequest where it is none."""
    try:
        return message.FromString(body)
    except DecodeError as error:
        raise InvalidRequest(f"the body is no {message.DESCRIPTOR.full_name}: {error}") from error


def is_own(scope: InstrumentationScope) -> bool:
    """Return whether telemetry of this scope is ours. Evaluating it would feed the evaluator with itself."""
    return scope.name.partition(".")[0] in OWN_SCOPES


def _check_traces(request: ExportTraceServiceRequest, body: bytes, limits: Limits) -> Checked:
    may_be_too_large = len(body) > limits.span

    def problem(span: Span) -> str | None:
        if len(span.trace_id) != 16 or span.trace_id == NO_TRACE:
            return "the trace id must be 16 bytes and not zero"
        if len(span.span_id) != 8 or span.span_id == NO_SPAN:
            return "the span id must be 8 bytes and not zero"
        if may_be_too_large and span.ByteSize() > limits.span:
            return f"the span is larger than {limits.span} bytes"
        return None

    groups = [(each.scope, each.spans) for resource in request.resource_spans for each in resource.scope_spans]
    cleared = _clear_zero_parents(span for _, spans in groups for span in spans)
    return _without_rejected(_sift(groups, problem, body), request, changed=cleared)


def _clear_zero_parents(spans: Iterable[Span]) -> bool:
    """Replace parent ids of zeros by empty ones, which every reader understands. Returns whether there was one."""
    zero = [span for span in spans if span.parent_span_id == NO_SPAN]
    for span in zero:
        span.ClearField("parent_span_id")
    return bool(zero)


def _check_logs(request: ExportLogsServiceRequest, body: bytes, limits: Limits) -> Checked:
    may_be_too_large = len(body) > limits.span

    def problem(record: LogRecord) -> str | None:
        # Log records without a trace are legal; they belong to no trace and are passed over later.
        if len(record.trace_id) not in (0, 16) or len(record.span_id) not in (0, 8):
            return "the trace id must be 16 bytes and the span id 8, or absent"
        if may_be_too_large and record.ByteSize() > limits.span:
            return f"the log record is larger than {limits.span} bytes"
        return None

    groups = [(each.scope, each.log_records) for resource in request.resource_logs for each in resource.scope_logs]
    return _without_rejected(_sift(groups, problem, body), request)


Item = TypeVar("Item", Span, LogRecord)


def _sift(
    groups: Iterable[tuple[InstrumentationScope, RepeatedCompositeFieldContainer[Item]]],
    problem: Callable[[Item], str | None],
    body: bytes,
) -> Checked:
    """Remove telemetry of ours, and telemetry with a problem."""
    checked = Checked(body)
    for scope, items in groups:
        if is_own(scope):
            checked.own += len(items)
            del items[:]
            continue
        faults = [problem(item) for item in items]
        bad = len(faults) - faults.count(None)
        if bad:
            checked.rejected += bad
            checked.reason = checked.reason or next(fault for fault in faults if fault is not None)
            good = [item for item, fault in zip(items, faults, strict=True) if fault is None]
            # All at once: taking them out one by one would take quadratic time, and that can be had on purpose.
            del items[:]
            items.extend(good)
        checked.accepted += len(items)
    return checked


def _without_rejected(checked: Checked, request: Message, *, changed: bool = False) -> Checked:
    if checked.accepted == 0:
        checked.body = None
    elif checked.rejected or checked.own or changed:
        checked.body = request.SerializeToString()
    return checked
