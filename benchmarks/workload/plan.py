"""A conversation as spans of the current OpenTelemetry GenAI conventions, before anything is sent.

Every turn is a trace: an `invoke_agent` root, and below it the model calls and tool calls in order. Each model call
carries the whole history of the conversation, as real chat instrumentations record it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from opentelemetry.trace import SpanKind

from benchmarks.workload.conversation import Call, Conversation, Step, Turn
from otel_agenteval import semconv

AGENT = "airline"
MODEL = "gpt-4o"
SERVICE = "airline-support"
CHARACTERS_PER_TOKEN = 4

Attributes = dict[str, str | int]


@dataclass(frozen=True, slots=True)
class PlannedSpan:
    """A span without ids and times."""

    name: str
    kind: SpanKind
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class PlannedTrace:
    """A turn: the root, and its children in the order in which they start and end."""

    root: PlannedSpan
    children: tuple[PlannedSpan, ...]


def plan(conversation: Conversation) -> Iterator[PlannedTrace]:
    """Yield the traces of a conversation, one for each turn."""
    history: list[str] = []  # serialized messages
    for turn in conversation.turns:
        yield _trace(turn, history)


def _trace(turn: Turn, history: list[str]) -> PlannedTrace:
    question = _message("user", {"type": "text", "content": turn.question})
    history.append(question)
    children: list[PlannedSpan] = []
    for step in turn.steps:
        reply = _reply(step)
        children.append(_chat(history, reply))
        history.append(reply)
        for call in step.calls:
            children.append(_tool(call))
            response = {"type": "tool_call_response", "id": call.call_id, "response": call.result}
            history.append(_message("tool", response))
    # An agent that said nothing has an empty text, because its answer is known.
    answer = _message("assistant", {"type": "text", "content": turn.answer or ""})
    root = PlannedSpan(
        f"invoke_agent {AGENT}",
        SpanKind.INTERNAL,
        {
            semconv.GEN_AI_OPERATION_NAME: "invoke_agent",
            semconv.GEN_AI_AGENT_NAME: AGENT,
            semconv.GEN_AI_PROVIDER_NAME: "openai",
            semconv.GEN_AI_INPUT_MESSAGES: f"[{question}]",
            semconv.GEN_AI_OUTPUT_MESSAGES: f"[{answer}]",
        },
    )
    return PlannedTrace(root, tuple(children))


def _chat(history: list[str], reply: str) -> PlannedSpan:
    asked = f"[{','.join(history)}]"
    return PlannedSpan(
        f"chat {MODEL}",
        SpanKind.CLIENT,
        {
            semconv.GEN_AI_OPERATION_NAME: "chat",
            semconv.GEN_AI_PROVIDER_NAME: "openai",
            semconv.GEN_AI_REQUEST_MODEL: MODEL,
            semconv.GEN_AI_RESPONSE_MODEL: MODEL,
            semconv.GEN_AI_INPUT_MESSAGES: asked,
            semconv.GEN_AI_OUTPUT_MESSAGES: f"[{reply}]",
            semconv.GEN_AI_USAGE_INPUT_TOKENS: len(asked) // CHARACTERS_PER_TOKEN,
            semconv.GEN_AI_USAGE_OUTPUT_TOKENS: len(reply) // CHARACTERS_PER_TOKEN,
        },
    )


def _tool(call: Call) -> PlannedSpan:
    return PlannedSpan(
        f"execute_tool {call.name}",
        SpanKind.INTERNAL,
        {
            semconv.GEN_AI_OPERATION_NAME: "execute_tool",
            semconv.GEN_AI_TOOL_NAME: call.name,
            semconv.GEN_AI_TOOL_CALL_ID: call.call_id,
            semconv.GEN_AI_TOOL_CALL_ARGUMENTS: call.arguments,
            semconv.GEN_AI_TOOL_CALL_RESULT: call.result,
        },
    )


def _reply(step: Step) -> str:
    said = [{"type": "text", "content": step.text}] if step.text else []
    asked = [
        {"type": "tool_call", "id": call.call_id, "name": call.name, "arguments": json.loads(call.arguments)}
        for call in step.calls
    ]
    return _message("assistant", *said, *asked)


def _message(role: str, *parts: Mapping[str, object]) -> str:
    return json.dumps({"role": role, "parts": parts})
