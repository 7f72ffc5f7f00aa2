"""Read spans and log records out of requests, and bring a trace back from the requests of the log."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.assembly.open_trace import OpenTrace, Receipt, Record
from agenteval_collector.assembly.ports import KeptRequests
from agenteval_collector.assembly.senders import Senders
from agenteval_collector.model.assembled import AssembledTrace, Closing, Death
from agenteval_collector.model.resources import resource_of
from agenteval_collector.model.telemetry import LoggedRequest, Origin, Signal
from otel_agenteval.semconv import AGENTEVAL_PROCESS_ID, SERVICE_NAME

# Only log records that carry GenAI content are part of a trace; searching their bytes for the namespace lets the
# application's other log records pass without being read.
_GEN_AI = b"gen_ai."
_ANSWERS = (b"gen_ai.choice", b"gen_ai.client.inference.operation.details")
_NO_TRACE = (b"", bytes(16))


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTrace:
    """A trace that was scored before, as the store holds it."""

    revision: int
    offsets: frozenset[int]


def reassemble(trace_id: str, tenant: str, known: KnownTrace, log: KeptRequests) -> AssembledTrace | None:
    """A revision that was scored, as it was; None where some of it is gone from the log."""
    receipt = Receipt(min(known.offsets, default=0), 0)
    trace = OpenTrace(bytes.fromhex(trace_id), tenant, Senders(), now=0.0, receipt=receipt)
    return assembled(trace, complete=True) if refill(trace, known, log) else None


def refill(trace: OpenTrace, known: KnownTrace, log: KeptRequests) -> bool:
    """Bring back from the log what the scored revision was made of; False where some of it is gone."""
    found = 0
    for request in log.get(sorted(known.offsets)):
        found += 1
        receipt = Receipt(request.offset, request.received_at)
        for trace_id, item, origin in items_of(request):
            if trace_id == trace.trace_id:
                trace.add(item, origin, receipt)
    trace.restored(known.revision)
    return found == len(known.offsets)


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
        missing=trace.missing,
        complete=complete,
        death=death,
        closing=closing,
        # Of an agent that died nothing may have arrived.
        received_at=trace.received_at if death is None else max(trace.received_at, death.heard_at),
    )


def items_of(request: LoggedRequest) -> Sequence[tuple[bytes, Span | Record, Origin]]:
    """Return the request's spans, and its log records that carry GenAI content, with their trace ids."""
    items: list[tuple[bytes, Span | Record, Origin]] = []
    if request.signal is Signal.TRACES:
        for resource_spans in ExportTraceServiceRequest.FromString(request.body).resource_spans:
            resource = resource_spans.resource.SerializeToString()
            for scope_spans in resource_spans.scope_spans:
                origin = _origin(resource, scope_spans.scope.name)
                items += [(span.trace_id, span, origin) for span in scope_spans.spans]
        return items
    for resource_logs in ExportLogsServiceRequest.FromString(request.body).resource_logs:
        resource = resource_logs.resource.SerializeToString()
        for scope_logs in resource_logs.scope_logs:
            origin = _origin(resource, scope_logs.scope.name)
            for record in scope_logs.log_records:
                if record.trace_id not in _NO_TRACE and _GEN_AI in (raw := record.SerializeToString()):
                    answer = any(name in raw for name in _ANSWERS)
                    items.append((record.trace_id, Record(raw, record.span_id, answer), origin))
    return items


# A few services send everything: what comes from one place shares one object.
@lru_cache(maxsize=256)
def _origin(raw: bytes, scope: str) -> Origin:
    named = resource_of(raw)
    process, service = named.get(AGENTEVAL_PROCESS_ID), named.get(SERVICE_NAME)
    return Origin(
        resource=raw,
        scope=scope,
        process=process if isinstance(process, str) else None,
        service=service if isinstance(service, str) else "",
    )
