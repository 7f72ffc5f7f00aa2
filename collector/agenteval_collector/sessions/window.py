"""The newest traces of a session, in the order in which they started."""

from bisect import bisect_left, insort

from agenteval_collector.model.sessions import Member
from agenteval_collector.model.turn_summary import TurnSummary
from otel_agenteval.metrics.loops import DEFAULT_WINDOW

TURNS = DEFAULT_WINDOW + 1
"""Turns before a trace that are looked at: those that its answer is compared with, and one more for the answer before
it."""

KEPT = 16
"""Traces that are remembered, beside those that are not in the store yet."""


class AnswerWindow:
    """Finds the turns before a trace, and the traces that one affects, whatever order they arrive in."""

    def __init__(self) -> None:
        self._members: list[Member] = []
        self._cut = False

    def __len__(self) -> int:
        return len(self._members)

    def put(self, member: Member) -> None:
        """Insert a trace, or replace it."""
        self._members = [other for other in self._members if other.trace_id != member.trace_id]
        insort(self._members, member, key=lambda other: other.place)

    def trim(self) -> None:
        """Forget all but the newest `KEPT`, once the store has the others."""
        self._cut = self._cut or len(self._members) > KEPT
        del self._members[:-KEPT]

    def cut(self) -> None:
        """Note that there are earlier traces than those that were put."""
        self._cut = True

    def find(self, trace_id: str) -> Member | None:
        """Return the trace, if it is here."""
        return next((member for member in self._members if member.trace_id == trace_id), None)

    def reaches(self, place: tuple[int, str]) -> bool:
        """Return whether all turns that count before `place` are here."""
        return not self._cut or len(self.before(place)) == TURNS

    def before(self, place: tuple[int, str]) -> list[TurnSummary]:
        """Return the last `TURNS` turns before `place`, oldest first."""
        said: list[TurnSummary] = []
        for member in reversed(self._members[: self._index(place)]):
            if member.trace_id == place[1]:
                continue  # Its earlier revision, which started later.
            said[:0] = member.said
            if len(said) >= TURNS:
                break
        return said[-TURNS:]

    def after(self, place: tuple[int, str]) -> list[Member]:
        """Return the traces after `place` whose last `TURNS` turns reach back to it."""
        affected: list[Member] = []
        turns = 0
        for member in self._members[self._index(place) :]:
            if member.place == place:
                continue
            if turns >= TURNS:
                break
            affected.append(member)
            turns += len(member.said)
        return affected

    def _index(self, place: tuple[int, str]) -> int:
        return bisect_left(self._members, place, key=lambda member: member.place)
