"""LiteLLM's OpenTelemetry callback (https://docs.litellm.ai/docs/observability/opentelemetry_integration).

Its spans speak the GenAI conventions, but tool requests stand in attributes of their own and have no ids. Within each
span is another one with the raw request and response as the `repr` of Python objects, and with the model's thoughts.
Newer versions write calls on a span of the program that is open, each call over the one before.
"""

from collections.abc import Mapping, Sequence

from otel_agenteval import semconv
from otel_agenteval.conventions.api_bodies import usage
from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import decode_arguments, known_text, object_in, objects_in, unflatten
from otel_agenteval.conventions.dialect import Dialect, SpanFacts, SpanRole
from otel_agenteval.conventions.messages import ASSISTANT, ChatMessage, Item, ToolRequest, message_items, read_message
from otel_agenteval.conventions.python_repr import decode_repr
from otel_agenteval.conventions.spans import LogRecord, SpanRecord
from otel_agenteval.model import Json

_CALL_ID = "litellm.call_id"
_COMPLETION = "gen_ai.completion"
_FIRST_REQUEST = "gen_ai.completion.0.function_call.name"
_REQUEST = "function_call"
_OWN_SPAN = "litellm_request"
_RAW_REQUEST, _RAW_REPLY = "llm.openai.messages", "llm.openai.choices"
_RAW_MODEL, _RAW_ID, _RAW_USAGE = "llm.openai.model", "llm.openai.id", "llm.openai.usage"
_THOUGHT = "reasoning_content"


class LiteLLM(Dialect):
    """Model calls with an id of LiteLLM, and the spans with raw responses within them."""

    name = "litellm"
    rank = 20
    content_switch = "unset turn_off_message_logging in LiteLLM's settings"
    marks = frozenset((_CALL_ID, _RAW_REPLY))

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        attributes = span.attributes
        if _CALL_ID not in attributes:
            return _raw(attributes)
        return SpanFacts(
            output=Content(lambda: _reply(attributes)) if _FIRST_REQUEST in attributes else None,
            is_overwritten=span.name != _OWN_SPAN,
        )


def _raw(attributes: Mapping[str, Json]) -> SpanFacts:
    choices, request = attributes.get(_RAW_REPLY), attributes.get(_RAW_REQUEST)
    return SpanFacts(
        role=SpanRole.MODEL,
        model=known_text(attributes.get(_RAW_MODEL)),
        response_id=known_text(attributes.get(_RAW_ID)),
        input=None if request is None else Content(lambda: _items(request)),
        output=Content(lambda: _items(choices)),
        usage=usage(_decoded(attributes.get(_RAW_USAGE))),
        reasoning=_thought(choices),
    )


def _thought(choices: Json) -> str | None:
    if not isinstance(choices, str) or _THOUGHT not in choices:
        return None
    return next((known_text(item.get(_THOUGHT)) for item in objects_in(_items(choices)[:1])), None)


def _items(text: Json) -> list[Json]:
    """Return the messages in a list of messages, or the message of the first choice in a list of choices."""
    decoded = _decoded(text)
    choices = [item["message"] for item in objects_in(decoded) if "message" in item]
    return choices[:1] or (decoded if isinstance(decoded, list) else [])


def _decoded(text: Json) -> Json:
    try:
        return decode_repr(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _reply(attributes: Mapping[str, Json]) -> Sequence[Item]:
    """Decode the message of the reply, with its tool requests."""
    items = message_items(attributes.get(semconv.GEN_AI_OUTPUT_MESSAGES), ASSISTANT)
    messages = [item if isinstance(item, ChatMessage) else read_message(item) for item in items[:1]]
    message = next(filter(None, messages), None) or ChatMessage(role=ASSISTANT)
    message.requests += [request for item in unflatten(attributes, _COMPLETION) if (request := _request(item))]
    return [message]


def _request(item: Json) -> ToolRequest | None:
    request = object_in(object_in(item).get(_REQUEST))
    name = known_text(request.get("name"))
    return ToolRequest(name=name, arguments=decode_arguments(request.get("arguments"))) if name else None
