"""Serialized spans and log records to a `Trace`."""

from functools import lru_cache

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.pipeline import AssembledTrace
from otel_agenteval.conventions import attributes, log_record, read_trace, span_record
from otel_agenteval.model import Json, Trace


def read(assembled: AssembledTrace) -> Trace:
    """What the dialects make of the trace's telemetry; never raises on content."""
    return read_trace(
        assembled.trace_id,
        [
            span_record(Span.FromString(raw), _resource(origin.resource), origin.scope)
            for raw, origin in assembled.spans
        ],
        [
            log_record(LogRecord.FromString(raw), _resource(origin.resource), origin.scope)
            for raw, origin in assembled.logs
        ],
    )


# A few services send everything: their resources are decoded once, not for every trace.
@lru_cache(maxsize=256)
def _resource(raw: bytes) -> dict[str, Json]:
    return attributes(Resource.FromString(raw).attributes)
