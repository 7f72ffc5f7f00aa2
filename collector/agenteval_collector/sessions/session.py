"""One session in memory: its record, its scores and the window of its newest traces."""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from agenteval_collector.model.effort import NO_EFFORT
from agenteval_collector.model.sessions import Member, SessionRecord, SessionSums, Signals, StoredTrace
from agenteval_collector.sessions.upper_bound import BoundedScores, signals_of
from agenteval_collector.sessions.window import AnswerWindow, Place
from otel_agenteval.outcome import JudgedPart

_SESSION_BYTES: Final = 4_000
"""A session in memory, without its traces: measured."""
_WINDOW_BYTES: Final = 12_000
"""A trace in the window, with what its turns are compared by: measured."""
_TRACE_BYTES: Final = 16
"""Every other trace: its risk, once as the judge says and once at best."""

_PARTS: Final = (None, JudgedPart.RANDOM, JudgedPart.ESCALATED)


@dataclass(slots=True)
class Session:
    """One session in memory.

    `changed` are the traces that the store does not have yet as they are now, `gone` those that do not stand any more
    where it has them. `last_turn` is where events of session scores are attached, `first_agent` the one that the
    session is known by: the first by time, whichever trace arrived first. Both with the place of their trace. `part`
    says why the judge looks at it.
    """

    record: SessionRecord
    scores: BoundedScores
    window: AnswerWindow
    service_version: str | None = None
    last_turn: tuple[Place, str | None] = ((0, ""), None)
    first_agent: tuple[Place, str] | None = None
    part: JudgedPart | None = None
    changed: dict[str, Member] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def weight(self) -> int:
        """Return the bytes that it takes, estimated."""
        return _SESSION_BYTES + _WINDOW_BYTES * len(self.window) + _TRACE_BYTES * self.scores.traces

    def score(
        self, trace_id: str, signals: Signals, weights: Mapping[str, float], before: Signals | None = None
    ) -> None:
        """Count the signals of a trace, in place of those that were counted `before`."""
        known = None if before is None else signals_of(before, weights)
        self.scores.put(trace_id, signals_of(signals, weights), known)
        # A trace of another part is rare, and came from another session: then the escalated part counts.
        self.part = max((self.part, *(each.part for each in signals.values())), key=_PARTS.index)

    def met(self, agent: str | None, place: Place) -> None:
        """Note the outermost agent of the trace at `place`."""
        if agent is not None and (self.first_agent is None or place < self.first_agent[0]):
            self.first_agent = (place, agent)

    def settle(self) -> None:
        """Note that the store is about to have all that has changed."""
        self.window.trim()
        self.changed.clear()
        self.gone.clear()


def put_down(session: Session, weights: Mapping[str, float]) -> SessionSums:
    """Return what is needed to go on with the session, beside its record and its newest traces."""
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


def taken_up(record: SessionRecord, stored: SessionSums, weights: Mapping[str, float]) -> Session | None:
    """Make a session again of what `put_down` returned, with nothing in its window; None where that was made with other
    weights or by another kind of machine."""
    sums = json.loads(stored.sums)
    if sums["made_for"] != _made_for(weights):
        return None
    first, (last, span_id) = sums["first_agent"], sums["last_turn"]
    return Session(
        record,
        BoundedScores.restored(weights, sums["scores"], stored.risks),
        AnswerWindow(),
        service_version=sums["service_version"],
        last_turn=(_place(last), span_id),
        first_agent=first and (_place(first[0]), first[1]),
        part=sums["part"] and JudgedPart(sums["part"]),
    )


def added_up(record: SessionRecord, traces: Iterable[StoredTrace], weights: Mapping[str, float]) -> Session:
    """Make a session again of all its traces, by start."""
    session = Session(record, BoundedScores(weights), AnswerWindow())
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
    session.record = replace(
        record,
        trace_count=count,
        # Traces have left or joined it since it was stored.
        revision=record.revision + (count != record.trace_count),
        effort=effort,
        started_at=record.started_at if begins_at is None else begins_at,
    )
    return session


def _made_for(weights: Mapping[str, float]) -> dict[str, Any]:
    return {"weights": dict(weights), "bytes": sys.byteorder}


def _place(decoded: list[Any]) -> Place:
    started_at, trace_id = decoded
    return started_at, trace_id
