"""Sample agents that emit OpenTelemetry spans by the current GenAI conventions.

Their conversations are scripted. The spans, the processor that exports them, and the connection are real.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

import otel_agenteval
from otel_agenteval import semconv

MODEL = "sample-model"


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """One tool call: its arguments, and either its result or the error it raises."""

    tool: str
    arguments: dict[str, Any]
    result: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """One turn of a script: the user's words, the agent's tool calls, and its answer.

    The agent says its `plan` beside the first call. `finish` is the reason why the model ended its answer. `error` is
    what fails the agent run in place of an answer.
    """

    user: str
    answer: str = ""
    calls: Sequence[ScriptedCall] = ()
    plan: str = ""
    finish: str = "stop"
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """One conversation with one sample agent."""

    agent: str
    session: str
    turns: Sequence[ScriptedTurn]
    tools: Mapping[str, Mapping[str, Any]]
    """The JSON schemas of the arguments of the agent's tools, by name."""


def play(script: Script, endpoint: str, pause: Callable[[float], object]) -> int:
    """Hold the conversation, and return the number of its traces.

    `pause` is called with the seconds that the model or a tool would take. The function returns when the collector at
    `endpoint` has every span, or after a few seconds if no collector takes them.
    """
    provider = TracerProvider(resource=Resource.create({"service.name": script.agent, "service.version": "1.0"}))
    provider.add_span_processor(otel_agenteval.AgentEvalSpanProcessor(endpoint=endpoint))
    conversation = _SampleAgent(script, provider.get_tracer("agenteval.samples"), pause)
    try:
        with otel_agenteval.session(script.session, user_id="demo"):
            for turn in script.turns:
                conversation.hold(turn)
                provider.force_flush(5_000)
    finally:
        provider.shutdown()
    return len(script.turns)


class _SampleAgent:
    """A sample agent, with the messages of its conversation so far."""

    def __init__(self, script: Script, tracer: Tracer, pause: Callable[[float], object]) -> None:
        self._script = script
        self._tracer = tracer
        self._pause = pause
        self._said: list[dict[str, Any]] = []

    def hold(self, turn: ScriptedTurn) -> None:
        """Make one trace: an agent run with its model calls and tool calls."""
        question = _message("user", {"type": "text", "content": turn.user})
        self._said.append(question)
        with self._tracer.start_as_current_span(f"invoke_agent {self._script.agent}") as run:
            _describe(run, "invoke_agent", {semconv.GEN_AI_AGENT_NAME: self._script.agent})
            run.set_attribute(semconv.GEN_AI_INPUT_MESSAGES, json.dumps([question]))
            for number, call in enumerate(turn.calls):
                call_id = f"call_{number}"
                request = {"type": "tool_call", "id": call_id, "name": call.tool, "arguments": call.arguments}
                plan = [{"type": "text", "content": turn.plan}] if turn.plan and number == 0 else []
                self._chat([*plan, request], "tool_call")
                response = self._execute(call, call_id)
                self._said.append(_message("tool", {"type": "tool_call_response", "id": call_id, "response": response}))
            if turn.error is not None:
                with self._model_call() as asking:
                    _fail(asking, turn.error)
                _fail(run, turn.error)
                return
            answer = self._chat([{"type": "text", "content": turn.answer}], turn.finish)
            run.set_attribute(semconv.GEN_AI_OUTPUT_MESSAGES, json.dumps([answer]))

    def _chat(self, message_parts: Sequence[dict[str, Any]], finish: str) -> dict[str, Any]:
        """Call the model, which replies with `message_parts` and ends for the reason `finish`; return the reply."""
        reply = {**_message("assistant", *message_parts), "finish_reason": finish}
        with self._model_call() as call:
            call.set_attribute(semconv.GEN_AI_OUTPUT_MESSAGES, json.dumps([reply]))
            self._pause(0.4)
        self._said.append(reply)
        return reply

    @contextmanager
    def _model_call(self) -> Iterator[Span]:
        """Open the span of a model call. The model gets all messages so far."""
        tools = [{"type": "function", "name": name, "parameters": tool} for name, tool in self._script.tools.items()]
        with self._tracer.start_as_current_span(f"chat {MODEL}", kind=SpanKind.CLIENT) as span:
            _describe(span, "chat", {semconv.GEN_AI_REQUEST_MODEL: MODEL, semconv.GEN_AI_PROVIDER_NAME: "sample"})
            span.set_attribute(semconv.GEN_AI_TOOL_DEFINITIONS, json.dumps(tools))
            span.set_attribute(semconv.GEN_AI_INPUT_MESSAGES, json.dumps(self._said))
            yield span

    def _execute(self, call: ScriptedCall, call_id: str) -> str:
        """Run a tool, and return the response that the model gets: the result, or the error."""
        with self._tracer.start_as_current_span(f"execute_tool {call.tool}") as span:
            _describe(span, "execute_tool", {semconv.GEN_AI_TOOL_NAME: call.tool, semconv.GEN_AI_TOOL_CALL_ID: call_id})
            span.set_attribute(semconv.GEN_AI_TOOL_CALL_ARGUMENTS, json.dumps(call.arguments))
            self._pause(0.25)
            if call.error is not None:
                _fail(span, call.error)
                return f"Error: {call.error}"
            span.set_attribute(semconv.GEN_AI_TOOL_CALL_RESULT, call.result)
            return call.result


def _describe(span: Span, operation: str, attributes: dict[str, str]) -> None:
    span.set_attributes({semconv.GEN_AI_OPERATION_NAME: operation, **attributes})


def _fail(span: Span, error: str) -> None:
    span.set_attribute(semconv.ERROR_TYPE, "SampleError")
    span.set_status(Status(StatusCode.ERROR, error))


def _message(role: str, *message_parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": message_parts}
