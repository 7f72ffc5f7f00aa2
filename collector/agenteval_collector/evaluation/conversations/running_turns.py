"""Turns that go on from trace to trace. Some programs send a model only the results of its last calls."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import merge
from itertools import accumulate, islice, takewhile
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from agenteval_collector.model.commit import Commit
from agenteval_collector.model.trace_view import TraceView
from agenteval_collector.stores.session_turns import SessionTurns
from otel_agenteval.conventions.messages import ToolResponse
from otel_agenteval.conventions.tool_calls import answered
from otel_agenteval.model import ToolCall, Trace

MAX_TRACES: Final = 500
"""Traces of a session that are searched for those of one turn, in either direction."""

MAX_BEHIND: Final = 32
"""Traces that are looked at again because a trace before them came late."""

MAX_CALLS: Final = 100
"""The newest calls of a turn that are kept."""

MAX_CHARACTERS: Final = 50_000
"""Characters of the kept calls, arguments and results included."""

_Place: TypeAlias = tuple[int, str]
_LookUp: TypeAlias = Callable[[str, _Place], Sequence[TraceView]]


class RunningTurns:
    """Finds the traces of a turn in its session by the ids of its calls, in whatever order they have arrived.

    It has no state: everything is in the store and in the current commit.
    """

    def __init__(self, store: SessionTurns) -> None:
        self._store = store

    def joined(self, trace: Trace, session_id: str, commit: Commit) -> Trace:
        """Return the trace, told of the calls of earlier traces whose results it was sent without their requests.

        Calls that are not known are left out.
        """
        if not trace.results_alone:
            return trace
        earlier = self._before(session_id, (trace.started_at, trace.trace_id), commit)
        context = told_of(running_turn(map(part_in, earlier), trace.results_alone), trace.results_alone)
        return trace.told_of(context.calls, context.now)

    def behind(self, commit: Commit) -> dict[str, str]:
        """Return the traces that are told of other calls because of the traces of `commit`.

        The result has the session of each by its trace id.
        """
        targets: dict[str, str] = {}
        for trace_id, session_id in commit.overtaken:
            targets |= self._told_by(trace_id, _session(trace_id, session_id, commit), commit)
        for move in commit.moves.values():
            moved = self._known(move.trace_id, commit)
            if any(part_in(turn_part).results for turn_part in moved):
                targets[move.trace_id] = move.joined
            for session_id in (move.left, move.joined):
                targets |= self._told_by(move.trace_id, session_id, commit)
        return targets

    def _told_by(self, trace_id: str, session_id: str, commit: Commit) -> dict[str, str]:
        """Return the traces of a session that bring results of this trace's calls, directly or through other traces.

        All known revisions of the trace count.
        """
        revisions = self._known(trace_id, commit)
        waiting = {call_id for revision in revisions for call_id in part_in(revision).waiting}
        if not waiting:
            return {}
        targets: dict[str, str] = {}
        for view in self._after(session_id, min(view.place for view in revisions), commit):
            turn_part = part_in(view)
            if view.trace_id == trace_id or waiting.isdisjoint(turn_part.answers):
                continue
            targets[view.trace_id] = session_id
            # Its turn began earlier, so traces that answer its own calls belong to that turn, too.
            if not turn_part.begins:
                waiting |= turn_part.waiting
            if len(targets) == MAX_BEHIND:
                break
        return targets

    def _known(self, trace_id: str, commit: Commit) -> list[TraceView]:
        """Return the revisions of the trace that the store and the commit have."""
        stored = self._store.view(trace_id)
        newer = [trace.view for trace in commit.traces if trace.trace_id == trace_id]
        return newer if stored is None else [stored, *newer]

    def _before(self, session_id: str, position: _Place, commit: Commit) -> Iterator[TraceView]:
        """Yield the traces of the session before `place` as they are with the commit, the newest first."""
        newer = [revision for revision in self._newer(session_id, commit) if revision.place < position]
        newer.sort(key=_place_of, reverse=True)
        stored = _unchanged(self._store.going_on, session_id, position, commit)
        return islice(merge(newer, stored, key=_place_of, reverse=True), MAX_TRACES)

    def _after(self, session_id: str, position: _Place, commit: Commit) -> Iterator[TraceView]:
        """Yield the traces of the session after `place` as they are with the commit, the oldest first."""
        newer = sorted(
            (revision for revision in self._newer(session_id, commit) if revision.place > position), key=_place_of
        )
        stored = _unchanged(self._store.continuing, session_id, position, commit)
        return islice(merge(newer, stored, key=_place_of), MAX_TRACES)

    def _newer(self, session_id: str, commit: Commit) -> list[TraceView]:
        """Return the traces of the session that the commit writes, and the traces of the store that it moves there."""
        by_trace = {trace.trace_id: trace for trace in commit.traces}
        own = (
            revision
            for revision in by_trace.values()
            if _session(revision.trace_id, revision.session_id, commit) == session_id
        )
        joining = (move.trace_id for move in commit.moves.values() if move.joined == session_id)
        joined = (self._store.view(trace_id) for trace_id in joining if trace_id not in by_trace)
        return [*(revision.view for revision in own), *filter(None, joined)]


def _unchanged(look_up: _LookUp, session_id: str, position: _Place, commit: Commit) -> Iterator[TraceView]:
    """Yield the stored traces of the session that the commit does not change."""
    changed = {trace.trace_id for trace in commit.traces} | commit.moves.keys()
    while page := look_up(session_id, position):
        yield from (view for view in page if view.trace_id not in changed)
        position = page[-1].place


def _session(trace_id: str, session_id: str, commit: Commit) -> str:
    """Return the session that a trace is in after the commit. It was evaluated in `session_id`."""
    move = commit.moves.get(trace_id)
    return session_id if move is None else move.joined


_place_of = attrgetter("place")


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
        return {result.call_id for result in self.results}


def part_in(trace: TraceView) -> TurnPart:
    """Return the part of a trace in the turn that it ends with."""
    turns = trace.turns
    # The results came before the trace, all at the same time.
    before = trace.started_at - 2
    results = tuple(replace(result, started_at=before, ended_at=before + 1) for result in trace.results_alone)
    calls: tuple[ToolCall, ...] = ()
    if turns and trace.turn_goes_on:
        calls = tuple(_call(call, trace.started_at + 2 * at) for at, call in enumerate(turns[-1].tool_calls))
    waiting = frozenset(call.call_id for call in calls if call.call_id and _is_open(call))
    return TurnPart(calls, results, waiting, begins=not results or len(turns) > 1)


def running_turn(earlier: Iterable[TurnPart], results: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Return the newest calls of the turn that `results` belong to, oldest first.

    `earlier` are the parts of earlier traces of the session, the newest first. They are read no further than needed.
    """
    chain: list[TurnPart] = []
    wanted = {result.call_id for result in results}
    count = 0
    for turn_part in earlier:
        if wanted.isdisjoint(turn_part.waiting):
            continue
        chain.append(turn_part)
        count += len(turn_part.calls)
        if turn_part.begins or count >= MAX_CALLS:
            break
        wanted = turn_part.answers
    running: list[ToolCall] = []
    for turn_part in reversed(chain):
        completed = {running[at].call_id for at in _complete(running, turn_part.results)}
        # A call that an earlier trace asked for may have been executed in this trace: it is not listed twice.
        running += (call for call in turn_part.calls if _is_open(call) or call.call_id not in completed)
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
    told = tuple(replace(call, span_id=None, agent=one.agent, agent_run=one.agent_run) for call in calls)
    return Told(told, len(told) - min(completed))


def newest(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Return the last calls, within `MAX_CALLS` and `MAX_CHARACTERS`."""
    sizes = accumulate(_size(call) for call in reversed(calls[-MAX_CALLS:]))
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
    return sum(len(repr(text)) for text in (call.name, call.call_id, call.arguments, call.result, call.error))


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
