"""Read OTLP/JSON: protobuf's JSON mapping, with trace and span ids in hex and not in base64."""

import base64
import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from google.protobuf import json_format
from google.protobuf.message import Message
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from agenteval_collector.ingest.validity import Checked
from agenteval_collector.model.logged_requests import Signal
from agenteval_collector.runtime.errors import InvalidRequest
from otel_agenteval.proto.v1.frame_pb2 import Frame, ResourceFrame, ScopeFrame

_IDS: Final = frozenset({"traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id"})


class _RepeatedField(NamedTuple):
    """A list in a request, by its names, and the type of its elements."""

    names: tuple[str, ...]
    message: type[Message]


_LEVELS: Final = {
    Signal.TRACES: (
        _RepeatedField(("resourceSpans", "resource_spans"), ResourceSpans),
        _RepeatedField(("scopeSpans", "scope_spans"), ScopeSpans),
        _RepeatedField(("spans",), Span),
    ),
    Signal.LOGS: (
        _RepeatedField(("resourceLogs", "resource_logs"), ResourceLogs),
        _RepeatedField(("scopeLogs", "scope_logs"), ScopeLogs),
        _RepeatedField(("logRecords", "log_records"), LogRecord),
    ),
}


def parse_json(signal: Signal, text: bytes, checked: Checked) -> bytes:
    """Return the request in `text`, serialized. Each part that cannot be read is rejected in `checked`.

    Raises InvalidRequest if all of the request has to be refused.
    """
    frame = Frame()
    resources, of_resources, items = _LEVELS[signal]
    document = _document(text)
    if isinstance(document, dict) and document and document.keys().isdisjoint(resources.names):
        raise InvalidRequest(f"the body is no OTLP/JSON: it has no {resources.names[0]}")
    for resource in _elements(document, resources):
        scopes = list(_scopes(resource, of_resources, items, checked))
        try:
            of_resource = ResourceFrame.FromString(_serialized(resource, resources.message))
        except InvalidRequest as error:
            checked.reject(str(error), sum(len(scope.items) for scope in scopes))
            continue
        of_resource.scopes.extend(scopes)
        frame.resources.append(of_resource)
    return frame.SerializeToString()


def _scopes(resource: Any, scopes: _RepeatedField, items: _RepeatedField, checked: Checked) -> Iterator[ScopeFrame]:
    for scope in _elements(resource, scopes):
        raws: list[bytes] = []
        for item in _elements(scope, items):
            try:
                raws.append(_serialized(item, items.message))
            except InvalidRequest as error:
                checked.reject(str(error))
        try:
            of_scope = ScopeFrame.FromString(_serialized(scope, scopes.message))
        except InvalidRequest as error:
            checked.reject(str(error), len(raws))
            continue
        of_scope.items.extend(raws)
        yield of_scope


def _document(text: bytes) -> Any:
    try:
        # A byte that is not UTF-8 costs its span alone: the serializer refuses a surrogate.
        return json.loads(text.decode("utf-8-sig", "surrogateescape"))
    except RecursionError as error:
        raise InvalidRequest("the JSON body is nested too deeply") from error
    except ValueError as error:
        raise InvalidRequest(f"the body is no OTLP/JSON: {error}") from error


def _elements(parent: Any, level: _RepeatedField) -> Iterator[Any]:
    """Yield the elements of a list, and take each out of its parent: elements that were read take no memory."""
    if not isinstance(parent, dict):
        raise InvalidRequest(f"what holds {level.names[0]} must be a JSON object, not {type(parent).__name__}")
    for name in level.names:
        elements = parent.pop(name, None) or []
        if not isinstance(elements, list):
            raise InvalidRequest(f"the body is no OTLP/JSON: {name} must be a list, not {type(elements).__name__}")
        elements.reverse()
        while elements:
            yield elements.pop()


def _serialized(value: Any, message: type[Message]) -> bytes:
    try:
        return json_format.ParseDict(_with_base64_ids(value), message(), ignore_unknown_fields=True).SerializeToString()
    except RecursionError as error:
        raise InvalidRequest("the JSON body is nested too deeply") from error
    except (ValueError, TypeError, AttributeError, json_format.ParseError) as error:
        raise InvalidRequest(f"no {message.DESCRIPTOR.name} in OTLP/JSON: {error}") from error


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
    except ValueError as error:
        raise ValueError(f"{key} {value[:40]!r} is not hex") from error
