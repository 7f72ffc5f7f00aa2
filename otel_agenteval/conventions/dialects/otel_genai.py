"""The OpenTelemetry GenAI conventions as of late 2026 (repository open-telemetry/semantic-conventions-genai).

Content that attributes lack is taken from the event `gen_ai.client.inference.operation.details`.
"""

from collections.abc import Mapping, Sequence

from otel_agenteval import semconv
from otel_agenteval.conventions.api_bodies import usage_in
from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import decode_arguments, decode_structure, decode_text, is_cut, known_text
from otel_agenteval.conventions.dialect import AttributeKeys, Dialect, KindAttribute, SpanFacts, SpanRole
from otel_agenteval.conventions.messages import ASSISTANT, USER, joined_chunks, message_items
from otel_agenteval.conventions.spans import STATUS_ERROR, LogRecord, SpanRecord
from otel_agenteval.model import Json

_ROLES = {
    "chat": SpanRole.MODEL,
    "generate_content": SpanRole.MODEL,
    "text_completion": SpanRole.MODEL,
    "retrieval": SpanRole.RETRIEVAL,
    "invoke_agent": SpanRole.AGENT,
    "invoke_workflow": SpanRole.WORKFLOW,
    "plan": SpanRole.PLAN,
    "execute_tool": SpanRole.TOOL,
    # Gemini CLI.
    "llm_call": SpanRole.MODEL,
    "tool_call": SpanRole.TOOL,
    "agent_call": SpanRole.AGENT,
    "create_agent": None,
    "embeddings": None,
}
_CONTENT = (
    semconv.GEN_AI_INPUT_MESSAGES,
    semconv.GEN_AI_OUTPUT_MESSAGES,
    semconv.GEN_AI_SYSTEM_INSTRUCTIONS,
    semconv.GEN_AI_TOOL_DEFINITIONS,
)
_FINISH_REASONS = "gen_ai.response.finish_reasons"
_CHOICES = "gen_ai.request.choice.count"
_PREVIOUS_RESPONSE = "gen_ai.request.previous_response.id"
_AGENT_TOOLS = "gen_ai.agent.tools"
_TOOL_STATUS = "gen_ai.tool.status"
_MCP_METHOD, _MCP_CALL = "mcp.method.name", "tools/call"
# The names of spans of tool calls begin so.
_EXECUTES = "execute_tool "
_TOOL_PREFIXES = (_EXECUTES, f"MCP send {_MCP_CALL} ", f"{_MCP_CALL} ")
# Google ADK gives this name to a span that holds the responses of parallel calls together.
_MERGED_TOOLS = "(merged tools)"
_INVOKED = "invoke_agent "
# The OpenAI Agents SDK's instrumentations, and those of frameworks that transfer.
_HANDOVERS = ("gen_ai.handoff.to_agent", "gen_ai.transfer.target.name", "transfer.target.name")
# The current names, and those of 2024, which are still written.
_INPUT_TOKENS = (semconv.GEN_AI_USAGE_INPUT_TOKENS, "gen_ai.usage.prompt_tokens")
_OUTPUT_TOKENS = (semconv.GEN_AI_USAGE_OUTPUT_TOKENS, "gen_ai.usage.completion_tokens")


def _invoked(name: str, scope: str) -> str | None:
    return name.removeprefix(_INVOKED) if name.startswith(_INVOKED) else None


# On OpenLIT's span of a streamed graph. Its message is all texts that came, joined: the question, results of tools, and
# what each step said, again and again.
_CHUNKS = "gen_ai.graph.total_chunks"


_NOTHING: tuple[Json, ...] = (None, [])


class OtelGenAI(Dialect):
    """Spans with `gen_ai.operation.name`, MCP tool calls, and spans that carry GenAI messages without either."""

    name = "otel_genai"
    rank = 50
    is_by_names = True
    is_common = True
    content_switch = (
        "set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY in the agent (older "
        "instrumentations: true, and send their log records too)"
    )
    keys = AttributeKeys(
        kinds=(
            KindAttribute(semconv.GEN_AI_OPERATION_NAME, _ROLES, agent_in=_invoked),
            KindAttribute(_MCP_METHOD, {_MCP_CALL: SpanRole.TOOL}),
        ),
        agents=(semconv.GEN_AI_AGENT_NAME,),
        tools=(semconv.GEN_AI_TOOL_NAME,),
        tool_prefixes=_TOOL_PREFIXES,
        handovers=_HANDOVERS,
        steering_tools=(_MERGED_TOOLS,),
        arguments=(semconv.GEN_AI_TOOL_CALL_ARGUMENTS,),
        results=(semconv.GEN_AI_TOOL_CALL_RESULT,),
        models=(semconv.GEN_AI_RESPONSE_MODEL, semconv.GEN_AI_REQUEST_MODEL),
        messages=(semconv.GEN_AI_INPUT_MESSAGES,),
        replies=(semconv.GEN_AI_OUTPUT_MESSAGES,),
        input_tokens=_INPUT_TOKENS,
        output_tokens=_OUTPUT_TOKENS,
    )

    def recognises(self, span: SpanRecord, logs: Sequence[LogRecord]) -> bool:
        attributes = span.attributes
        return (
            semconv.GEN_AI_OPERATION_NAME in attributes
            or semconv.GEN_AI_INPUT_MESSAGES in attributes
            or semconv.GEN_AI_OUTPUT_MESSAGES in attributes
            or attributes.get(_MCP_METHOD) == _MCP_CALL
            # Sentry and gateways leave the operation out.
            or (semconv.GEN_AI_REQUEST_MODEL in attributes and any(key in attributes for key in _OUTPUT_TOKENS))
            or _is_bare_failure(span)
        )

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        attributes = span.attributes
        content = content_of(span, logs)
        facts = SpanFacts(
            role=SpanRole.TOOL if _is_bare_failure(span) else _role(attributes),
            hands_over_to=next((name for key in _HANDOVERS if (name := known_text(attributes.get(key)))), None),
            cut=any(map(is_cut, content.values())),
        )
        if (messages := content.get(semconv.GEN_AI_INPUT_MESSAGES)) is not None:
            facts.input = Content.recorded_as(messages, USER)
        if (messages := content.get(semconv.GEN_AI_OUTPUT_MESSAGES)) is not None and _CHUNKS not in attributes:
            facts.output = reply_in(messages, 1 if _has_choices(attributes) else None)
        facts.instructions = content.get(semconv.GEN_AI_SYSTEM_INSTRUCTIONS)
        facts.tool_definitions = content.get(semconv.GEN_AI_TOOL_DEFINITIONS)
        if facts.role is SpanRole.TOOL:
            _read_tool(facts, span)
        elif facts.role is SpanRole.MODEL or _may_be_call(facts, attributes):
            read_model(facts, attributes)
            facts.may_be_call = facts.role is None
        elif facts.role is SpanRole.AGENT:
            facts.tool_names = texts_in(decode_structure(attributes.get(_AGENT_TOOLS)))
        return facts


def _is_bare_failure(span: SpanRecord) -> bool:
    """Return whether a span is a tool call that failed before its attributes were written, as those of OpenLIT and
    Google ADK do: its name tells."""
    is_failed_tool = span.status == STATUS_ERROR and span.name.startswith(_EXECUTES)
    return is_failed_tool and span.attributes.keys().isdisjoint(
        (semconv.GEN_AI_OPERATION_NAME, semconv.GEN_AI_TOOL_NAME)
    )


def _role(attributes: Mapping[str, Json]) -> SpanRole | None:
    operation = attributes.get(semconv.GEN_AI_OPERATION_NAME)
    if attributes.get(semconv.GEN_AI_TOOL_NAME) == _MERGED_TOOLS:
        return None
    if isinstance(operation, str) and operation in _ROLES:
        return _ROLES[operation]
    if attributes.get(_MCP_METHOD) == _MCP_CALL:
        return SpanRole.TOOL
    # Other operations are legal. Attributes of a response tell a model call from a framework's span around it.
    if semconv.GEN_AI_RESPONSE_ID in attributes or _FINISH_REASONS in attributes:
        return SpanRole.MODEL
    return None


def _has_choices(attributes: Mapping[str, Json]) -> bool:
    """Return whether a model was asked for several replies to choose from. The first counts."""
    count = attributes.get(_CHOICES)
    return isinstance(count, int) and count > 1


def _may_be_call(facts: SpanFacts, attributes: Mapping[str, Json]) -> bool:
    """Return whether a span without an operation that is known names a model and has what it gave back."""
    operation = attributes.get(semconv.GEN_AI_OPERATION_NAME)
    if (isinstance(operation, str) and operation in _ROLES) or semconv.GEN_AI_REQUEST_MODEL not in attributes:
        return False
    # Rankers and embedders give no messages and no tokens back.
    usage = usage_in(attributes, _INPUT_TOKENS, _OUTPUT_TOKENS)
    return facts.output is not None or bool(usage and usage.output_tokens)


def content_of(span: SpanRecord, logs: Sequence[LogRecord]) -> dict[str, Json]:
    """Return the messages, instructions and definitions that a span, its events or its log records hold."""
    carriers: list[Mapping[str, Json]] = [span.attributes]
    carriers += [event.attributes for event in span.events if event.name == semconv.GEN_AI_INFERENCE_DETAILS_EVENT]
    carriers += [log.attributes for log in logs if log.event_name == semconv.GEN_AI_INFERENCE_DETAILS_EVENT]
    content: dict[str, Json] = {}
    for carrier in carriers:
        for key in _CONTENT:
            # OpenLIT's log records have empty lists beside what its spans say.
            if key not in content and carrier.get(key) not in _NOTHING:
                content[key] = carrier[key]
    return content


def reply_in(messages: Json, count: int | None = None) -> Content:
    """Return the reply that an attribute holds: its first `count` messages, or all."""
    return Content(lambda: joined_chunks(message_items(messages, ASSISTANT)[:count]), cut=is_cut(messages))


def _read_tool(facts: SpanFacts, span: SpanRecord) -> None:
    attributes = span.attributes
    arguments = attributes.get(semconv.GEN_AI_TOOL_CALL_ARGUMENTS)
    result = attributes.get(semconv.GEN_AI_TOOL_CALL_RESULT)
    read_tool(facts, attributes, arguments, result)
    facts.tool = facts.tool or _tool_in(span.name)
    facts.is_sent = attributes.get(_MCP_METHOD) == _MCP_CALL
    # Without these attributes, arguments and result may stand in messages, like those of a model call.
    if arguments is None and facts.input:
        facts.arguments = next(
            (request.arguments for message in facts.input.messages for request in message.requests), None
        )
    if result is None and facts.output:
        facts.result = next(
            (response.result for message in facts.output.messages for response in message.responses), None
        )
    status = attributes.get(_TOOL_STATUS)
    facts.is_success = True if status == "success" else None
    if status == "error":
        facts.error = facts.result if isinstance(facts.result, str) else "error"


def _tool_in(name: str) -> str | None:
    for prefix in _TOOL_PREFIXES:
        if name.startswith(prefix):
            return known_text(name.removeprefix(prefix))
    return None


def read_tool(facts: SpanFacts, attributes: Mapping[str, Json], arguments: Json, result: Json) -> None:
    """Fill in the facts of a tool call: name and id from its attributes, and the given arguments and result,
    decoded."""
    facts.tool = known_text(attributes.get(semconv.GEN_AI_TOOL_NAME))
    facts.call_id = known_text(attributes.get(semconv.GEN_AI_TOOL_CALL_ID))
    facts.arguments = decode_arguments(arguments)
    facts.result = decode_text(result)
    facts.cut = facts.cut or is_cut(arguments)


def texts_in(names: Json) -> tuple[str, ...] | None:
    """Return the texts in a list; None for anything else."""
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else None


def read_model(facts: SpanFacts, attributes: Mapping[str, Json]) -> None:
    """Fill in the facts of a model call from its attributes, except its messages."""
    facts.model = known_text(attributes.get(semconv.GEN_AI_RESPONSE_MODEL)) or known_text(
        attributes.get(semconv.GEN_AI_REQUEST_MODEL)
    )
    facts.response_id = known_text(attributes.get(semconv.GEN_AI_RESPONSE_ID))
    facts.previous_response_id = known_text(attributes.get(_PREVIOUS_RESPONSE))
    reasons = decode_structure(attributes.get(_FINISH_REASONS))
    listed = reasons if isinstance(reasons, list) else [reasons]
    facts.finish_reason = next(filter(None, map(known_text, listed)), None)
    facts.usage = usage_in(attributes, _INPUT_TOKENS, _OUTPUT_TOKENS) or facts.usage
