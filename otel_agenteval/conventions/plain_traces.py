"""Recognise traces of the plain shape: one run of one agent, with the model calls and tool calls of that run.

Most traces are plain, and most that a reader must ask of a trace has one answer for them: who calls whom, which
dialects speak, which spans are second records of the same call. A plan says what follows from the scope, the name, the
operation and the attributes' names of a span. It is made once for all spans that are alike in these. Whatever no plan
covers is left to the readers of any trace, which say the same of a plain one.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from otel_agenteval import semconv
from otel_agenteval.conventions.agents import agent_of
from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import is_cut
from otel_agenteval.conventions.dialect import SpanFacts, SpanRole
from otel_agenteval.conventions.dialects.otel_genai import OtelGenAI, content_of, read_model, read_tool, reply_in
from otel_agenteval.conventions.envelopes import take_off
from otel_agenteval.conventions.messages import USER
from otel_agenteval.conventions.registry import KEYS, LOOKING, speaking
from otel_agenteval.conventions.spans import STATUS_ERROR, SpanRecord
from otel_agenteval.conventions.tree import Node
from otel_agenteval.conventions.turn_nodes import TurnNodes
from otel_agenteval.model import AgentRun, Json

MOST_SPANS: Final = 32
"""Spans of a plain trace."""
PLANS: Final = 1024
"""Plans that are remembered, those that were used last."""
MOST_KEYS: Final = 64
"""Attributes of a span that has a plan."""

_OPERATIONS: Final = {
    "invoke_agent": SpanRole.AGENT,
    "chat": SpanRole.MODEL,
    "generate_content": SpanRole.MODEL,
    "text_completion": SpanRole.MODEL,
    "execute_tool": SpanRole.TOOL,
}
_MESSAGES: Final = frozenset((semconv.GEN_AI_INPUT_MESSAGES, semconv.GEN_AI_OUTPUT_MESSAGES))
_NEEDED: Final = {
    SpanRole.AGENT: _MESSAGES | {semconv.GEN_AI_AGENT_NAME},
    SpanRole.MODEL: _MESSAGES,
    SpanRole.TOOL: frozenset(
        (
            *(semconv.GEN_AI_TOOL_NAME, semconv.GEN_AI_TOOL_CALL_ID),
            *(semconv.GEN_AI_TOOL_CALL_ARGUMENTS, semconv.GEN_AI_TOOL_CALL_RESULT),
        )
    ),
}
"""The attributes that a plain span has."""
_ANY: Final = frozenset(
    (
        *(semconv.AGENTEVAL_SESSION_ID, semconv.AGENTEVAL_USER_ID, semconv.AGENTEVAL_TASK_ID, semconv.AGENTEVAL_RUN_ID),
        *(semconv.AGENTEVAL_CONDITION, semconv.AGENTEVAL_PROCESS_ID, semconv.AGENTEVAL_SPAN_COUNT),
        *(semconv.GEN_AI_CONVERSATION_ID, semconv.SESSION_ID, semconv.USER_ID, semconv.ENDUSER_ID),
        *(semconv.GEN_AI_OPERATION_NAME, semconv.GEN_AI_PROVIDER_NAME, "gen_ai.system", "gen_ai.output.type"),
        *(semconv.GEN_AI_AGENT_NAME, "gen_ai.agent.id", "gen_ai.agent.description", semconv.GEN_AI_AGENT_VERSION),
        *("server.address", "server.port"),
    )
)
_OF_MODELS: Final = frozenset(
    (
        *(semconv.GEN_AI_SYSTEM_INSTRUCTIONS, semconv.GEN_AI_TOOL_DEFINITIONS),
        *(semconv.GEN_AI_REQUEST_MODEL, semconv.GEN_AI_RESPONSE_MODEL, semconv.GEN_AI_RESPONSE_ID),
        *("gen_ai.response.finish_reasons", "gen_ai.response.finish_reason", "gen_ai.response.time_to_first_chunk"),
        *(semconv.GEN_AI_USAGE_INPUT_TOKENS, semconv.GEN_AI_USAGE_OUTPUT_TOKENS, "gen_ai.usage.total_tokens"),
        *("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_creation.input_tokens"),
        *("gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens"),
        *(f"gen_ai.request.{name}" for name in ("temperature", "top_p", "top_k", "max_tokens", "seed", "stream")),
        *(f"gen_ai.request.{name}" for name in ("frequency_penalty", "presence_penalty", "stop_sequences")),
        *("gen_ai.is_streaming", "gen_ai.client.operation.duration", "gen_ai.client.operation.time_to_first_chunk"),
        *("openai.api.type", "openai.request.service_tier", "openai.response.service_tier"),
        *("openai.response.system_fingerprint", "gen_ai.openai.request.service_tier", "gen_ai.openai.api_base"),
        "gen_ai.openai.response.system_fingerprint",
    )
)
_MAY_HAVE: Final = {
    SpanRole.AGENT: _ANY | _OF_MODELS,
    SpanRole.MODEL: _ANY | _OF_MODELS,
    SpanRole.TOOL: _ANY | {"gen_ai.tool.type", "gen_ai.tool.description", "gen_ai.execute_tool.duration"},
}
"""The attributes that it may have beside these: none of them makes a span anything else."""


class _Plan(NamedTuple):
    role: SpanRole
    names_agent: bool


class PlainTrace(NamedTuple):
    """The spans of a plain trace in order, and its turn. The nodes know their agent, but not yet their neighbours."""

    nodes: list[Node]
    turn: TurnNodes
    dialects: tuple[str, ...] = (OtelGenAI.name,)


def plain_trace(spans: Sequence[SpanRecord]) -> PlainTrace | None:
    """Return a trace without log records, if it is plain. `spans` are all its spans, in order."""
    if len(spans) > MOST_SPANS:
        return None
    nodes: list[Node] = []
    runs: list[Node] = []
    models: list[Node] = []
    tools: list[Node] = []
    for span in spans:
        facts = _facts(span) if span.resource is spans[0].resource else None
        if facts is None:
            return None
        nodes.append(node := Node(span=span, facts=facts))
        (tools if facts.role is SpanRole.TOOL else models if facts.role is SpanRole.MODEL else runs).append(node)
    if len(runs) != 1 or not models or not _is_run(root := runs[0], nodes) or not _are_different(models):
        return None
    run = AgentRun(root.id)
    for node in (*models, *tools):
        node.around, node.agent_run = root.facts.agent, run
    return PlainTrace(nodes, TurnNodes(root=root, runs=runs, models=models, tools=tools))


def _is_run(root: Node, nodes: Sequence[Node]) -> bool:
    """Return whether all other nodes stand directly below the agent run `root`, and it below none of them."""
    below = all(node is root or node.span.parent_id == root.span.span_id for node in nodes)
    return below and root.facts.agent is not None and root.span.parent_id not in {node.span.span_id for node in nodes}


def _are_different(models: Sequence[Node]) -> bool:
    """Return whether no two spans can be of one model call: one instrumentation wrote them, and about different
    responses."""
    responses = [node.facts.response_id for node in models if node.facts.response_id]
    return len({*responses}) == len(responses) and len({node.span.scope for node in models}) == 1


@lru_cache(maxsize=PLANS)
def _plan(scope: str, name: str, operation: str, keys: tuple[str, ...]) -> _Plan | None:
    role = _OPERATIONS.get(operation)
    if role is None or len(keys) > MOST_KEYS:
        return None
    needed = _NEEDED[role]
    if not needed <= {*keys} <= needed | _MAY_HAVE[role]:
        return None
    attributes: dict[str, Json] = {**dict.fromkeys(keys, "some"), semconv.GEN_AI_OPERATION_NAME: operation}
    spoken = speaking(SpanRecord(span_id="", name=name, scope=scope, attributes=attributes), ())
    if [dialect.name for dialect in spoken] != [OtelGenAI.name]:
        return None
    return _Plan(role, agent_of(name, attributes, scope) is not None)


_BY_VALUES: Final = tuple(dialect for dialect in LOOKING if not dialect.is_by_names)


def _facts(span: SpanRecord) -> SpanFacts | None:
    """Return what `read_span` returns of a plain span. None for any other span."""
    attributes = span.attributes
    operation = attributes.get(semconv.GEN_AI_OPERATION_NAME)
    if not isinstance(operation, str) or span.events or span.status == STATUS_ERROR or span.dropped_attributes_count:
        return None
    plan = _plan(span.scope, span.name, operation, tuple(attributes))
    facts = plan and (_of_tool(span) if plan.role is SpanRole.TOOL else _of_messages(span, plan.role))
    if plan is not None and facts is not None and plan.names_agent:
        facts.agent = agent_of(span.name, attributes, span.scope)
    return facts


def _of_tool(span: SpanRecord) -> SpanFacts | None:
    attributes = span.attributes
    facts = SpanFacts(role=SpanRole.TOOL)
    arguments = attributes[semconv.GEN_AI_TOOL_CALL_ARGUMENTS]
    read_tool(facts, attributes, arguments, attributes[semconv.GEN_AI_TOOL_CALL_RESULT])
    if facts.tool is None or facts.tool in KEYS.steering_tools or facts.cut:
        return None
    take_off(facts)
    return facts if facts.error is None else None


def _of_messages(span: SpanRecord, role: SpanRole) -> SpanFacts | None:
    content = content_of(span, ())
    sent, reply = content.get(semconv.GEN_AI_INPUT_MESSAGES), content.get(semconv.GEN_AI_OUTPUT_MESSAGES)
    if not (_is_array(sent) and _is_array(reply)) or any(dialect.recognises(span, ()) for dialect in _BY_VALUES):
        return None
    facts = SpanFacts(
        role=role,
        input=Content.recorded_as(sent, USER),
        output=reply_in(reply),
        instructions=content.get(semconv.GEN_AI_SYSTEM_INSTRUCTIONS),
        tool_definitions=content.get(semconv.GEN_AI_TOOL_DEFINITIONS),
    )
    if is_cut(facts.instructions) or is_cut(facts.tool_definitions):
        return None
    if role is SpanRole.MODEL:
        read_model(facts, span.attributes)
    return facts


def _is_array(value: Json) -> bool:
    return isinstance(value, str) and value[:1] == "[" and value[-1:] == "]"
