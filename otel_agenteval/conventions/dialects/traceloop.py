"""OpenLLMetry by Traceloop (https://www.traceloop.com/docs/openllmetry), its own attributes.

Up to version 0.4x model calls have indexed messages. Newer versions speak the GenAI conventions, and these decide which
role a span has. The kind `task` is a step of a framework or a program, never a turn.
"""

from collections.abc import Mapping, Sequence

from otel_agenteval import semconv
from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import (
    decode_arguments,
    decode_structure,
    is_cut,
    known_text,
    object_in,
    unflatten,
)
from otel_agenteval.conventions.dialect import (
    AttributeKeys,
    Attributes,
    Dialect,
    IndexedMessages,
    KindAttribute,
    SpanFacts,
    SpanRole,
)
from otel_agenteval.conventions.dialects.otel_genai import read_model
from otel_agenteval.conventions.framework_values import answered, asked, current_agent, read_result
from otel_agenteval.conventions.messages import ASSISTANT, USER, Item, are_parts
from otel_agenteval.conventions.spans import LogRecord, SpanRecord
from otel_agenteval.model import Json

_NAME, _INPUT, _OUTPUT = "traceloop.entity.name", "traceloop.entity.input", "traceloop.entity.output"

_TOOL_NAME, _TOOL_ARGUMENTS = "tool.name", "tool.arguments"

# What the instrumentation of LangChain.js takes for the name of a tool. The tool's own stands in its result.
_CLASSES = frozenset(("DynamicStructuredTool", "DynamicTool", "StructuredTool"))

_ROLES = {"workflow": SpanRole.WORKFLOW, "agent": SpanRole.AGENT, "tool": SpanRole.TOOL}
_KIND = KindAttribute("traceloop.span.kind", _ROLES, agents=(_NAME,))
_REQUEST = KindAttribute("llm.request.type", {"chat": SpanRole.MODEL, "completion": SpanRole.MODEL})
_PROMPT, _COMPLETION = "gen_ai.prompt", "gen_ai.completion"
_FUNCTIONS = "llm.request.functions"
_FINISH_REASON = "gen_ai.completion.0.finish_reason"
_FIRST_MESSAGES = [f"{prefix}.0.{field}" for prefix in (_PROMPT, _COMPLETION) for field in ("role", "content")]
# The instrumentation of Haystack records the names of a result's fields as if they were replies.
_HAYSTACK = "haystack."
_HAYSTACK_FIELDS = ("replies", "meta")


def _llama_index_agent(name: str, attributes: Attributes) -> str | None:
    return current_agent(attributes.get(_OUTPUT)) if name.endswith((".task", ".workflow")) else None


class Traceloop(Dialect):
    """Spans with `traceloop.span.kind`, and model calls with messages in indexed `gen_ai.prompt` attributes."""

    name = "traceloop"
    rank = 30
    content_switch = "set TRACELOOP_TRACE_CONTENT=true in the agent"
    # A limit on attributes may drop the first or the last ones, so any of these marks a model call.
    marks = frozenset((_KIND.key, _REQUEST.key, _FINISH_REASON, *_FIRST_MESSAGES))
    keys = AttributeKeys(
        kinds=(_KIND, _REQUEST),
        agent_of=(_llama_index_agent,),
        tools=(_NAME,),
        arguments=(_INPUT,),
        results=(_OUTPUT,),
        indexed_messages=(IndexedMessages(f"{_PROMPT}.", "."),),
        reply_texts=(f"{_COMPLETION}.0.content",),
        sessions=(
            "traceloop.association.properties.session_id",
            "traceloop.association.properties.thread_id",
            "traceloop.association.properties.conversation_id",
        ),
        users=("traceloop.association.properties.user_id",),
    )

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        attributes = span.attributes
        kind = attributes.get(_KIND.key)
        if kind is None:
            return _read_model(span)
        facts = SpanFacts(role=None if semconv.GEN_AI_OPERATION_NAME in attributes else _KIND.role(attributes))
        inputs, returned = attributes.get(_INPUT), attributes.get(_OUTPUT)
        if kind == "tool" or (kind == "task" and attributes.get(_NAME) in _CLASSES):
            _read_tool(facts, attributes)
        elif kind == "task" and _TOOL_NAME in attributes:
            # A step of LlamaIndex that called a tool.
            facts.role = SpanRole.TOOL
            facts.tool = known_text(attributes.get(_TOOL_NAME))
            facts.arguments = decode_arguments(attributes.get(_TOOL_ARGUMENTS))
            read_result(facts, returned)
        elif kind in ("workflow", "agent"):
            facts.input = asked(_unwrapped(inputs, "inputs"))
            facts.output = answered(_unwrapped(returned, "outputs"))
            facts.cut = is_cut(inputs) or is_cut(returned)
        return facts


def _read_tool(facts: SpanFacts, attributes: Mapping[str, Json]) -> None:
    arguments = attributes.get(_INPUT, attributes.get(semconv.GEN_AI_TOOL_CALL_ARGUMENTS))
    returned = attributes.get(_OUTPUT, attributes.get(semconv.GEN_AI_TOOL_CALL_RESULT))
    facts.tool = known_text(attributes.get(semconv.GEN_AI_TOOL_NAME)) or known_text(attributes.get(_NAME))
    if facts.tool in _CLASSES:
        message = object_in(object_in(decode_structure(returned)).get("kwargs"))
        facts.tool = known_text(message.get("name")) or facts.tool
        inputs = object_in(decode_structure(arguments)).get("args")
        arguments = inputs[0] if isinstance(inputs, list) and len(inputs) == 1 else arguments
    facts.arguments = decode_arguments(_unwrapped(arguments, "inputs"))
    read_result(facts, _unwrapped(returned, "output"))
    facts.cut = is_cut(arguments) or is_cut(returned)


def _unwrapped(value: Json, name: str) -> Json:
    """Return the value under `name` in the JSON that LangChain's callback records; any other value as it is."""
    if not isinstance(value, str) or f'"{name}"' not in value:
        return value
    callback = decode_structure(value)
    if isinstance(callback, dict) and name in callback and ("kwargs" in callback or "tags" in callback):
        return callback[name]
    return value


def _read_model(span: SpanRecord) -> SpanFacts:
    attributes = span.attributes
    facts = SpanFacts()
    if semconv.GEN_AI_OPERATION_NAME not in attributes:
        facts.role = _REQUEST.role(attributes) if _REQUEST.key in attributes else SpanRole.MODEL
    read_model(facts, attributes)
    facts.finish_reason = known_text(attributes.get(_FINISH_REASON)) or facts.finish_reason
    if any(key.startswith(_COMPLETION + ".") for key in attributes) and not _names_fields(span):
        facts.output = Content(lambda: _messages(attributes, _COMPLETION, ASSISTANT))
    if any(key.startswith(_PROMPT + ".") for key in attributes):
        # SDKs that drop the newest attributes beyond a limit may cut the history anywhere. Then nothing follows it.
        is_ended = span.dropped_attributes_count > 0 and facts.output is None and facts.usage is None
        facts.input = Content(lambda: _messages(attributes, _PROMPT, USER), cut=is_ended)
    if functions := unflatten(attributes, _FUNCTIONS):
        facts.tool_definitions = functions
    return facts


def _names_fields(span: SpanRecord) -> bool:
    replies = unflatten(span.attributes, _COMPLETION)
    return span.name.startswith(_HAYSTACK) and all(
        isinstance(reply, dict) and reply.get("content") in _HAYSTACK_FIELDS for reply in replies
    )


def _messages(attributes: Mapping[str, Json], prefix: str, role: str) -> Sequence[Item]:
    """Decode messages in indexed attributes. `role` is that of messages without one, as plain completions have them."""
    return [_message(item, role) for item in unflatten(attributes, prefix)]


def _message(item: Json, role: str) -> Item:
    if not isinstance(item, dict):
        return item
    content = item.get("content", item.get("user"))
    items = decode_structure(content)
    return {"role": role, **item, "content": items if are_parts(items) else content}
