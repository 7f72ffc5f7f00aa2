"""Turns that go on from trace to trace, put together from their traces. All functions are pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, takewhile
from typing import Final, NamedTuple

from agenteval_collector.model.trace_view import TraceView
from otel_agenteval.conventions.messages import ToolResponse
from otel_agenteval.conventions.tool_calls import answered
from otel_agenteval.model import ToolCall

MAX_CALLS: Final = 100
"""The newest calls of a turn that are kept."""

MAX_CHARACTERS: Final = 50_000
"""Characters of the kept calls, arguments and results included."""


class Told(NamedTuple):
    """Calls of earlier traces, as in `Trace.told`.

    The results of the last `now` calls are new: no earlier model call was told of them.
    """

    calls: tuple[ToolCall, ...] = ()
    now: int = 0


class TurnPart(NamedTuple):
    """The part of a trace in the turn that it ends with.

    `results` are results of earlier calls that the trace was sent without their requests. `waiting` has the ids of its
    own calls whose results a later trace may bring. `begins` is true if no earlier trace is known to belong to the
    turn.
    """

    calls: tuple[ToolCall, ...]
    results: tuple[ToolCall, ...]
    waiting: frozenset[str]
    begins: bool

    @property
    def answers(self) -> set[str | None]:
        """The ids of the calls that the results belong to."""
        return {each.call_id for each in self.results}


def part_in(trace: TraceView) -> TurnPart:
    """Return the part of a trace in the turn that it ends with."""
    turns = trace.turns
    # The results came before the trace, all at the same time.
    before = trace.started_at - 2
    results = tuple(replace(each, started_at=before, ended_at=before + 1) for each in trace.results_alone)
    calls: tuple[ToolCall, ...] = ()
    if turns and trace.turn_goes_on:
        calls = tuple(_call(each, trace.started_at + 2 * at) for at, each in enumerate(turns[-1].tool_calls))
    waiting = frozenset(each.call_id for each in calls if each.call_id and _is_open(each))
    return TurnPart(calls, results, waiting, begins=not results or len(turns) > 1)


def running_turn(earlier: Iterable[TurnPart], results: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Return the newest calls of the turn that `results` belong to, oldest first.

    `earlier` are the parts of earlier traces of the session, the newest first. They are read no further than needed.
    """
    chain: list[TurnPart] = []
    wanted = {each.call_id for each in results}
    count = 0
    for part in earlier:
        if wanted.isdisjoint(part.waiting):
            continue
        chain.append(part)
        count += len(part.calls)
        if part.begins or count >= MAX_CALLS:
            break
        wanted = part.answers
    running: list[ToolCall] = []
    for part in reversed(chain):
        completed = {running[at].call_id for at in _complete(running, part.results)}
        # A call that an earlier trace asked for may have been executed in this trace: it is not listed twice.
        running += (each for each in part.calls if _is_open(each) or each.call_id not in completed)
    return newest(running)


def told_of(running: Sequence[ToolCall], results: Sequence[ToolCall]) -> Told:
    """Return the calls of a `running` turn, oldest first, completed with `results`.

    The results were sent without their requests. Each completes the last call of its id, if that has no result yet.
    """
    calls = list(running)
    completed = _complete(calls, results)
    if not completed:
        return Told()
    # The calls are compared with the steps of this trace, so they get its agent and agent run, whichever run asked.
    one = results[0]
    told = tuple(replace(each, span_id=None, agent=one.agent, agent_run=one.agent_run) for each in calls)
    return Told(told, len(told) - min(completed))


def newest(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Return the last calls, within `MAX_CALLS` and `MAX_CHARACTERS`."""
    sizes = accumulate(_size(each) for each in reversed(calls[-MAX_CALLS:]))
    count = sum(1 for _ in takewhile(lambda size: size <= MAX_CHARACTERS, sizes))
    return tuple(calls[len(calls) - count :])


def _complete(calls: list[ToolCall], results: Sequence[ToolCall]) -> set[int]:
    """Give the calls their results. Return the places of the calls that had none before."""
    completed: set[int] = set()
    for result in results:
        # Searched from the end, because the waiting calls are there.
        places = (at for at in reversed(range(len(calls))) if calls[at].call_id == result.call_id)
        at = next(places, None) if result.call_id else None
        if at is None or not _is_open(calls[at]):
            continue
        # An error that was read from the result's text does not count here: the tool decides, and is known only now.
        failed = result.error is not None and not result.is_error_read
        call = replace(calls[at], started_at=result.started_at, ended_at=result.ended_at)
        calls[at] = answered(call, ToolResponse(result=result.result, failed=failed))
        completed.add(at)
    return completed


def _size(call: ToolCall) -> int:
    return sum(len(repr(part)) for part in (call.name, call.call_id, call.arguments, call.result, call.error))


def _is_open(call: ToolCall) -> bool:
    return call.result is None and call.error is None


def _call(call: ToolCall, time: int) -> ToolCall:
    # Only the fields that the store has, so that a view of the commit and one of the store give the same call.
    return ToolCall(
        name=call.name,
        arguments=call.arguments,
        result=call.result,
        error=call.error,
        call_id=call.call_id,
        started_at=time,
        ended_at=time + 1,
    )
