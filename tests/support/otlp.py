"""OTLP export requests in a line each."""

import json
from typing import Any

from agenteval_collector.model.logged_requests import LoggedRequest, Signal
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

START = 1_700_000_000_000_000_000


def trace_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def span_id(number: int) -> bytes:
    return number.to_bytes(8, "big")


def span(trace: int, number: int, *, parent: int = 0, ended: bool = True, **attributes: Any) -> Span:
    """Span `number` of trace number `trace`; underscores in attribute names stand for dots, as `gen_ai__x`."""
    return Span(
        trace_id=trace_id(trace),
        span_id=span_id(number),
        parent_span_id=span_id(parent) if parent else b"",
        name=f"span {number}",
        start_time_unix_nano=START + number,
        end_time_unix_nano=START + number + 10 if ended else 0,
        attributes=[_pair(key, value) for key, value in attributes.items()],
    )


def marked(item: Span, count: int, process: str | None = None) -> Span:
    """The same with the completion marker: so many spans of its trace were handed over by its process."""
    if process is not None:
        item.attributes.append(_pair("agenteval.process.id", process))
    item.attributes.append(_pair("agenteval.trace.span_count", count))
    return item


def turn(
    trace: int, asked: str, answered: str | None, *, session: str | None = None, at: int | None = None, number: int = 1
) -> Span:
    """A whole trace in one span: an agent is asked and answers; marked as complete."""
    item = span(trace, number)
    item.name = "invoke_agent planner"
    item.start_time_unix_nano = START + trace * 1_000_000_000 if at is None else at
    item.end_time_unix_nano = item.start_time_unix_nano + 1_000_000
    facts: dict[str, Any] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "planner",
        "gen_ai.input.messages": _message("user", asked),
    }
    if answered is not None:
        facts["gen_ai.output.messages"] = _message("assistant", answered)
    if session is not None:
        facts["gen_ai.conversation.id"] = session
    item.attributes.extend(_pair(key, value) for key, value in facts.items())
    return marked(item, 1, "p")


def traces(
    *spans: Span, process: str | None = None, service: str = "shop", scope: str = "lib"
) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    of_resource = request.resource_spans.add()
    of_resource.resource.attributes.append(_pair("service.name", service))
    if process is not None:
        of_resource.resource.attributes.append(_pair("agenteval.process.id", process))
    of_scope = of_resource.scope_spans.add()
    of_scope.scope.name = scope
    of_scope.spans.extend(spans)
    return request


def log(trace: int, number: int, *, body: str = "", **attributes: Any) -> LogRecord:
    return LogRecord(
        trace_id=trace_id(trace),
        span_id=span_id(number),
        body=AnyValue(string_value=body),
        attributes=[_pair(key, value) for key, value in attributes.items()],
    )


def logs(*records: LogRecord) -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.extend(records)
    return request


def logged(
    offset: int, request: ExportTraceServiceRequest | ExportLogsServiceRequest, *, received_at: int = START
) -> LoggedRequest:
    signal = Signal.TRACES if isinstance(request, ExportTraceServiceRequest) else Signal.LOGS
    return LoggedRequest(offset, "default", signal, received_at, request.SerializeToString())


def _message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def _pair(key: str, value: Any) -> KeyValue:
    key = key.replace("__", ".")
    if isinstance(value, bool):
        return KeyValue(key=key, value=AnyValue(bool_value=value))
    if isinstance(value, int):
        return KeyValue(key=key, value=AnyValue(int_value=value))
    if isinstance(value, float):
        return KeyValue(key=key, value=AnyValue(double_value=value))
    return KeyValue(key=key, value=AnyValue(string_value=value))
