"""From requests to the spans and log records in them, and from the requests of the log back to a trace."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.assembly.open_trace import OpenTrace, Receipt
from agenteval_collector.pipeline import AssembledTrace, Death, LoggedRequest, Origin, Signal
from otel_agenteval.semconv import AGENTEVAL_PROCESS_ID

_PROCESS = AGENTEVAL_PROCESS_ID.encode()
# Only log records that carry GenAI content are part of a trace; searching their bytes for the namespace lets the
# application's other log records pass without being read.
_GEN_AI = b"gen_ai."
_NO_TRACE = (b"", bytes(16))


Reload: TypeAlias = Callable[[Sequence[int]], Iterable[LoggedRequest]]
"""Reads the requests at these offsets again; those that are gone are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTrace:
    """What the store holds of a trace that was scored before."""

    revision: int
    offsets: frozenset[int]


def reassemble(trace_id: str, tenant: str, known: KnownTrace, reload: Reload) -> AssembledTrace | None:
    """A revision that was scored, as it was; None where some of it is gone from the log."""
    trace = OpenTrace(bytes.fromhex(trace_id), tenant, now=0.0, receipt=Receipt(min(known.offsets, default=0), 0))
    if not refill(trace, known, reload):
        return None
    trace.restored(known.revision, now=0.0)
    return assembled(trace, complete=True)


def refill(trace: OpenTrace, known: KnownTrace, reload: Reload) -> bool:
    """Bring back from the log what the scored revision was made of; False where some of it is gone."""
    found = 0
    for request in reload(sorted(known.offsets)):
        found += 1
        receipt = Receipt(request.offset, request.received_at)
        for trace_id, item, origin in items_of(request):
            if trace_id == trace.trace_id:
                trace.add(item, origin, receipt)
    return found == len(known.offsets)


def assembled(trace: OpenTrace, *, complete: bool, death: Death | None = None) -> AssembledTrace:
    """All of the trace at its newest revision."""
    return AssembledTrace(
        trace_id=trace.trace_id.hex(),
        tenant=trace.tenant,
        # Opened again without anything new yet, it is still the revision before.
        revision=trace.revision if trace.changed else trace.revision - 1,
        spans=list(trace.spans.values()),
        logs=list(trace.logs.items()),
        offsets=list(trace.offsets),
        missing=trace.missing,
        complete=complete,
        death=death,
        # Of an agent that died nothing may have arrived.
        received_at=trace.received_at if death is None else max(trace.received_at, death.heard_at),
    )


def items_of(request: LoggedRequest) -> Iterator[tuple[bytes, Span | bytes, Origin]]:
    """The request's spans, and its log records that carry GenAI content, with their trace ids."""
    if request.signal is Signal.TRACES:
        for resource_spans in ExportTraceServiceRequest.FromString(request.body).resource_spans:
            resource, process = _resource(resource_spans.resource)
            for scope_spans in resource_spans.scope_spans:
                origin = Origin(resource, scope_spans.scope.name, process)
                for span in scope_spans.spans:
                    yield span.trace_id, span, origin
        return
    for resource_logs in ExportLogsServiceRequest.FromString(request.body).resource_logs:
        resource, process = _resource(resource_logs.resource)
        for scope_logs in resource_logs.scope_logs:
            origin = Origin(resource, scope_logs.scope.name, process)
            for record in scope_logs.log_records:
                if record.trace_id not in _NO_TRACE and _GEN_AI in (raw := record.SerializeToString()):
                    yield record.trace_id, raw, origin


def _resource(resource: Resource) -> tuple[bytes, str | None]:
    raw = resource.SerializeToString()
    if _PROCESS not in raw:
        return raw, None
    named = (a.value.string_value for a in resource.attributes if a.key == AGENTEVAL_PROCESS_ID)
    return raw, next(named, None)
