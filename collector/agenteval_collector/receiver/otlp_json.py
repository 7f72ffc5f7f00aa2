"""OTLP/JSON: protobuf's JSON mapping, except that trace and span ids are hex, not base64."""

import base64
import binascii
import json
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agenteval_collector.model.telemetry import Signal
from agenteval_collector.runtime.errors import InvalidRequest

REQUESTS: dict[Signal, type[Message]] = {
    Signal.TRACES: ExportTraceServiceRequest,
    Signal.LOGS: ExportLogsServiceRequest,
}
_IDS = frozenset({"traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id"})


def parse_json(signal: Signal, text: bytes | str) -> Message:
    """Return the request in `text`. Raises InvalidRequest saying what is wrong with it."""
    try:
        document = json.loads(text)
        if not isinstance(document, dict):
            raise InvalidRequest(f"the body must be a JSON object, not {type(document).__name__}")
        return json_format.ParseDict(_with_base64_ids(document), REQUESTS[signal](), ignore_unknown_fields=True)
    except RecursionError as error:
        raise InvalidRequest("the JSON body is nested too deeply") from error
    except (ValueError, json_format.ParseError) as error:
        raise InvalidRequest(f"the body is no OTLP/JSON: {error}") from error


def _with_base64_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _base64_id(key, below) if key in _IDS and isinstance(below, str) else _with_base64_ids(below)
            for key, below in value.items()
        }
    if isinstance(value, list):
        return [_with_base64_ids(below) for below in value]
    return value


def _base64_id(key: str, value: str) -> str:
    try:
        return base64.b64encode(bytes.fromhex(value)).decode()
    except (ValueError, binascii.Error) as error:
        raise InvalidRequest(f"{key} {value[:40]!r} is not hex") from error
