"""The measured work of an agent in a trace: model calls, tool calls, turns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agenteval_collector.model.loop_work import LoopWork, loop_work_of
from otel_agenteval.finding import Finding
from otel_agenteval.model import ModelCall, Trace


class ModelWork(NamedTuple):
    """A model call. `usd` is None where its price or its tokens are not known."""

    model: str | None
    seconds: float
    input_tokens: int
    output_tokens: int
    usd: float | None
    failed: bool


class ToolWork(NamedTuple):
    """A tool call; `seconds` is None where its execution was not recorded."""

    tool: str
    seconds: float | None
    failed: bool


class TurnWork(NamedTuple):
    """A turn."""

    seconds: float
    failed: bool


@dataclass(frozen=True, slots=True)
class AgentWork:
    """The measured work of an agent in one trace; `trace_id` and `span_id` are an example of it. None: not recorded."""

    agent: str | None
    service: str | None
    version: str | None
    environment: str | None
    trace_id: str
    span_id: str | None
    models: Sequence[ModelWork]
    tools: Sequence[ToolWork]
    turns: Sequence[TurnWork]
    loops: Sequence[LoopWork]


def work_of(trace: Trace, usd: Callable[[ModelCall], float | None], findings: Sequence[Finding] = ()) -> AgentWork:
    """Return what was done in the trace, in which these were found; `usd` prices a model call, None where it cannot."""
    return AgentWork(
        agent=trace.agent,
        service=trace.service,
        version=trace.service_version,
        environment=trace.environment,
        trace_id=trace.trace_id,
        span_id=trace.turns[0].span_id if trace.turns else trace.root_span_id,
        models=[_model_work(call, usd(call)) for call in trace.model_calls],
        tools=[
            ToolWork(call.name, _seconds(call.started_at, call.ended_at), call.error is not None)
            for call in trace.tool_calls
        ],
        turns=[
            TurnWork(max(0, turn.ended_at - turn.started_at) / 1e9, turn.error is not None and not turn.is_cancelled)
            for turn in trace.turns
        ],
        loops=loop_work_of(trace, findings, usd),
    )


def _model_work(call: ModelCall, usd: float | None) -> ModelWork:
    tokens = (call.usage.input_tokens, call.usage.output_tokens) if call.usage is not None else (0, 0)
    seconds = max(0, call.ended_at - call.started_at) / 1e9
    return ModelWork(call.model, seconds, *tokens, usd, call.error is not None)


def _seconds(started_at: int | None, ended_at: int | None) -> float | None:
    return None if started_at is None or ended_at is None else max(0, ended_at - started_at) / 1e9
