"""Spans of the current GenAI conventions, written in a line each."""

import json
from typing import Any

from otel_agenteval.conventions.spans import EventRecord, SpanRecord
from otel_agenteval.model import Json


def span(
    span_id: str, operation: str | None = None, parent: str | None = None, at: int = 0, **kwargs: Any
) -> SpanRecord:
    """A span of one operation, lasting 10 ns from `at` unless `until` says otherwise; `attributes` are added."""
    attributes: dict[str, Json] = {} if operation is None else {"gen_ai.operation.name": operation}
    attributes |= kwargs.pop("attributes", {})
    until = kwargs.pop("until", at + 10)
    return SpanRecord(span_id=span_id, parent_id=parent, started_at=at, ended_at=until, attributes=attributes, **kwargs)


def agent(span_id: str, name: str, parent: str | None = None, at: int = 0, **kwargs: Any) -> SpanRecord:
    """A run of the agent `name`."""
    return _with(span(span_id, "invoke_agent", parent, at, **kwargs), {"gen_ai.agent.name": name})


def chat(
    span_id: str, sent: list[Any], received: list[Any], parent: str | None = None, at: int = 0, **kwargs: Any
) -> SpanRecord:
    """A model call with its messages."""
    content: dict[str, Json] = {
        "gen_ai.input.messages": json.dumps(sent),
        "gen_ai.output.messages": json.dumps(received),
    }
    return _with(span(span_id, "chat", parent, at, **kwargs), content)


def tool(
    span_id: str,
    name: str,
    arguments: Any = None,
    result: Any = None,
    parent: str | None = None,
    at: int = 0,
    **kwargs: Any,
) -> SpanRecord:
    """An execution of a tool; `call_id` joins it with its request."""
    facts: dict[str, Json] = {"gen_ai.tool.name": name}
    if arguments is not None:
        facts["gen_ai.tool.call.arguments"] = json.dumps(arguments)
    if result is not None:
        facts["gen_ai.tool.call.result"] = result
    if (call_id := kwargs.pop("call_id", None)) is not None:
        facts["gen_ai.tool.call.id"] = call_id
    return _with(span(span_id, "execute_tool", parent, at, **kwargs), facts)


def failed(record: SpanRecord, message: str) -> SpanRecord:
    """The same span, ended by an exception."""
    record.status = 2
    record.events += (EventRecord(name="exception", attributes={"exception.message": message}),)
    return record


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "parts": [{"type": "text", "content": text}]}


def asks(name: str, arguments: Any, call_id: str | None = None, text: str | None = None) -> dict[str, Any]:
    """An assistant's message that asks for a tool, with some text beside it."""
    request = {"type": "tool_call", "name": name, "arguments": arguments, "id": call_id}
    return {"role": "assistant", "parts": [*([{"type": "text", "content": text}] if text else []), request]}


def told(response: Any, call_id: str | None = None, role: str = "tool") -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "tool_call_response", "id": call_id, "response": response}]}


def _with(record: SpanRecord, attributes: dict[str, Json]) -> SpanRecord:
    record.attributes = {**record.attributes, **attributes}
    return record
