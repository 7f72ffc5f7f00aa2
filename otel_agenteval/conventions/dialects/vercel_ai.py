"""Vercel's AI SDK, versions 4 to 6 (https://ai-sdk.dev/docs/ai-sdk-core/telemetry).

A call of `generateText` or `streamText` is an agent run. Its span has the sum of the tokens, and each model call has
its own tokens.
"""

from collections.abc import Mapping, Sequence

from otel_agenteval.conventions import api_bodies
from otel_agenteval.conventions.api_bodies import usage_in
from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import (
    decode_arguments,
    decode_structure,
    decode_text,
    first_text,
    is_cut,
    known_text,
    objects_in,
    texts_of,
)
from otel_agenteval.conventions.dialect import AttributeKeys, Attributes, Dialect, KindAttribute, SpanFacts, SpanRole
from otel_agenteval.conventions.messages import ASSISTANT, SYSTEM, USER, ChatMessage, Item, read_message
from otel_agenteval.conventions.spans import LogRecord, SpanRecord
from otel_agenteval.model import Json

_OPERATION = "ai.operationId"
_ROLES = {
    "ai.generateText": SpanRole.AGENT,
    "ai.streamText": SpanRole.AGENT,
    "ai.generateObject": SpanRole.CHAIN,
    "ai.streamObject": SpanRole.CHAIN,
    "ai.generateText.doGenerate": SpanRole.MODEL,
    "ai.streamText.doStream": SpanRole.MODEL,
    "ai.generateObject.doGenerate": SpanRole.MODEL,
    "ai.streamObject.doStream": SpanRole.MODEL,
    "ai.toolCall": SpanRole.TOOL,
}
_AGENTS = ("ai.telemetry.functionId", "resource.name")
_KIND = KindAttribute(_OPERATION, _ROLES, agents=_AGENTS)
_OBJECTS = ("ai.generateObject", "ai.streamObject")
_PROMPT, _MESSAGES, _TOOLS = "ai.prompt", "ai.prompt.messages", "ai.prompt.tools"
_TEXT, _OBJECT = "ai.response.text", "ai.response.object"
_CALLS, _REASONING = "ai.response.toolCalls", "ai.response.reasoning"
_FINISH_REASON = "ai.response.finishReason"
_RESPONSE_ID = "ai.response.id"
_MODEL_NAMES = ("ai.response.model", "ai.model.id")
_INPUT_TOKENS = ("ai.usage.inputTokens", "ai.usage.promptTokens")
_OUTPUT_TOKENS = ("ai.usage.outputTokens", "ai.usage.completionTokens")
_TOOL_NAME, _TOOL_CALL_ID = "ai.toolCall.name", "ai.toolCall.id"
_TOOL_ARGUMENTS, _TOOL_RESULT = "ai.toolCall.args", "ai.toolCall.result"


def _of_object(name: str, attributes: Attributes) -> str | None:
    """Return whom a call for an object names: it is no run of an agent, but an agent's step or a turn."""
    return first_text(attributes, *_AGENTS) if attributes.get(_OPERATION) in _OBJECTS else None


class VercelAI(Dialect):
    """Spans with `ai.operationId`."""

    name = "vercel_ai"
    rank = 140
    content_switch = "set recordInputs and recordOutputs of experimental_telemetry to true"
    marks = frozenset((_OPERATION,))
    keys = AttributeKeys(
        kinds=(_KIND,),
        agent_of=(_of_object,),
        tools=(_TOOL_NAME,),
        arguments=(_TOOL_ARGUMENTS,),
        results=(_TOOL_RESULT,),
        models=_MODEL_NAMES,
        messages=(_MESSAGES,),
        reply_texts=(_TEXT, _OBJECT),
        input_tokens=_INPUT_TOKENS,
        output_tokens=_OUTPUT_TOKENS,
        sessions=(
            "ai.telemetry.metadata.sessionId",
            "ai.telemetry.metadata.session_id",
            "ai.telemetry.metadata.conversationId",
            "ai.telemetry.metadata.threadId",
        ),
        users=("ai.telemetry.metadata.userId",),
    )

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        attributes = span.attributes
        facts = SpanFacts(role=_KIND.role(attributes))
        if facts.role is SpanRole.MODEL:
            _read_model(facts, attributes)
        elif facts.role is SpanRole.TOOL:
            _read_tool(facts, attributes)
        elif facts.role in (SpanRole.AGENT, SpanRole.CHAIN):
            facts.input = _content(attributes, _PROMPT)
            facts.output = Content.answer_in(_said(attributes))
        facts.cut = facts.cut or bool(facts.input and facts.input.cut)
        return facts


def _read_model(facts: SpanFacts, attributes: Mapping[str, Json]) -> None:
    facts.input = _content(attributes, _MESSAGES) or _content(attributes, _PROMPT)
    if any(attributes.get(key) is not None for key in (_TEXT, _OBJECT, _CALLS, _REASONING)):
        facts.output = Content(lambda: [_reply(attributes)])
        facts.cut = is_cut(attributes.get(_CALLS))
    facts.tool_definitions = attributes.get(_TOOLS)
    facts.model = first_text(attributes, *_MODEL_NAMES)
    facts.response_id = known_text(attributes.get(_RESPONSE_ID))
    facts.finish_reason = known_text(attributes.get(_FINISH_REASON))
    facts.usage = usage_in(attributes, _INPUT_TOKENS, _OUTPUT_TOKENS)


def _read_tool(facts: SpanFacts, attributes: Mapping[str, Json]) -> None:
    facts.tool = known_text(attributes.get(_TOOL_NAME))
    facts.call_id = known_text(attributes.get(_TOOL_CALL_ID))
    facts.arguments = decode_arguments(attributes.get(_TOOL_ARGUMENTS))
    facts.result = decode_text(attributes.get(_TOOL_RESULT))
    facts.cut = is_cut(attributes.get(_TOOL_ARGUMENTS))


def _content(attributes: Mapping[str, Json], key: str) -> Content | None:
    recorded = attributes.get(key)
    return None if recorded is None else Content(lambda: _sent(recorded), cut=is_cut(recorded))


def _sent(recorded: Json) -> Sequence[Item]:
    """Decode `{"system", "prompt"}`, `{"system", "messages"}` or a list of messages."""
    value = api_bodies.decoded(recorded)
    if not isinstance(value, dict):
        return value if isinstance(value, list) else []
    items: list[Item] = []
    if system := known_text(value.get("system")):
        items.append(ChatMessage(role=SYSTEM, texts=[system]))
    if prompt := known_text(value.get("prompt")):
        items.append(ChatMessage(role=USER, texts=[prompt]))
    messages = value.get("messages", value.get("prompt"))
    return items + (messages if isinstance(messages, list) else [])


def _said(attributes: Mapping[str, Json]) -> Json:
    """Return the answer, a text or an object. An empty text counts if there is no object."""
    return known_text(attributes.get(_TEXT)) or attributes.get(_OBJECT, attributes.get(_TEXT))


def _reply(attributes: Mapping[str, Json]) -> Item:
    calls = api_bodies.decoded(attributes.get(_CALLS))
    # An empty list says that no tool was requested. None says that it is not known.
    items: Json = [{**call, "type": "tool-call"} for call in objects_in(calls)] if isinstance(calls, list) else None
    reasoning = _reasoning(attributes.get(_REASONING))
    return read_message(
        {"role": ASSISTANT, "content": _said(attributes), "parts": items, "reasoning_content": reasoning}
    )


def _reasoning(value: Json) -> str | None:
    """Return the text of reasoning, which is recorded as text or as a list of parts."""
    items = decode_structure(value)
    if not isinstance(items, list):
        return known_text(value)
    return "\n".join(texts_of(items)) or None
