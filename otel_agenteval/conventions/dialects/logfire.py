"""Logfire's instrumentations of model clients (https://logfire.pydantic.dev/docs/integrations/llms/).

Up to version 4 a model call has its request and response as JSON, or a list of GenAI message events in one attribute.
A streamed reply stands on a second span beside that of the call, in the form of Logfire's log messages.
"""

from collections.abc import Sequence

from otel_agenteval import semconv
from otel_agenteval.conventions import api_bodies
from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import decode_structure, is_cut, object_in, objects_in
from otel_agenteval.conventions.dialect import AttributeKeys, Dialect, SpanFacts, SpanRole
from otel_agenteval.conventions.dialects.otel_events import MESSAGE_EVENTS, event_message
from otel_agenteval.conventions.dialects.otel_genai import read_model
from otel_agenteval.conventions.messages import ASSISTANT, ChatMessage, Item, read_message
from otel_agenteval.conventions.spans import LogRecord, SpanRecord
from otel_agenteval.model import Json

_SPAN_TYPE = "logfire.span_type"
_DURATION = "duration"
_REQUEST, _RESPONSE = "request_data", "response_data"
_EVENTS = "events"
_EVENT_NAME = '"event.name"'
# The session of the traces of openai-agents.
_GROUP = "group_id"


class Logfire(Dialect):
    """Model calls with `request_data` or with GenAI events in one attribute, and the spans that report streamed
    replies."""

    name = "logfire"
    rank = 110
    content_switch = "let logfire.configure(scrubbing=...) pass what was said"
    keys = AttributeKeys(marks=((semconv.GEN_AI_REQUEST_MODEL, SpanRole.MODEL),), sessions=(_GROUP,))

    def recognises(self, span: SpanRecord, logs: Sequence[LogRecord]) -> bool:
        attributes = span.attributes
        if semconv.GEN_AI_REQUEST_MODEL not in attributes:
            return False
        events = attributes.get(_EVENTS)
        return _REQUEST in attributes or (isinstance(events, str) and _EVENT_NAME in events[:10_000])

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        attributes = span.attributes
        facts = SpanFacts(role=SpanRole.MODEL)
        request, response, events = (attributes.get(key) for key in (_REQUEST, _RESPONSE, _EVENTS))
        facts.is_report = attributes.get(_SPAN_TYPE) == "log" and _DURATION in attributes
        facts.cut = is_cut(request) or is_cut(response) or is_cut(events)
        if events is not None:
            facts.input = Content(lambda: _sent(events), cut=is_cut(events))
            facts.output = Content(lambda: _received(events))
        elif isinstance(request, str) and '"messages"' in request:
            facts.input = Content(lambda: api_bodies.request(request), cut=is_cut(request))
        if response is not None:
            facts.output = Content(lambda: _reply(response), cut=is_cut(response))
            facts.usage = api_bodies.usage(object_in(decode_structure(response)).get("usage"))
        facts.tool_definitions = api_bodies.tools(request)
        read_model(facts, attributes)
        return facts


def _sent(events: Json) -> Sequence[Item]:
    return (messages := _messages(events))[: _first_received(messages)]


def _received(events: Json) -> Sequence[Item]:
    return (messages := _messages(events))[_first_received(messages) :]


def _messages(events: Json) -> list[ChatMessage]:
    """Return the messages of an attribute that lists events."""
    listed = [(event.get("event.name"), event) for event in objects_in(api_bodies.decoded(events))]
    named = ((name, event) for name, event in listed if isinstance(name, str) and name in MESSAGE_EVENTS)
    messages = [event_message(name, event) for name, event in named]
    return [message for message in messages if isinstance(message, ChatMessage)]


def _first_received(messages: Sequence[ChatMessage]) -> int:
    """Return where the reply begins: behind the last message that is not the assistant's."""
    first = len(messages)
    while first > 0 and messages[first - 1].role == ASSISTANT:
        first -= 1
    return first


def _reply(response: Json) -> Sequence[Item]:
    message = read_message(object_in(api_bodies.decoded(response)).get("message"))
    return [message] if message else []
