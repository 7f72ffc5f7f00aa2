"""Conversations as serialized OTLP requests, for load on a collector without the cost of a client."""

from collections.abc import Iterable, Iterator
from random import Random

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span
from opentelemetry.trace import SpanKind

from benchmarks.workload.conversation import Conversation
from benchmarks.workload.plan import SERVICE, Attributes, PlannedSpan, plan
from benchmarks.workload.replay import SCOPE
from otel_agenteval import semconv

PROCESS_ID = "workload"
STEP = 1_000_000
"""Nanoseconds between two starts or ends."""

_KINDS = {SpanKind.INTERNAL: Span.SPAN_KIND_INTERNAL, SpanKind.CLIENT: Span.SPAN_KIND_CLIENT}


def requests(
    conversations: Iterable[Conversation], *, started_at: int, spans_per_request: int = 64, marker: bool = True
) -> Iterator[bytes]:
    """Yield `ExportTraceServiceRequest`s of `spans_per_request` spans each. The last one has the remaining spans.

    Spans follow one another in order of their ends, from `started_at` (nanoseconds since the Unix epoch) on. With
    `marker`, they are like those of our processor: identity on every span, completion marker on the root. Without it,
    they are like those of a stock exporter: the session is the conversation id, and nothing says when a trace is
    complete.
    """
    described: Attributes = {semconv.SERVICE_NAME: SERVICE}
    if marker:
        described[semconv.AGENTEVAL_PROCESS_ID] = PROCESS_ID
    resource = Resource(attributes=_key_values(described))
    batch: list[Span] = []
    for span in spans(conversations, started_at=started_at, marker=marker):
        batch.append(span)
        if len(batch) == spans_per_request:
            yield _request(resource, batch)
            batch = []
    if batch:
        yield _request(resource, batch)


def spans(conversations: Iterable[Conversation], *, started_at: int, marker: bool) -> Iterator[Span]:
    """Yield the spans in the order in which they end. Their ids follow from the session id."""
    now = started_at
    for conversation in conversations:
        ids = Random(conversation.session_id)
        identity = _identity(conversation, marker)
        for trace in plan(conversation):
            trace_id, root_id = ids.randbytes(16), ids.randbytes(8)
            root_started_at = now
            for child in trace.children:
                span = _span(
                    child, identity, trace_id, ids.randbytes(8), started_at=now + STEP, ended_at=now + 2 * STEP
                )
                span.parent_span_id = root_id
                yield span
                now += 2 * STEP
            closing: Attributes = dict(identity)
            if marker:
                closing[semconv.AGENTEVAL_PROCESS_ID] = PROCESS_ID
                closing[semconv.AGENTEVAL_SPAN_COUNT] = len(trace.children) + 1
            now += STEP
            yield _span(trace.root, closing, trace_id, root_id, started_at=root_started_at, ended_at=now)


def _identity(conversation: Conversation, marker: bool) -> Attributes:
    if not marker:
        return {semconv.GEN_AI_CONVERSATION_ID: conversation.session_id}
    return {
        semconv.AGENTEVAL_SESSION_ID: conversation.session_id,
        semconv.AGENTEVAL_TASK_ID: conversation.task_id,
        semconv.AGENTEVAL_RUN_ID: conversation.run_id,
        semconv.AGENTEVAL_CONDITION: "baseline",
    }


def _span(
    planned: PlannedSpan, added: Attributes, trace_id: bytes, span_id: bytes, *, started_at: int, ended_at: int
) -> Span:
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        name=planned.name,
        kind=_KINDS[planned.kind],
        start_time_unix_nano=started_at,
        end_time_unix_nano=ended_at,
        attributes=_key_values({**planned.attributes, **added}),
    )


def _key_values(attributes: Attributes) -> list[KeyValue]:
    return [
        KeyValue(key=key, value=AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value))
        for key, value in attributes.items()
    ]


def _request(resource: Resource, batch: list[Span]) -> bytes:
    scope_spans = ScopeSpans(scope=InstrumentationScope(name=SCOPE), spans=batch)
    resource_spans = ResourceSpans(resource=resource, scope_spans=[scope_spans])
    return ExportTraceServiceRequest(resource_spans=[resource_spans]).SerializeToString()
