"""Calls of turns that go on from trace to trace, for programs that send a model the results of its last calls alone."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, takewhile
from typing import Final, NamedTuple

from agenteval_collector.runtime.lru import Recent
from otel_agenteval.conventions.messages import ToolResponse
from otel_agenteval.conventions.tools import answered
from otel_agenteval.model import ToolCall, Trace

MAX_WAITING: Final = 1_000
"""Calls that wait for their results: with what is kept of each turn, 50 MB of text at most."""

MAX_CALLS: Final = 100
"""Calls that are kept of a turn, the newest."""

MAX_CHARACTERS: Final = 50_000
"""Characters of these that are kept, as of arguments and results."""


class Told(NamedTuple):
    """Calls of earlier traces as in `Trace.told`; no earlier model call was told of the last `now` of them."""

    calls: tuple[ToolCall, ...] = ()
    now: int = 0


class RunningTurns:
    """Knows the calls that ended a trace without their results, each with those of its turn before it.

    Kept in memory: after a restart, and of a trace that is read before the one it goes on from, nothing is known.
    """

    def __init__(self) -> None:
        self._waiting: Recent[tuple[ToolCall, ...]] = Recent(MAX_WAITING)

    def joined(self, trace: Trace, session_id: str) -> Trace:
        """The trace, told of the calls of its session whose results it was sent alone, where they are known."""
        calls = (self._waiting.get(_key(session_id, each)) for each in trace.results_alone)
        told = told_of(next(filter(None, calls), ()), trace.results_alone)
        if trace.turn_goes_on:
            before = told.calls if len(trace.turns) == 1 else ()
            own = newest(trace.turns[-1].tool_calls)
            running = newest((*before, *own))
            for call in own:
                if call.call_id and call.result is None and call.error is None:
                    self._waiting.put(_key(session_id, call), running)
        return replace(trace, told=told.calls, told_now=told.now) if told.calls else trace


def told_of(running: Sequence[ToolCall], results: Sequence[ToolCall]) -> Told:
    """The calls of a `running` turn, oldest first, with `results` that were sent without their requests.

    Each result completes the last call of its id, and only one without a result.
    """
    places = {call.call_id: at for at, call in enumerate(running) if call.call_id}
    given: dict[int, ToolCall] = {}
    for each in results:
        at = places.get(each.call_id or "")
        if at is not None and running[at].result is None and running[at].error is None:
            given.setdefault(at, each)
    if not given:
        return Told()
    # Whichever run of the agent asked: it is the same turn, and is compared with the steps of this trace.
    one = results[0]
    calls = [replace(each, span_id=None, agent=one.agent, run=one.run) for each in running]
    for at, result in given.items():
        # Whether a result tells of an error depends on the tool too, which was not known when it was read.
        failed = result.error is not None and not result.is_error_read
        call = replace(calls[at], started_at=result.started_at, ended_at=result.ended_at)
        calls[at] = answered(call, ToolResponse(result=result.result, failed=failed))
    return Told(tuple(calls), len(calls) - min(given))


def newest(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """The last of the calls, as many as are kept."""
    sizes = accumulate(_size(each) for each in reversed(calls[-MAX_CALLS:]))
    count = sum(1 for _ in takewhile(lambda size: size <= MAX_CHARACTERS, sizes))
    return tuple(calls[len(calls) - count :])


def _size(call: ToolCall) -> int:
    return sum(len(repr(part)) for part in (call.name, call.call_id, call.arguments, call.result, call.error))


def _key(session_id: str, call: ToolCall) -> str:
    return f"{session_id}\0{call.call_id}"
