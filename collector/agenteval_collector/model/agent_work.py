"""The measured work of an agent in a trace: model calls, tool calls, turns, and the money that went into loops."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.detectors.steps import Step, StepKind, steps_of
from otel_agenteval.finding import Finding, FindingKind
from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.model import Json, ModelCall, Trace


class LoopWork(NamedTuple):
    """The cost in US dollars of the model calls that were repeated in a loop of this kind."""

    kind: str
    usd: float


def loop_work_of(trace: Trace, findings: Iterable[Finding], usd: Callable[[ModelCall], float | None]) -> list[LoopWork]:
    """Return the cost of each alarming loop in a complete trace. Loops without a known price are left out.

    A loop costs the model calls after its first round, until the agent calls another tool. Calls made after the agent
    was told of the loop count as well. A call may be in loops of several kinds.
    """
    loops = [each for each in findings if each.kind in LOOP_KINDS and each.is_alarm]
    if not loops:
        return []
    calls = {call.span_id: call for call in trace.model_calls}
    steps = steps_of(trace)
    found = []
    for loop in loops:
        if loop.kind == FindingKind.REPEATED_ANSWER:
            repeated: Sequence[ModelCall] = trace.turns[loop.turn].model_calls if loop.turn is not None else ()
        else:
            mine = [each for each in steps if (each.agent or trace.agent) == loop.agent]
            repeated = [calls[each.span_id] for each in _repeated(loop, mine) if each.span_id in calls]
        costs = [cost for call in repeated if (cost := usd(call)) is not None]
        if costs:
            found.append(LoopWork(loop.kind, sum(costs)))
    return found


def _repeated(loop: Finding, steps: Sequence[Step]) -> Sequence[Step]:
    """Return the steps of the agent from the end of the loop's first round to the end of its last one."""
    positions = {step.span_id: position for position, step in enumerate(steps)}
    told = positions.get(loop.span_id or "")
    if told is None:
        return ()
    tools = _tools(loop.metadata.get("tools") or loop.metadata.get("tool"))
    of_loop = [position for position, step in enumerate(steps) if _is_of(step, tools)]
    first = _first_round(loop, tools, [position for position in of_loop if position <= told], positions)
    others = (position for position, step in enumerate(steps) if position > told and step.kind is StepKind.TOOL)
    broken = next((position for position in others if not _is_of(steps[position], tools)), len(steps))
    last = max((position for position in of_loop if position < broken), default=told)
    return [] if first is None else steps[first + 1 : last + 1]


def _first_round(loop: Finding, tools: frozenset[str], before: Sequence[int], positions: dict[str, int]) -> int | None:
    """Return the position of the last step of the first round; None where it is unknown."""
    rounds, spans = loop.metadata.get("repetitions"), loop.metadata.get("span_ids")
    if not isinstance(rounds, int) or not isinstance(spans, list) or not spans:
        return None
    if tools and len(spans) > 1 and isinstance(loop.metadata.get("tools"), list):
        # A cycle's finding names the spans of its last round only.
        steps = len(spans) * (rounds - 1) + 1
        return before[-steps] if len(before) >= steps else None
    return positions.get(str(spans[0]))


def _tools(named: Json) -> frozenset[str]:
    names = named if isinstance(named, list) else [named]
    return frozenset(name for name in names if isinstance(name, str))


def _is_of(step: Step, tools: frozenset[str]) -> bool:
    """Return whether the step belongs to a loop of these tools; without tools it is the model that repeats itself."""
    return step.name in tools if step.kind is StepKind.TOOL else not tools


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


@checked_dataclass(frozen=True, slots=True)
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
    """Measure the work in a trace with these findings. `usd` prices a model call; None where the price is unknown."""
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
