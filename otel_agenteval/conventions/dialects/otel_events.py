"""Content in events, the OpenTelemetry GenAI conventions from v1.27 to v1.36.

Each message is an event: a log record with the fields in its body, or a span event with the fields in its attributes.
Before v1.28, two span events held all messages as JSON. The kind of the span is read by `otel_genai`.
"""

from collections.abc import Mapping, Sequence

from otel_agenteval import semconv
from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import (
    decode_arguments,
    decode_remains,
    decode_structure,
    decode_text,
    first_text,
    is_cut,
    known_text,
    object_in,
)
from otel_agenteval.conventions.dialect import AttributeKeys, Dialect, SpanFacts, SpanRole
from otel_agenteval.conventions.dialects.otel_genai import read_model
from otel_agenteval.conventions.messages import (
    ASSISTANT,
    SYSTEM,
    TOOL,
    USER,
    ChatMessage,
    Item,
    ToolResponse,
    are_parts,
    message_items,
    read_message,
)
from otel_agenteval.conventions.spans import EventRecord, LogRecord, SpanRecord
from otel_agenteval.model import Json

_CHOICE = "gen_ai.choice"
_TOOL_MESSAGE = "gen_ai.tool.message"
# Events at the same time are sorted by their order here.
MESSAGE_EVENTS = {
    "gen_ai.system.message": SYSTEM,
    "gen_ai.user.message": USER,
    "gen_ai.assistant.message": ASSISTANT,
    _TOOL_MESSAGE: TOOL,
    _CHOICE: ASSISTANT,
}
_PROMPT, _COMPLETION = "gen_ai.content.prompt", "gen_ai.content.completion"
_ALL_MESSAGES = {_PROMPT: "gen_ai.prompt", _COMPLETION: "gen_ai.completion"}
_ORDER = (*_ALL_MESSAGES, *MESSAGE_EVENTS)
_NAMES = frozenset(_ORDER)
# Azure's libraries put the fields there, as JSON.
_FIELDS = "gen_ai.event.content"
_EXECUTE_TOOL = "execute_tool"


class OtelEvents(Dialect):
    """Spans with GenAI message events, recorded in them or logged under their id."""

    name = "otel_events"
    rank = 60
    is_by_names = True
    is_common = True
    content_switch = (
        "set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true in the agent, and send its log records too"
    )
    keys = AttributeKeys(argument_events=((_TOOL_MESSAGE, "content"),), answer_events=((_CHOICE, "message"),))

    def recognises(self, span: SpanRecord, logs: Sequence[LogRecord]) -> bool:
        return any(event.name in _NAMES for event in span.events) or any(log.event_name in _NAMES for log in logs)

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        facts = SpanFacts()
        events = [(event.name, _fields(event)) for event in span.events if event.name in _NAMES]
        is_ordered = True
        if not events:
            events, is_ordered = _logged(logs)
        if span.attributes.get(semconv.GEN_AI_OPERATION_NAME) == _EXECUTE_TOOL:
            _read_tool(facts, events)
        else:
            _read_messages(facts, events, is_ordered)
        if semconv.GEN_AI_OPERATION_NAME not in span.attributes and semconv.GEN_AI_REQUEST_MODEL in span.attributes:
            facts.role = SpanRole.MODEL
            read_model(facts, span.attributes)
        return facts


Fields = Mapping[str, Json]
"""The fields of one event, such as `content` or `message`."""


def _logged(logs: Sequence[LogRecord]) -> tuple[list[tuple[str, Fields]], bool]:
    """Return the events among log records, and whether their order is known. It is not if two user messages have the
    same time."""
    relevant = (log for log in logs if log.event_name in _NAMES)
    records = sorted(relevant, key=lambda log: (log.time, _ORDER.index(log.event_name)))
    moments = [(log.time, log.event_name) for log in records if MESSAGE_EVENTS.get(log.event_name) == USER]
    return [(log.event_name, _fields(log)) for log in records], len(moments) == len(set(moments))


def _fields(event: EventRecord | LogRecord) -> Fields:
    body = decode_structure(event.body) if isinstance(event, LogRecord) else None
    return object_in(body) or object_in(decode_structure(event.attributes.get(_FIELDS))) or event.attributes


def _read_messages(facts: SpanFacts, events: Sequence[tuple[str, Fields]], is_ordered: bool) -> None:
    sent = [event for event in events if event[0] not in (_CHOICE, _COMPLETION)]
    received = [event for event in events if event[0] in (_CHOICE, _COMPLETION)]
    if sent:
        facts.input = Content(lambda: _messages_in(sent), cut=not is_ordered or _is_cut(sent))
    if received:
        facts.output = Content(lambda: _messages_in(received), cut=_is_cut(received))
        reasons = (known_text(fields.get("finish_reason")) for _, fields in received)
        facts.finish_reason = next(filter(None, reasons), None)
    facts.cut = _is_cut(events)


def _read_tool(facts: SpanFacts, events: Sequence[tuple[str, Fields]]) -> None:
    """Read an execution: its arguments are the message to the tool, its result is the choice that the tool returns."""
    for name, fields in events:
        if name == _TOOL_MESSAGE and facts.arguments is None:
            facts.arguments = decode_arguments(fields.get("content"))
            facts.call_id = known_text(fields.get("id"))
        elif name == _CHOICE and facts.result is None:
            facts.result = decode_text(fields.get("message"))
    facts.cut = _is_cut(events)


def _messages_in(events: Sequence[tuple[str, Fields]]) -> Sequence[Item]:
    items: list[Item] = []
    for name, fields in events:
        if name in _ALL_MESSAGES:
            role = USER if name == _PROMPT else ASSISTANT
            items += message_items(fields.get(_ALL_MESSAGES[name]), role)
        else:
            items.append(event_message(name, fields))
    return items


def event_message(name: str, fields: Fields) -> Item:
    """Return the message in the event `name`, one of those of v1.28 to v1.36."""
    role = MESSAGE_EVENTS[name]
    if name == _CHOICE:
        reply = decode_structure(fields.get("message"))
        # Strands adds a line break to the answer of its agent.
        reply_text = reply.rstrip("\n") if isinstance(reply, str) else reply
        fields = reply if isinstance(reply, dict) else {"content": reply_text, **fields}
    content = fields.get("content")
    is_whole = not is_cut(content)
    decoded = decode_remains(content)
    is_parts = are_parts(decoded)
    if is_parts or not is_whole:
        content = decoded if is_parts else None
    if name == _TOOL_MESSAGE and not (is_parts and is_whole):
        response = ToolResponse(result=decode_text(content), call_id=first_text(fields, "id", "tool_call_id"))
        return ChatMessage(role=role, responses=[response] if is_whole else [])
    calls = decode_structure(fields.get("tool_calls"))
    return read_message({"role": role, "content": content, "tool_calls": calls}) or {}


def _is_cut(events: Sequence[tuple[str, Fields]]) -> bool:
    return any(is_cut(value) for _, fields in events for value in fields.values())
