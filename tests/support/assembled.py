"""An assembled trace from OTLP spans, as the log gives it back."""

from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.logged_requests import Origin
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span


def assembled(*spans: Span) -> AssembledTrace:
    """All spans of one trace."""
    origin = Origin(resource=Resource().SerializeToString(), scope="tests", process=None)
    return AssembledTrace(
        trace_id=spans[0].trace_id.hex(),
        tenant="default",
        revision=1,
        spans=[(each.SerializeToString(), origin) for each in spans],
        logs=[],
        offsets=[1],
        received_at=0,
    )
