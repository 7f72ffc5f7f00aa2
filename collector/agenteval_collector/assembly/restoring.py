"""Read spans and log records out of requests, and restore a trace from the requests of the log."""

from functools import lru_cache

from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

from agenteval_collector.assembly.open_trace import MAX_BYTES, LogPosition, OpenTrace, SpanLogRecord
from agenteval_collector.assembly.ports import KeptRequests, ScoredRevision
from agenteval_collector.assembly.senders import Senders
from agenteval_collector.model.assembled_trace import AssembledTrace, Closing, Death
from agenteval_collector.model.callers import participant_of
from agenteval_collector.model.logged_requests import NO_TRACE, LoggedRequest, Origin, Signal, resource_of
from otel_agenteval.proto.v1.frame_pb2 import Frame
from otel_agenteval.semconv import AGENTEVAL_PROCESS_ID, SERVICE_NAME

# Only log records that carry GenAI content are part of a trace; searching their bytes for the namespace lets the
# application's other log records pass without being read.
_GEN_AI = b"gen_ai."
_ANSWERS = (b"gen_ai.choice", b"gen_ai.client.inference.operation.details")


def reassemble(
    trace_id: str, tenant: str, scored: ScoredRevision, log: KeptRequests, *, max_bytes: int = MAX_BYTES
) -> AssembledTrace | None:
    """Return a scored revision as it was; None if the log has lost some of it."""
    _, offsets = scored
    position = LogPosition(min(offsets, default=0), 0)
    trace = OpenTrace(bytes.fromhex(trace_id), tenant, Senders(), now=0.0, position=position, max_bytes=max_bytes)
    return assembled(trace, complete=True) if refill(trace, scored, log) else None


def refill(trace: OpenTrace, scored: ScoredRevision, log: KeptRequests) -> bool:
    """Add everything that the scored revision was made of. Returns False if the log has lost some of it."""
    revision, offsets = scored
    count = 0
    for request in log.get(sorted(offsets)):
        count += 1
        position = LogPosition(request.offset, request.received_at)
        for trace_id, item, raw, origin in items_of(request):
            if trace_id == trace.trace_id:
                trace.add(item, raw, origin, position)
    trace.restored(revision)
    return count == len(offsets)


def assembled(
    trace: OpenTrace, *, complete: bool, death: Death | None = None, closing: Closing | None = None
) -> AssembledTrace:
    """Return the whole trace at its newest revision."""
    return AssembledTrace(
        trace_id=trace.trace_id.hex(),
        tenant=trace.tenant,
        revision=trace.revision,
        spans=list(trace.spans.values()),
        logs=list(trace.logs.items()),
        offsets=list(trace.offsets),
        missing=trace.missing + trace.dropped,
        complete=complete,
        death=death,
        closing=closing,
        counted=trace.size,
        # Nothing may have arrived of an agent that died.
        received_at=trace.received_at if death is None else max(trace.received_at, death.heard_at),
    )


def items_of(request: LoggedRequest) -> list[tuple[bytes, Span | SpanLogRecord, bytes, Origin]]:
    """Return the spans of a request, or its log records with GenAI content, as (trace id, item, bytes, origin)."""
    items: list[tuple[bytes, Span | SpanLogRecord, bytes, Origin]] = []
    is_traces = request.signal is Signal.TRACES
    frame = Frame.FromString(request.body)
    for resource in frame.resources:
        for scope in resource.scopes:
            origin = _origin(resource.resource, scope.scope, frame.sender)
            raws = scope.items
            if is_traces:
                # Parts of one protobuf message share its memory, which is faster than an allocation for each.
                new_span = ScopeSpans().spans.add if len(raws) > 1 else Span
                for raw in raws:
                    span = new_span()
                    span.MergeFromString(raw)
                    items.append((span.trace_id, span, raw, origin))
                continue
            for raw in raws:
                if _GEN_AI in raw and (record := LogRecord.FromString(raw)).trace_id not in NO_TRACE:
                    answer = any(name in raw for name in _ANSWERS)
                    items.append((record.trace_id, SpanLogRecord(record.span_id, answer), raw, origin))
    return items


# A few services send everything, so that items of one origin share one object.
@lru_cache(maxsize=256)
def _origin(resource: bytes, scope: bytes, sender: str) -> Origin:
    named = resource_of(resource)
    process, service = named.get(AGENTEVAL_PROCESS_ID), named.get(SERVICE_NAME)
    return Origin(
        resource=resource,
        scope=InstrumentationScope.FromString(scope).name,
        process=participant_of(sender, process) if isinstance(process, str) and process else None,
        service=service if isinstance(service, str) else "",
        sender=sender,
    )
