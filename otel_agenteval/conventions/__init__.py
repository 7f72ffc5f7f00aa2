"""Reading telemetry: OpenTelemetry spans and log records of any GenAI instrumentation become one `Trace`.

A dialect is a file with a class that satisfies `facts.Dialect`, and a place in the table of `dialects.py`. Dialects
say what one span means; how spans make turns is decided once for all of them.
"""

from otel_agenteval.conventions.dialects import content_switch, read_span
from otel_agenteval.conventions.facts import Role, SpanFacts
from otel_agenteval.conventions.identity import BY_CONVENTION, SessionNaming
from otel_agenteval.conventions.reader import read_trace
from otel_agenteval.conventions.readings import SpanReadings
from otel_agenteval.conventions.runs import STAMPED, RunNaming
from otel_agenteval.conventions.span_values import (
    EventRecord,
    LogRecord,
    SpanRecord,
    attributes,
    log_record,
    span_record,
)

__all__ = [
    "BY_CONVENTION",
    "STAMPED",
    "EventRecord",
    "LogRecord",
    "Role",
    "RunNaming",
    "SessionNaming",
    "SpanFacts",
    "SpanReadings",
    "SpanRecord",
    "attributes",
    "content_switch",
    "log_record",
    "read_span",
    "read_trace",
    "span_record",
]
