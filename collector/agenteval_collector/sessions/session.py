"""One session in memory, with its state, its scores and the window of its newest traces."""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from agenteval_collector.model.effort import NO_EFFORT
from agenteval_collector.model.sessions import Member, SessionState, SessionSums, Signals, StoredTrace
from agenteval_collector.sessions.upper_bound import BoundedScores, signals_of
from agenteval_collector.sessions.window import AnswerWindow, Place
from otel_agenteval.outcome import JudgedPart

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
    first_agent: tuple[Place, str] | None = None
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
        self.part = max((self.part, *(each.part for each in signals.values())), key=_PARTS.index)

    def met(self, agent: str | None, place: Place) -> None:
        """Note the outermost agent of the trace at `place`. The session keeps the agent that came first in time."""
        if agent is not None and (self.first_agent is None or place < self.first_agent[0]):
            self.first_agent = (place, agent)

    def settle(self) -> None:
        """Note that the next commit stores all changes."""
        self.window.trim()
        self.changed.clear()
        self.gone.clear()


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
        first_agent=first and (_place(first[0]), first[1]),
        part=sums["part"] and JudgedPart(sums["part"]),
    )


def added_up(state: SessionState, traces: Iterable[StoredTrace], weights: Mapping[str, float]) -> Session:
    """Restore a session from all its traces, in the order in which they started, with an empty window."""
    session = Session(state, BoundedScores(weights), AnswerWindow())
    effort, begins_at = NO_EFFORT, None
    for trace in traces:
        place = (trace.started_at, trace.trace_id)
        session.score(trace.trace_id, trace.signals, weights)
        effort += trace.effort
        begins_at = trace.started_at if begins_at is None else begins_at
        for evaluation in trace.signals.values():
            session.service_version = evaluation.service_version
            session.last_turn = (place, evaluation.span_id)
            session.met(evaluation.agent, place)
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
