"""A window on the newest traces of a session, in the order in which they started."""

from bisect import bisect_left, insort
from typing import TypeAlias

from agenteval_collector.model.sessions import Member
from agenteval_collector.model.turn_summary import TurnSummary
from otel_agenteval.metrics.loops import DEFAULT_WINDOW

Place: TypeAlias = tuple[int, str]
"""The place of a trace among those of its session: its start and its id."""

TURNS = DEFAULT_WINDOW + 1
"""Turns before a trace that are looked at.

They are the turns that its answer is compared with, and one more for the answer before it.
"""

TRACES_KEPT = 16
"""Traces that are remembered, besides those that are not in the store yet."""


class AnswerWindow:
    """Finds the turns before a trace, and the traces that a trace affects, in whatever order they arrive.

    It has all traces of the session from the place `first` on, or all if `first` is None. Earlier traces are not put.
    """

    def __init__(self, first: Place | None = None) -> None:
        self._members: list[Member] = []
        self._first = first

    def __len__(self) -> int:
        return len(self._members)

    def put(self, member: Member) -> None:
        """Insert a trace, or replace an earlier revision of it."""
        # The earlier revision may have another place.
        self.remove(member.trace_id)
        if self._first is None or member.place >= self._first:
            insort(self._members, member, key=lambda other: other.place)

    def remove(self, trace_id: str) -> None:
        """Remove a trace if it is in the window."""
        self._members = [member for member in self._members if member.trace_id != trace_id]

    def trim(self) -> None:
        """Forget all traces but the newest `TRACES_KEPT`. The store must have the others by then."""
        if len(self._members) > TRACES_KEPT:
            del self._members[:-TRACES_KEPT]
            self._first = self._members[0].place

    def find(self, trace_id: str) -> Member | None:
        """Return the trace if it is in the window."""
        return next((member for member in self._members if member.trace_id == trace_id), None)

    def reaches(self, place: Place) -> bool:
        """Return whether the window has all turns that are looked at before `place`."""
        return self._first is None or len(self.before(place)) == TURNS

    def before(self, place: Place) -> list[TurnSummary]:
        """Return the last `TURNS` turns before `place`, oldest first."""
        said: list[TurnSummary] = []
        for member in reversed(self._members[: self._index(place)]):
            if member.trace_id == place[1]:
                continue  # The earlier revision of the same trace, with another start.
            said[:0] = member.said
            if len(said) >= TURNS:
                break
        return said[-TURNS:]

    def after(self, place: Place) -> list[Member]:
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

    def _index(self, place: Place) -> int:
        return bisect_left(self._members, place, key=lambda member: member.place)
