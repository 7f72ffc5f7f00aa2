"""Write what was recorded of a trace as OTLP/JSON, as `agenteval replay` and any OTLP receiver take it."""

import base64
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.logged_requests import Origin

_IDS: Final = frozenset({"traceId", "spanId", "parentSpanId"})


def requests_of(assembled: AssembledTrace) -> list[dict[str, Any]]:
    """Return an export request with the spans, and one with the log records if there are any. Each span and record is a
    function that makes it (`wire.encode`)."""
    spans = _resources(assembled.spans, Span, "scopeSpans", "spans")
    logs = _resources(assembled.logs, LogRecord, "scopeLogs", "logRecords")
    return [{"resourceSpans": spans}, *([{"resourceLogs": logs}] if logs else [])]


def _resources(
    raws: Sequence[tuple[bytes, Origin]], kind: type[Message], scopes: str, items: str
) -> list[dict[str, Any]]:
    """Return the messages by what they came with: a resource and a scope."""
    by_scope: dict[tuple[bytes, str], list[Any]] = {}
    for raw, origin in raws:
        by_scope.setdefault((origin.resource, origin.scope), []).append(partial(_read, kind, raw))
    return [
        {"resource": _json(Resource.FromString(resource)), scopes: [{"scope": {"name": scope}, items: messages}]}
        for (resource, scope), messages in by_scope.items()
    ]


def _read(kind: type[Message], raw: bytes) -> Any:
    return _json(kind.FromString(raw))


def _json(message: Message) -> Any:
    return _with_hex_ids(MessageToDict(message, use_integers_for_enums=True))


def _with_hex_ids(value: Any) -> Any:
    """Return the value with its ids in hex, as OTLP wants them, and not in base64, as protobuf writes bytes."""
    match value:
        case dict():
            return {
                key: base64.b64decode(item).hex() if key in _IDS and isinstance(item, str) else _with_hex_ids(item)
                for key, item in value.items()
            }
        case list():
            return [_with_hex_ids(item) for item in value]
    return value
