"""One session in memory, with its state, its scores and the window of its newest traces."""

import json
import sys
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from agenteval_collector.evaluation.sessions.upper_bound import BoundedScores, signals_of
from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.effort import NO_EFFORT, Effort
from agenteval_collector.model.sessions import Member, SessionState, SessionSums, Signals
from agenteval_collector.model.turn_summary import TurnSummary
from otel_agenteval.finding import Seen
from otel_agenteval.metrics.loops import DEFAULT_WINDOW
from otel_agenteval.model import Trace
from otel_agenteval.outcome import JudgedPart

Place: TypeAlias = tuple[int, str]
"""The place of a trace among those of its session: its start in nanoseconds since the Unix epoch, and its id."""

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

    def reaches(self, position: Place) -> bool:
        """Return whether the window has all turns that are looked at before `position`."""
        return self._first is None or len(self.before(position)) == TURNS

    def before(self, position: Place) -> list[TurnSummary]:
        """Return the last `TURNS` turns before `position`, oldest first."""
        turns: list[TurnSummary] = []
        for member in reversed(self._members[: self._index(position)]):
            if member.trace_id == position[1]:
                continue  # The earlier revision of the same trace, with another start.
            turns[:0] = member.said
            if len(turns) >= TURNS:
                break
        return turns[-TURNS:]

    def after(self, position: Place) -> list[Member]:
        """Return the traces after `place` whose last `TURNS` turns reach back to it."""
        affected: list[Member] = []
        turns = 0
        for member in self._members[self._index(position) :]:
            if member.place == position:
                continue
            if turns >= TURNS:
                break
            affected.append(member)
            turns += len(member.said)
        return affected

    def _index(self, position: Place) -> int:
        return bisect_left(self._members, position, key=lambda member: member.place)


MAX_SERVICES: Final = 100
"""The most services, and the most versions, that are listed for one session.

An id that a thousand services share does not stand for a session.
"""

_SESSION_BYTES: Final = 4_000
"""Measured bytes of a session in memory, without its traces."""
_WINDOW_BYTES: Final = 12_000
"""Measured bytes of a trace in the window, with the answers that its turns are compared by."""
_TRACE_BYTES: Final = 16
"""Bytes of every trace for its risk: eight as the judge says, and eight with missing signals taken for perfect."""

# In rising order: a session has the last part that one of its signals has.
_PARTS: Final = (None, JudgedPart.RANDOM, JudgedPart.ESCALATED)


@dataclass(slots=True)
class Session:
    """One session in memory.

    `changed` has the traces that the store does not have in their current form. `gone` has the traces that have left
    the place where the store has them. `last_turn` is the turn that events of session scores are attached to.
    `first_agent` is the agent that the session is known by: the first by time, whichever trace arrived first. Each of
    the two stands beside the place of its trace. `part` says why the judge looks at the session.
    """

    state: SessionState
    scores: BoundedScores
    window: AnswerWindow
    service_version: str | None = None
    last_turn: tuple[Place, str | None] = ((0, ""), None)
    first_agent: tuple[Place, AgentKey] | None = None
    part: JudgedPart | None = None
    changed: dict[str, Member] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def weight(self) -> int:
        """Return the estimated bytes of memory that the session takes."""
        return _SESSION_BYTES + _WINDOW_BYTES * len(self.window) + _TRACE_BYTES * self.scores.traces

    def score(
        self, trace_id: str, signals: Signals, weights: Mapping[str, float], before: Signals | None = None
    ) -> None:
        """Count the signals of a trace. They replace the signals that were counted `before` for it."""
        known = None if before is None else signals_of(before, weights)
        self.scores.put(trace_id, signals_of(signals, weights), known)
        # Traces of one session rarely differ in their part: one of them came from another session. Then the escalated
        # part counts.
        self.part = max((self.part, *(signal.part for signal in signals.values())), key=_PARTS.index)

    def met(self, agent: AgentKey, position: Place) -> None:
        """Note the outermost agent of the trace at `position`. The session keeps the agent that came first in time."""
        if agent.agent is not None and (self.first_agent is None or position < self.first_agent[0]):
            self.first_agent = (position, agent)

    def settle(self) -> None:
        """Note that the next commit stores all changes."""
        self.window.trim()
        self.changed.clear()
        self.gone.clear()


def new_state(session_id: str, trace: Trace, received_at: int) -> SessionState:
    """Return the state of a session before its first trace is counted."""
    return SessionState(
        session_id=session_id,
        user_id=None,
        agent=None,
        services=(),
        started_at=trace.started_at,
        last_seen_at=received_at,
        trace_count=0,
    )


def state_with(
    state: SessionState,
    trace: Trace,
    *,
    agent: AgentKey | None,
    trace_count: int,
    received_at: int,
    effort: Effort,
    visibility: Seen,
    says_more: bool,
) -> SessionState:
    """Return the state of a session after a trace, or after a newer revision of one.

    `agent` is the session's, None if no trace names one. `effort` is what the trace takes more than its earlier
    revision, and `visibility` what could be seen of it. `says_more` is true if it says something that was not in that
    revision.
    """
    return replace(
        state,
        user_id=state.user_id or trace.user_id,
        agent=agent.agent if agent else state.agent,
        service=agent.service if agent else state.service or trace.service,
        services=_with(state.services, trace.service),
        versions=_with(state.versions, trace.service_version),
        environment=trace.environment or state.environment,
        started_at=min(state.started_at, trace.started_at),
        last_seen_at=max(state.last_seen_at, received_at),
        trace_count=trace_count,
        revision=state.revision + says_more,
        effort=state.effort + effort,
        is_blind=state.is_blind and visibility.is_blind,
        finalized_at=None,
        ended_at=None,
    )


def _with(names: Sequence[str], name: str | None) -> Sequence[str]:
    """Return the names and `name`. Leave it out if it is known or there is no room."""
    return names if name is None or name in names or len(names) >= MAX_SERVICES else [*names, name]


def put_down(session: Session, weights: Mapping[str, float]) -> SessionSums:
    """Return what is needed to go on with the session later, besides its state and its newest traces."""
    scores, risks = session.scores.save()
    sums = {
        "made_for": _made_for(weights),
        "scores": scores,
        "service_version": session.service_version,
        "last_turn": session.last_turn,
        "first_agent": session.first_agent,
        "part": session.part,
    }
    return SessionSums(sums=json.dumps(sums), risks=risks)


def taken_up(state: SessionState, stored: SessionSums, weights: Mapping[str, float]) -> Session | None:
    """Restore a session from what `put_down` returned, with an empty window.

    Return None if the sums were made with other weights, or by a machine with another byte order.
    """
    sums = json.loads(stored.sums)
    if sums["made_for"] != _made_for(weights):
        return None
    first, (last, span_id) = sums["first_agent"], sums["last_turn"]
    return Session(
        state,
        BoundedScores.restored(weights, sums["scores"], stored.risks),
        AnswerWindow(),
        service_version=sums["service_version"],
        last_turn=(_place(last), span_id),
        first_agent=first and (_place(first[0]), AgentKey(*first[1])),
        part=sums["part"] and JudgedPart(sums["part"]),
    )


def added_up(state: SessionState, traces: Iterable[Member], weights: Mapping[str, float]) -> Session:
    """Restore a session from all its traces, in the order in which they started, with an empty window."""
    session = Session(state, BoundedScores(weights), AnswerWindow())
    effort, begins_at = NO_EFFORT, None
    for trace in traces:
        session.score(trace.trace_id, trace.signals, weights)
        effort += trace.effort
        begins_at = trace.started_at if begins_at is None else begins_at
        for evaluation in trace.signals.values():
            session.service_version = evaluation.service_version
            session.last_turn = (trace.place, evaluation.span_id)
            session.met(AgentKey(evaluation.agent, evaluation.service), trace.place)
    count = session.scores.traces
    session.state = replace(
        state,
        trace_count=count,
        # Another count than the stored one means that traces have left or joined since.
        revision=state.revision + (count != state.trace_count),
        effort=effort,
        started_at=state.started_at if begins_at is None else begins_at,
    )
    return session


# The risks are stored as raw bytes, so they are good only for a machine of the same byte order.
def _made_for(weights: Mapping[str, float]) -> dict[str, Any]:
    return {"weights": dict(weights), "bytes": sys.byteorder}


def _place(decoded: list[Any]) -> Place:
    started_at, trace_id = decoded
    return started_at, trace_id
