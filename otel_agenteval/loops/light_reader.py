"""Steps out of single spans, for detectors that run beside the agent: a few attributes of each, and no other span.

It knows the tool and model spans of every dialect that `conventions` reads, but decodes no conversation: of a model
call it looks at the reply alone. What stands only in messages, as tools that a model asked for and no span executed, is
not seen here; the collector reads it. Content is hostile: nothing here raises for it.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from otel_agenteval.detectors import Step, StepKind
from otel_agenteval.detectors.steps import not_recorded
from otel_agenteval.detectors.tool_names import only_hands_over, receiver_in
from otel_agenteval.loops.light_content import arguments_in, decoded_json, error_in, result_in, speech_in
from otel_agenteval.model import AgentRun, Json
from otel_agenteval.questions import newest_of, question_of, sent_of

Attributes = Mapping[str, Any]

_KINDS: Final[Mapping[str, Mapping[str, StepKind]]] = {
    "gen_ai.operation.name": {
        "execute_tool": StepKind.TOOL,
        "chat": StepKind.MODEL,
        "generate_content": StepKind.MODEL,
        "text_completion": StepKind.MODEL,
    },
    "mcp.method.name": {"tools/call": StepKind.TOOL},
    "openinference.span.kind": {"TOOL": StepKind.TOOL, "LLM": StepKind.MODEL},
    "traceloop.span.kind": {"tool": StepKind.TOOL},
    "llm.request.type": {"chat": StepKind.MODEL, "completion": StepKind.MODEL},
    "langfuse.observation.type": {"tool": StepKind.TOOL, "generation": StepKind.MODEL},
    "mlflow.spanType": {'"TOOL"': StepKind.TOOL, '"CHAT_MODEL"': StepKind.MODEL, '"LLM"': StepKind.MODEL},
    "ai.operationId": {
        "ai.toolCall": StepKind.TOOL,
        "ai.generateText.doGenerate": StepKind.MODEL,
        "ai.streamText.doStream": StepKind.MODEL,
        "ai.generateObject.doGenerate": StepKind.MODEL,
        "ai.streamObject.doStream": StepKind.MODEL,
    },
}
# Attributes of Pydantic AI, Google ADK and Logfire from before they named operations.
_MARKS: Final = (
    ("tool_arguments", StepKind.TOOL),
    ("gcp.vertex.agent.tool_call_args", StepKind.TOOL),
    ("gen_ai.request.model", StepKind.MODEL),
)
_TOOL_NAMES: Final = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name", "ai.toolCall.name")
_ARGUMENTS: Final = (
    "gen_ai.tool.call.arguments",
    "gcp.vertex.agent.tool_call_args",
    "tool_arguments",
    "input.value",
    "traceloop.entity.input",
    "langfuse.observation.input",
    "mlflow.spanInputs",
    "ai.toolCall.args",
)
_RESULTS: Final = (
    "gen_ai.tool.call.result",
    "gcp.vertex.agent.tool_response",
    "tool_response",
    "output.value",
    "traceloop.entity.output",
    "langfuse.observation.output",
    "mlflow.spanOutputs",
    "ai.toolCall.result",
)
_MODEL_NAMES: Final = (
    "gen_ai.response.model",
    "gen_ai.request.model",
    "llm.model_name",
    "langfuse.observation.model.name",
    "ai.response.model",
    "ai.model.id",
)
_PLAIN_REPLIES: Final = (
    "llm.output_messages.0.message.content",
    "gen_ai.completion.0.content",
    "ai.response.text",
    "ai.response.object",
)
_REPLIES: Final = ("gen_ai.output.messages", "langfuse.observation.output", "mlflow.spanOutputs", "output.value")
_INPUT_TOKENS: Final = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "ai.usage.promptTokens",
)
_OUTPUT_TOKENS: Final = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "ai.usage.completionTokens",
)
_USAGE: Final = ("langfuse.observation.usage_details", "mlflow.chat.tokenUsage")
_USAGE_TOKENS: Final = (("input", "input_tokens", "prompt_tokens"), ("output", "output_tokens", "completion_tokens"))
_SESSIONS: Final = ("gen_ai.conversation.id", "session.id")
# The tool by which smolagents has its model answer.
_ANSWER: Final = "final_answer"
# The span by which Google ADK stands for the joined responses of parallel calls.
_MERGED: Final = "(merged tools)"
_HANDOFF: Final = "handoff to "
_DSPY_CALL: Final = ".__call__"
# Events by which Strands tells what a tool was asked and answered, and what a model replied.
_ASKED: Final = "gen_ai.tool.message"
_ANSWERED: Final = "gen_ai.choice"


def kind_of(name: str, attributes: Attributes) -> StepKind:
    """The kind of a span, as far as it is known: some instrumentations say nothing at its start, and it is OTHER."""
    kind = _kind(attributes)
    return StepKind.OTHER if kind is StepKind.TOOL and _steers(name, attributes) else kind


def name_of(kind: StepKind, name: str, attributes: Attributes) -> str:
    """The tool's or the model's name, else the span's."""
    return _text(attributes, _TOOL_NAMES if kind is StepKind.TOOL else _MODEL_NAMES) or name.removesuffix(_DSPY_CALL)


def session_of(attributes: Attributes) -> str | None:
    """The session that a span names by the conventions; None where it names none."""
    return _text(attributes, _SESSIONS)


def step_of(
    *,
    span_id: str,
    name: str,
    attributes: Attributes,
    events: Iterable[tuple[str, Attributes]] = (),
    failed: bool = False,
    status_message: str | None = None,
    agent: str | None = None,
    run: AgentRun | None = None,
    started_at: int | None = None,
    ended_at: int | None = None,
) -> Step | None:
    """The step that a span which ended stands for; None where it is neither a tool's nor a model's.

    `name` is the span's, `failed` whether its status is an error, `agent` and `run` whose step it is. `events` are the
    span's, each with its name. Times as in `Step`.
    """
    kind = kind_of(name, attributes)
    if kind is StepKind.OTHER:
        called = name_of(StepKind.TOOL, name, attributes)
        if _kind(attributes) is not StepKind.TOOL or receiver_in(called) is None:
            return None
        # No step of the agent's run, but the end of its turn.
        return Step(
            kind=StepKind.TOOL,
            name=called,
            span_id=span_id,
            agent=agent,
            run=run,
            arguments={},
            started_at=started_at,
            ended_at=ended_at,
        )
    arguments: Json = None
    read = None
    # Events are slow to get at, and most spans need none.
    said: dict[str, Attributes] = {}
    is_tool = kind is StepKind.TOOL
    asked = _first(attributes, _ARGUMENTS) if is_tool else None
    text = None if is_tool else _text(attributes, _PLAIN_REPLIES)
    answer = text or _first(attributes, _RESULTS if is_tool else _REPLIES)
    if failed or not answer or (is_tool and not asked):
        said = dict(events)
        asked = asked or said.get(_ASKED, {}).get("content")
        answer = answer or said.get(_ANSWERED, {}).get("message")
    error = _error(attributes, said, status_message) if failed else None
    if is_tool:
        arguments, result = arguments_in(asked), result_in(answer)
        if error in (None, "error", "_OTHER"):
            named = name_of(kind, name, attributes)
            told = result if error and isinstance(result, str) else error_in(result, named)
            error = told or error
    else:
        result, read = answer, None if text else speech_in
    return Step(
        kind=kind,
        name=name_of(kind, name, attributes),
        span_id=span_id,
        agent=agent,
        run=run,
        arguments=arguments,
        result=result,
        read=read,
        asked=not_recorded if is_tool else partial(newest_of, attributes),
        question=not_recorded if is_tool else partial(question_of, attributes),
        sent=not_recorded if is_tool else partial(sent_of, attributes),
        error=error,
        is_error_read=error is not None and not failed and "error.type" not in attributes,
        tokens=_tokens(attributes) if kind is StepKind.MODEL else 0,
        started_at=started_at,
        ended_at=ended_at,
    )


def _kind(attributes: Attributes) -> StepKind:
    for key, kinds in _KINDS.items():
        if isinstance(value := attributes.get(key), str):
            return kinds.get(value, StepKind.OTHER)
    return next((kind for mark, kind in _MARKS if mark in attributes), StepKind.OTHER)


def _error(attributes: Attributes, events: Mapping[str, Attributes], status_message: str | None) -> str:
    exception = events.get("exception", {})
    texts = (exception.get("exception.message"), exception.get("exception.type"), status_message)
    return next((text for text in texts if isinstance(text, str) and text.strip()), None) or (
        _text(attributes, ("error.type",)) or "error"
    )


def _steers(name: str, attributes: Attributes) -> bool:
    """Whether a tool's span is a framework's own: it hands over, joins results, or is not executed as a tool at all."""
    tool = attributes.get("gen_ai.tool.name")
    called = name_of(StepKind.TOOL, name, attributes)
    # Arguments are read of few tools only.
    if receiver_in(called) is not None and only_hands_over(called, arguments_in(_first(attributes, _ARGUMENTS))):
        return True
    return tool == _MERGED or (tool is None and name.startswith(_HANDOFF)) or attributes.get("tool.name") == _ANSWER


def _first(attributes: Attributes, keys: Iterable[str]) -> Any:
    for key in keys:
        if (value := attributes.get(key)) is not None:
            return value
    return None


def _text(attributes: Attributes, keys: Iterable[str]) -> str | None:
    for key in keys:
        if isinstance(value := attributes.get(key), str) and value.strip():
            return value
    return None


def _tokens(attributes: Attributes) -> int:
    counted = _count(attributes, _INPUT_TOKENS) + _count(attributes, _OUTPUT_TOKENS)
    usage = None if counted else decoded_json(_first(attributes, _USAGE))
    return sum(_count(usage, keys) for keys in _USAGE_TOKENS) if isinstance(usage, dict) else counted


def _count(attributes: Attributes, keys: Iterable[str]) -> int:
    for key in keys:
        if isinstance(value := attributes.get(key), int):
            return value
    return 0
