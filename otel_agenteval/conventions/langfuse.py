"""Langfuse's SDKs, versions 3 to 5 (https://langfuse.com/docs/observability): observations as spans.

An observation has a type, and input and output in any shape: of a decorated function `{"args", "kwargs"}` and its
return value, of a generation the request and the message that a model API answered with.
"""

from collections.abc import Sequence

from otel_agenteval.conventions import api_bodies
from otel_agenteval.conventions.decoding import decode_arguments, decode_structure, decode_text, is_cut
from otel_agenteval.conventions.facts import Role, SpanFacts
from otel_agenteval.conventions.messages import Content
from otel_agenteval.conventions.span_values import LogRecord, SpanRecord
from otel_agenteval.conventions.spoken import answered, asked, langchain_message
from otel_agenteval.model import Json
from otel_agenteval.recorded import recorded

_TYPE = "langfuse.observation.type"
_INPUT, _OUTPUT = "langfuse.observation.input", "langfuse.observation.output"
_TRACE_INPUT, _TRACE_OUTPUT = "langfuse.trace.input", "langfuse.trace.output"
_MODEL = "langfuse.observation.model.name"
_USAGE = "langfuse.observation.usage_details"
_LEVEL, _STATUS_MESSAGE = "langfuse.observation.level", "langfuse.observation.status_message"

_TOOL_AS_MESSAGE = '{"role": "tool", "content": {'

_ROLES = {
    "agent": Role.AGENT,
    "generation": Role.MODEL,
    "tool": Role.TOOL,
    "span": Role.CHAIN,
    "chain": Role.CHAIN,
    "retriever": Role.RETRIEVAL,
}


class Langfuse:
    """Spans with `langfuse.observation.type`."""

    name = "langfuse"
    content_switch = "take mask= out of Langfuse(), and capture_input=False and capture_output=False out of @observe()"

    def recognises(self, span: SpanRecord, logs: Sequence[LogRecord]) -> bool:
        return _TYPE in span.attributes

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        attributes = span.attributes
        kind = attributes.get(_TYPE)
        facts = SpanFacts(role=_ROLES.get(kind) if isinstance(kind, str) else None)
        given, returned = attributes.get(_INPUT), attributes.get(_OUTPUT)
        facts.cut = is_cut(given) or is_cut(returned)
        if facts.role is Role.MODEL:
            facts.input = Content(api_bodies.request(given), cut=is_cut(given))
            facts.output = Content(api_bodies.response(returned), cut=is_cut(returned))
            reason = api_bodies.finish_reason(returned)
            facts.finish_reasons = (reason,) if reason else None
            facts.tool_definitions = api_bodies.tools(given) or _tools_as_messages(given)
            facts.model = recorded(attributes.get(_MODEL))
            facts.usage = api_bodies.usage(attributes.get(_USAGE))
        elif facts.role is Role.TOOL:
            facts.tool = recorded(span.name)
            facts.arguments = decode_arguments(given)
            facts.result = decode_text(returned)
            message = langchain_message(facts.result)
            if message and message.responses:
                facts.result, facts.call_id = message.responses[0].result, message.responses[0].call_id
        elif facts.role in (Role.AGENT, Role.CHAIN):
            facts.input = asked(attributes.get(_TRACE_INPUT)) or asked(given)
            facts.output = answered(attributes.get(_TRACE_OUTPUT)) or answered(returned)
        if attributes.get(_LEVEL) == "ERROR":
            facts.error = recorded(attributes.get(_STATUS_MESSAGE)) or "error"
        return facts


def _tools_as_messages(given: Json) -> Json:
    """The tools that Langfuse's callback for LangChain lists as messages of tools, after what was said."""
    if not isinstance(given, str) or _TOOL_AS_MESSAGE not in given:
        return None
    messages = decode_structure(given)
    contents = (
        [each.get("content") for each in messages if isinstance(each, dict)] if isinstance(messages, list) else []
    )
    return [content for content in contents if isinstance(content, dict)] or None
