"""Langfuse's SDKs, versions 3 to 5 (https://langfuse.com/docs/observability): observations as spans.

Input and output have any shape: `{"args", "kwargs"}` of a function, request and message of a generation.
"""

from collections.abc import Sequence

from otel_agenteval.conventions import api_bodies
from otel_agenteval.conventions.decoding import (
    decode_arguments,
    decode_structure,
    is_cut,
    known_text,
    object_in,
    objects_in,
)
from otel_agenteval.conventions.dialect import AttributeKeys, Dialect, KindAttribute, SpanFacts, SpanRole
from otel_agenteval.conventions.framework_values import answered, asked, read_result
from otel_agenteval.conventions.spans import LogRecord, SpanRecord
from otel_agenteval.model import Json, Usage

_TYPE = "langfuse.observation.type"
_INPUT, _OUTPUT = "langfuse.observation.input", "langfuse.observation.output"
_TRACE_INPUT, _TRACE_OUTPUT = "langfuse.trace.input", "langfuse.trace.output"
_MODEL = "langfuse.observation.model.name"
_USAGE = "langfuse.observation.usage_details"
# Of what LangChain counts.
_PARTS = {
    "input_cache_read": "cache_read",
    "input_cache_creation": "cache_creation",
    "output_reasoning": "reasoning_tokens",
}
_LEVEL, _STATUS_MESSAGE = "langfuse.observation.level", "langfuse.observation.status_message"

_TOOL_AS_MESSAGE = '{"role": "tool", "content": {'

_ROLES = {
    "agent": SpanRole.AGENT,
    "generation": SpanRole.MODEL,
    "tool": SpanRole.TOOL,
    "span": SpanRole.CHAIN,
    "chain": SpanRole.CHAIN,
    "retriever": SpanRole.RETRIEVAL,
}
_KIND = KindAttribute(_TYPE, _ROLES, agent_in=lambda name, scope: name)


class Langfuse(Dialect):
    """Spans with `langfuse.observation.type`."""

    name = "langfuse"
    rank = 120
    content_switch = "take mask= out of Langfuse(), and capture_input=False and capture_output=False out of @observe()"
    marks = frozenset((_TYPE,))
    keys = AttributeKeys(
        kinds=(_KIND,),
        arguments=(_INPUT,),
        results=(_OUTPUT,),
        models=(_MODEL,),
        messages=(_INPUT,),
        replies=(_OUTPUT,),
        usage=(_USAGE,),
        sessions=("langfuse.session.id",),
        users=("langfuse.user.id",),
    )

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        attributes = span.attributes
        facts = SpanFacts(role=_KIND.role(attributes))
        inputs, returned = attributes.get(_INPUT), attributes.get(_OUTPUT)
        facts.cut = is_cut(inputs) or is_cut(returned)
        if facts.role is SpanRole.MODEL:
            api_bodies.read_call(facts, inputs, returned)
            facts.tool_definitions = api_bodies.tools(inputs) or _tools_as_messages(inputs)
            facts.model = known_text(attributes.get(_MODEL))
            facts.usage = _usage(attributes.get(_USAGE))
        elif facts.role is SpanRole.TOOL:
            facts.tool = known_text(span.name)
            facts.arguments = decode_arguments(inputs)
            read_result(facts, returned)
        elif facts.role in (SpanRole.AGENT, SpanRole.CHAIN):
            facts.input = asked(attributes.get(_TRACE_INPUT)) or asked(inputs)
            facts.output = answered(attributes.get(_TRACE_OUTPUT)) or answered(returned)
        if attributes.get(_LEVEL) == "ERROR":
            facts.error = known_text(attributes.get(_STATUS_MESSAGE)) or "error"
        return facts


def _usage(recorded: Json) -> Usage | None:
    """Return the tokens of a generation. The SDK for JavaScript takes cached tokens out of the input and reasoning out
    of the output: then all parts together are the total."""
    counts = object_in(decode_structure(recorded))
    parts = {key: count for key, count in counts.items() if isinstance(count, int) and key != "total"}
    if counts.get("total") != sum(parts.values()) or not parts.keys() - {"input", "output"}:
        return api_bodies.usage(recorded)
    named: dict[str, Json] = {key: count for key, count in parts.items() if key not in ("input", "output")}
    named |= {_PARTS[key]: count for key, count in parts.items() if key in _PARTS}
    for way in ("input", "output"):
        named[way] = sum(count for key, count in parts.items() if key.startswith(way))
    return api_bodies.usage(named)


def _tools_as_messages(value: Json) -> Json:
    """Return the tools that Langfuse's callback for LangChain lists as tool messages behind the conversation."""
    if not isinstance(value, str) or _TOOL_AS_MESSAGE not in value:
        return None
    contents = (message.get("content") for message in objects_in(decode_structure(value)))
    return [content for content in contents if isinstance(content, dict)] or None
