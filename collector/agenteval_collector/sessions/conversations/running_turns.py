"""Turns that go on from trace to trace. Some programs send a model only the results of its last calls."""

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Final, TypeAlias

from agenteval_collector.model.commit import Commit
from agenteval_collector.model.trace_view import TraceView
from agenteval_collector.sessions.conversations.ports import TurnStore
from agenteval_collector.sessions.conversations.turn_parts import part_in, running_turn, told_of
from otel_agenteval.model import Trace

MAX_TRACES: Final = 500
"""Traces of a session that are searched for those of one turn, in either direction."""

MAX_BEHIND: Final = 32
"""Traces that are looked at again because a trace before them came late."""

_Place: TypeAlias = tuple[int, str]
_LookUp: TypeAlias = Callable[[str, _Place], Sequence[TraceView]]


class RunningTurns:
    """Finds the traces of a turn in its session by the ids of its calls, in whatever order they have arrived.

    It has no state: everything is in the store and in the current commit.
    """

    def __init__(self, store: TurnStore) -> None:
        self._store = store

    def joined(self, trace: Trace, session_id: str, commit: Commit) -> Trace:
        """Return the trace, told of the calls of earlier traces whose results it was sent without their requests.

        Calls that are not known are left out.
        """
        if not trace.results_alone:
            return trace
        earlier = self._before(session_id, (trace.started_at, trace.trace_id), commit)
        told = told_of(running_turn(map(part_in, earlier), trace.results_alone), trace.results_alone)
        return trace.told_of(told.calls, told.now)

    def behind(self, commit: Commit) -> dict[str, str]:
        """Return the traces that are told of other calls because of the traces of `commit`.

        The result has the session of each by its trace id.
        """
        found: dict[str, str] = {}
        for trace_id, session_id in commit.overtaken:
            found |= self._told_by(trace_id, _session(trace_id, session_id, commit), commit)
        for move in commit.moves.values():
            moved = self._known(move.trace_id, commit)
            if any(part_in(each).results for each in moved):
                found[move.trace_id] = move.joined
            for session_id in (move.left, move.joined):
                found |= self._told_by(move.trace_id, session_id, commit)
        return found

    def _told_by(self, trace_id: str, session_id: str, commit: Commit) -> dict[str, str]:
        """Return the traces of a session that bring results of this trace's calls, directly or through other traces.

        All known revisions of the trace count.
        """
        revisions = self._known(trace_id, commit)
        waiting = {call_id for each in revisions for call_id in part_in(each).waiting}
        if not waiting:
            return {}
        found: dict[str, str] = {}
        for each in self._after(session_id, min(each.place for each in revisions), commit):
            part = part_in(each)
            if each.trace_id == trace_id or waiting.isdisjoint(part.answers):
                continue
            found[each.trace_id] = session_id
            # Its turn began earlier, so traces that answer its own calls belong to that turn, too.
            if not part.begins:
                waiting |= part.waiting
            if len(found) == MAX_BEHIND:
                break
        return found

    def _known(self, trace_id: str, commit: Commit) -> list[TraceView]:
        """Return the revisions of the trace that the store and the commit have."""
        stored = self._store.view(trace_id)
        newer = [each.view for each in commit.traces if each.trace_id == trace_id]
        return newer if stored is None else [stored, *newer]

    def _before(self, session_id: str, place: _Place, commit: Commit) -> Iterator[TraceView]:
        """Yield the traces of the session before `place` as they are with the commit, the newest first."""
        newer = [each for each in self._newer(session_id, commit) if each.place < place]
        newer.sort(key=_place_of, reverse=True)
        stored = _unchanged(self._store.going_on, session_id, place, commit)
        return islice(merge(newer, stored, key=_place_of, reverse=True), MAX_TRACES)

    def _after(self, session_id: str, place: _Place, commit: Commit) -> Iterator[TraceView]:
        """Yield the traces of the session after `place` as they are with the commit, the oldest first."""
        newer = sorted((each for each in self._newer(session_id, commit) if each.place > place), key=_place_of)
        stored = _unchanged(self._store.continuing, session_id, place, commit)
        return islice(merge(newer, stored, key=_place_of), MAX_TRACES)

    def _newer(self, session_id: str, commit: Commit) -> list[TraceView]:
        """Return the traces of the session that the commit writes, and the traces of the store that it moves there."""
        written = {each.trace_id: each for each in commit.traces}
        own = (each for each in written.values() if _session(each.trace_id, each.session_id, commit) == session_id)
        joining = (each.trace_id for each in commit.moves.values() if each.joined == session_id)
        joined = (self._store.view(each) for each in joining if each not in written)
        return [*(each.view for each in own), *filter(None, joined)]


def _unchanged(look_up: _LookUp, session_id: str, place: _Place, commit: Commit) -> Iterator[TraceView]:
    """Yield the stored traces of the session that the commit does not change."""
    changed = {each.trace_id for each in commit.traces} | commit.moves.keys()
    while page := look_up(session_id, place):
        yield from (each for each in page if each.trace_id not in changed)
        place = page[-1].place


def _session(trace_id: str, session_id: str, commit: Commit) -> str:
    """Return the session that a trace is in after the commit. It was evaluated in `session_id`."""
    move = commit.moves.get(trace_id)
    return session_id if move is None else move.joined


_place_of = attrgetter("place")
