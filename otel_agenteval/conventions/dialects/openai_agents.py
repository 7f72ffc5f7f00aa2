"""The first official instrumentation of the OpenAI Agents SDK (opentelemetry-instrumentation-openai-agents-v2 0.1).

It speaks the GenAI conventions, but records a reply without text as a text part with the `repr` of the API's object.
"""

from collections.abc import Sequence

from otel_agenteval import semconv
from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.dialect import AttributeKeys, Dialect, SpanFacts
from otel_agenteval.conventions.messages import ASSISTANT, ChatMessage, read_message
from otel_agenteval.conventions.python_repr import decode_repr
from otel_agenteval.conventions.spans import LogRecord, SpanRecord

# The agent's name on every span that is not an agent run.
_NOBODY = "OpenAI Agent"
# OpenAI's item for the question which tools an MCP server has; OpenLIT records it as a tool.
_LISTS_TOOLS = "mcp_list_tools"
# The beginnings of a call, a thought and a message, in the Responses API and in chat completions.
_REPRS = ("ResponseFunctionToolCall(", "ResponseReasoningItem(", "{'content': ")


class OpenAIAgents(Dialect):
    """Spans whose recorded reply is the `repr` of an object of OpenAI's client."""

    name = "openai_agents"
    rank = 40
    content_switch = "set OTEL_INSTRUMENTATION_OPENAI_AGENTS_CAPTURE_CONTENT=true in the agent"
    keys = AttributeKeys(no_agents=(_NOBODY,), steering_tools=(_LISTS_TOOLS,))

    def recognises(self, span: SpanRecord, logs: Sequence[LogRecord]) -> bool:
        output = span.attributes.get(semconv.GEN_AI_OUTPUT_MESSAGES)
        return isinstance(output, str) and any(beginning in output for beginning in _REPRS)

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        output = Content.recorded_as(span.attributes.get(semconv.GEN_AI_OUTPUT_MESSAGES), ASSISTANT)
        return SpanFacts(output=Content(lambda: _decoded(output), cut=output.cut))


def _decoded(output: Content) -> Sequence[ChatMessage]:
    for message in output.messages:
        texts, message.texts = message.texts, []
        for text in texts:
            _read_text(message, text)
    return output.messages


def _read_text(message: ChatMessage, text: str) -> None:
    structure = _object(text) if text.startswith(_REPRS) else None
    if structure is None:
        message.texts.append(text)
        return
    message.texts += structure.texts
    message.requests += structure.requests
    message.reasoning += structure.reasoning


def _object(text: str) -> ChatMessage | None:
    """Return the message that a `repr` describes, or the item of the Responses API as a message; None for anything
    else."""
    try:
        return read_message(decode_repr(text))
    except ValueError:
        return None
