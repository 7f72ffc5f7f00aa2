"""The measured work of an agent in a trace: model calls, tool calls, turns, and the money that went into loops."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.detectors.steps import Step, StepKind, steps_of
from otel_agenteval.finding import Finding, FindingKind
from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.model import Json, ModelCall, Trace, Usage


class LoopWork(NamedTuple):
    """The cost in US dollars of the model calls that were repeated in a loop of this kind."""

    kind: str
    usd: float


def loop_work_of(trace: Trace, findings: Iterable[Finding], usd: Callable[[ModelCall], float | None]) -> list[LoopWork]:
    """Return the cost of each alarming loop in a complete trace. Loops without a known price are left out.

    A loop costs the model calls after its first round, until the agent calls another tool. Calls made after the agent
    was told of the loop count as well. A call may be in loops of several kinds.
    """
    loops = [finding for finding in findings if finding.kind in LOOP_KINDS and finding.is_alarm]
    if not loops:
        return []
    calls = {call.span_id: call for call in trace.model_calls}
    steps = steps_of(trace)
    work = []
    for loop in loops:
        if loop.kind == FindingKind.REPEATED_ANSWER:
            repeated: Sequence[ModelCall] = trace.turns[loop.turn].model_calls if loop.turn is not None else ()
        else:
            mine = [step for step in steps if (step.agent or trace.agent) == loop.agent]
            repeated = [calls[step.span_id] for step in _repeated(loop, mine) if step.span_id in calls]
        costs = [cost for call in repeated if (cost := usd(call)) is not None]
        if costs:
            work.append(LoopWork(loop.kind, sum(costs)))
    return work


def _repeated(loop: Finding, steps: Sequence[Step]) -> Sequence[Step]:
    """Return the steps of the agent from the end of the loop's first round to the end of its last one."""
    positions = {step.span_id: position for position, step in enumerate(steps)}
    index = positions.get(loop.span_id or "")
    if index is None:
        return ()
    tools = _tools(loop.metadata.get("tools") or loop.metadata.get("tool"))
    of_loop = [position for position, step in enumerate(steps) if _is_of(step, tools)]
    first = _first_round(loop, tools, [position for position in of_loop if position <= index], positions)
    others = (position for position, step in enumerate(steps) if position > index and step.kind is StepKind.TOOL)
    broken = next((position for position in others if not _is_of(steps[position], tools)), len(steps))
    last = max((position for position in of_loop if position < broken), default=index)
    return [] if first is None else steps[first + 1 : last + 1]


def _first_round(loop: Finding, tools: frozenset[str], before: Sequence[int], positions: dict[str, int]) -> int | None:
    """Return the position of the last step of the first round; None if it is unknown."""
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
    """A model call. `tokens` are those that were recorded, by type: input (neither read from a cache nor written to
    it), cache_read, cache_write, output (without reasoning), reasoning, embedding. `usd` is None if its price or its
    tokens are not known. `agent` made the call; None: that of the trace."""

    model: str | None
    seconds: float
    tokens: Mapping[str, int]
    usd: float | None
    failed: bool
    agent: str | None = None
    span_id: str = ""
    operation: str = "chat"


class ToolWork(NamedTuple):
    """A tool call; `seconds` is None if its execution was not recorded. `agent` as in `ModelWork`. A call without a
    span is known by the id of the call."""

    tool: str
    seconds: float | None
    failed: bool
    agent: str | None = None
    span_id: str = ""


class TurnWork(NamedTuple):
    """A turn."""

    seconds: float
    failed: bool
    span_id: str = ""


@checked_dataclass(frozen=True, slots=True)
class AgentWork:
    """The measured work of an agent in one trace, as far as this revision tells; `trace_id` and `span_id` are an
    example of it. None: not recorded."""

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
    revision: int = 1


def unpriced(_: ModelCall) -> float | None:
    """Return None, where no price is known."""
    return None


def work_of(
    trace: Trace,
    usd: Callable[[ModelCall], float | None],
    findings: Sequence[Finding] = (),
    revision: int = 1,
    elsewhere: Collection[str] = (),
    embedding_usd: Callable[[ModelCall], float | None] = unpriced,
) -> AgentWork:
    """Measure the work in a trace with these findings, without the tool calls whose ids count `elsewhere`. `usd` prices
    a model call, `embedding_usd` a call of an embedding model; None if the price is unknown."""
    return AgentWork(
        agent=trace.agent,
        service=trace.service,
        version=trace.service_version,
        environment=trace.environment,
        trace_id=trace.trace_id,
        span_id=trace.turns[0].span_id if trace.turns else trace.root_span_id,
        models=[
            *(_model_work(call, usd(call)) for call in trace.model_calls),
            *(_embedding_work(call, embedding_usd(call)) for call in trace.embeddings),
        ],
        tools=[
            ToolWork(
                call.name,
                _seconds(call.started_at, call.ended_at),
                call.error is not None,
                call.agent,
                call.span_id or call.call_id or "",
            )
            for call in trace.tool_calls
            if call.call_id not in elsewhere
        ],
        turns=[
            TurnWork(
                max(0, turn.ended_at - turn.started_at) / 1e9,
                turn.error is not None and not turn.is_cancelled,
                turn.span_id or "",
            )
            for turn in trace.turns
            if not turn.is_orphan
        ],
        loops=loop_work_of(trace, findings, usd),
        revision=revision,
    )


def _model_work(call: ModelCall, usd: float | None) -> ModelWork:
    seconds = max(0, call.ended_at - call.started_at) / 1e9
    return ModelWork(
        call.model, seconds, _tokens(call.usage), usd, call.error is not None, call.agent, call.span_id or ""
    )


def _embedding_work(call: ModelCall, usd: float | None) -> ModelWork:
    tokens = call.usage.input_tokens if call.usage else None
    work = _model_work(call, usd)
    return work._replace(tokens={} if tokens is None else {"embedding": tokens}, operation="embeddings")


def _tokens(usage: Usage | None) -> dict[str, int]:
    """Return the tokens of a call by type, so that the sum over the types is what was sent and came back."""
    if usage is None:
        return {}
    reasoning = usage.reasoning_tokens or 0
    by_part = {
        "input": usage.fresh_input_tokens,
        "cache_read": usage.cache_read_tokens,
        "cache_write": usage.cache_write_tokens,
        "output": None if usage.output_tokens is None else max(0, usage.output_tokens - reasoning),
        "reasoning": usage.reasoning_tokens,
    }
    return {kind: count for kind, count in by_part.items() if count is not None}


def _seconds(started_at: int | None, ended_at: int | None) -> float | None:
    return None if started_at is None or ended_at is None else max(0, ended_at - started_at) / 1e9
