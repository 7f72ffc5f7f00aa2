"""Say to which trace a serialized span or log record belongs."""

from typing import Final

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.model.telemetry import Signal

_FIRST: Final = b"\x0a\x10"
"""The key of a span's first field, its trace id, and the length of one."""


def trace_of(signal: Signal, raw: bytes) -> bytes:
    """Return the trace id of a span or log record; empty where it has none."""
    if signal is Signal.LOGS:
        return LogRecord.FromString(raw).trace_id
    # As every encoder writes them; a repeated field would count last, and is not written by any.
    return raw[2:18] if raw.startswith(_FIRST) else Span.FromString(raw).trace_id
