"""LiteLLM's OpenTelemetry callback (https://docs.litellm.ai/docs/observability/opentelemetry_integration).

Its spans speak the GenAI conventions, except that the tools a reply asks for stand apart from the reply's message, one
after the other and without ids. Within each is a span of the raw request and response, as the `repr` of Python objects;
only there stands what the model thought.
"""

from collections.abc import Callable, Mapping, Sequence

from otel_agenteval import semconv
from otel_agenteval.conventions.decoding import decode_arguments
from otel_agenteval.conventions.facts import Role, SpanFacts
from otel_agenteval.conventions.indexed import unflatten
from otel_agenteval.conventions.messages import (
    ASSISTANT,
    Content,
    Item,
    Message,
    ToolRequest,
    message_items,
    read_message,
)
from otel_agenteval.conventions.python_repr import decode_repr
from otel_agenteval.conventions.records import LogRecord, SpanRecord
from otel_agenteval.model import Json
from otel_agenteval.recorded import recorded

_CALL_ID = "litellm.call_id"
_COMPLETION = "gen_ai.completion"
_FIRST_REQUEST = "gen_ai.completion.0.function_call.name"
_REQUEST = "function_call"
_RAW_REPLY = "llm.openai.choices"
_THOUGHT = "reasoning_content"


class LiteLLM:
    """Model calls with an id of LiteLLM's, and the raw responses within them."""

    name = "litellm"
    content_switch = "unset turn_off_message_logging in LiteLLM's settings"

    def recognises(self, span: SpanRecord, logs: Sequence[LogRecord]) -> bool:
        return _CALL_ID in span.attributes or _RAW_REPLY in span.attributes

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        attributes = span.attributes
        if _CALL_ID not in attributes:
            return SpanFacts(role=Role.MODEL, reasoning=_thought(attributes.get(_RAW_REPLY)))
        return SpanFacts(output=Content(_reply(attributes)) if _FIRST_REQUEST in attributes else None)


def _thought(choices: Json) -> str | None:
    if not isinstance(choices, str) or _THOUGHT not in choices:
        return None
    try:
        decoded = decode_repr(choices)
    except ValueError:
        return None
    reply = (
        decoded[0].get("message") if isinstance(decoded, list) and decoded and isinstance(decoded[0], dict) else None
    )
    return recorded(reply.get(_THOUGHT)) if isinstance(reply, dict) else None


def _reply(attributes: Mapping[str, Json]) -> Callable[[], Sequence[Item]]:
    """Decoder of the reply's message, with the tools it asks for."""

    def read() -> Sequence[Item]:
        items = message_items(attributes.get(semconv.GEN_AI_OUTPUT_MESSAGES), ASSISTANT)
        messages = [item if isinstance(item, Message) else read_message(item) for item in items[:1]]
        message = next(filter(None, messages), None) or Message(role=ASSISTANT)
        message.requests += [request for item in unflatten(attributes, _COMPLETION) if (request := _request(item))]
        return [message]

    return read


def _request(item: Json) -> ToolRequest | None:
    asked = item.get(_REQUEST) if isinstance(item, dict) else None
    name = recorded(asked.get("name")) if isinstance(asked, dict) else None
    if name is None or not isinstance(asked, dict):
        return None
    return ToolRequest(name=name, arguments=decode_arguments(asked.get("arguments")))
