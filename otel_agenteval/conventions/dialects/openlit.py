"""OpenLIT (https://docs.openlit.io): the GenAI conventions, and attributes of its own on spans of model calls.

On these spans `gen_ai.tool.name` names all tools that the model asked for, even if messages are not recorded. Spans
of decorated functions are steps of the application.
"""

from collections.abc import Mapping, Sequence

from otel_agenteval import semconv
from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import decode_structure, known_text
from otel_agenteval.conventions.dialect import AttributeKeys, Attributes, Dialect, SpanFacts
from otel_agenteval.conventions.framework_values import answered, asked
from otel_agenteval.conventions.messages import ASSISTANT, ChatMessage, ToolRequest
from otel_agenteval.conventions.spans import LogRecord, SpanRecord
from otel_agenteval.model import Json

_REASONING = "gen_ai.content.reasoning"
# A metric in the conventions. Only OpenLIT has an attribute of this name.
_TOKEN_USAGE = "gen_ai.client.token.usage"
_FUNCTION_ARGUMENTS = "function.args"
_TOOL_ARGUMENTS = "gen_ai.tool.args"
# What a graph or an agent of LangChain was given and returned.
_GIVEN, _RETURNED = "gen_ai.workflow.input", "gen_ai.workflow.output"
_BETWEEN = ", "

# Nodes of LangChain's agents, each of which it calls an agent.
_NODES = ("model", "model_request", "tools")
_GRAPH, _UNNAMED_GRAPH = "gen_ai.workflow.name", "LangGraph"


def _graph_of(name: str, attributes: Attributes) -> str | None:
    """Return the name that a graph of LangGraph was given: that of its agent."""
    if attributes.get("gen_ai.provider.name") != "langgraph":
        return None
    graph = known_text(attributes.get(_GRAPH))
    return None if graph == _UNNAMED_GRAPH else graph


class OpenLIT(Dialect):
    """Spans with OpenLIT's count of tokens, reasoning, or arguments of a decorated function."""

    name = "openlit"
    rank = 70
    content_switch = "pass capture_message_content=True to openlit.init()"
    marks = frozenset((_TOKEN_USAGE, _REASONING, _FUNCTION_ARGUMENTS, _GIVEN))
    keys = AttributeKeys(no_agents=_NODES, agent_of=(_graph_of,), users=("gen_ai.request.user",))

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        facts = SpanFacts(reasoning=known_text(span.attributes.get(_REASONING)))
        if _GIVEN in span.attributes:
            facts.input, facts.output = asked(span.attributes[_GIVEN]), answered(span.attributes.get(_RETURNED))
        if requests := _requests(span.attributes):
            facts.output = Content(lambda: [ChatMessage(role=ASSISTANT, requests=requests)])
        return facts


def _requests(attributes: Mapping[str, Json]) -> list[ToolRequest]:
    """Return the tools that the model asked for. They have arguments and ids only if there is one for each name."""
    arguments = attributes.get(_TOOL_ARGUMENTS)
    joined = known_text(attributes.get(semconv.GEN_AI_TOOL_NAME)) if isinstance(arguments, str) else None
    if joined is None:
        return []
    names = joined.split(_BETWEEN)
    decoded = decode_structure(f"[{arguments}]")
    ids = (known_text(attributes.get(semconv.GEN_AI_TOOL_CALL_ID)) or "").split(_BETWEEN)
    values = decoded if isinstance(decoded, list) and len(decoded) == len(names) else [None] * len(names)
    call_ids = ids if len(ids) == len(names) else [""] * len(names)
    return [
        ToolRequest(name=name, arguments=value, call_id=call_id or None)
        for name, value, call_id in zip(names, values, call_ids, strict=True)
    ]
