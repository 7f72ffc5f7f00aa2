"""Sessions whose traces are arriving: their windows of answers and their scores, current after every trace."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agenteval_collector.model.effort import NO_EFFORT, Effort
from agenteval_collector.model.sessions import Member, SessionRecord, SessionUpdate, Signals, StoredSession, StoredTrace
from agenteval_collector.model.turn_summary import TurnSummary, said_in
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.sessions.endings import Endings
from agenteval_collector.sessions.live import LiveSessions
from agenteval_collector.sessions.ports import SessionStore
from agenteval_collector.sessions.scores import SessionEvaluators
from agenteval_collector.sessions.signals import signals_of
from agenteval_collector.sessions.upper_bound import BoundedScores
from agenteval_collector.sessions.window import AnswerWindow
from otel_agenteval.finding import Seen
from otel_agenteval.lru import Recent
from otel_agenteval.metrics import SIGNAL_NAMES, LoopText
from otel_agenteval.metrics.signals import merge_weights
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Evaluation, Part

_SESSION_BYTES: Final = 4_000
"""A session in memory, without its traces: measured."""
_TRACE_BYTES: Final = 12_000
"""A trace of a session in memory, with what its turns are compared by: measured."""

MEMBERS: Final = 2048
"""Traces that came last, of all sessions: those that come out of order mostly stand beside these."""

MAX_SERVICES = 100
"""Services, and versions, that are listed of one session. An id that a thousand services share is no session."""


_PARTS: Final = (None, Part.RANDOM, Part.ESCALATED)


@dataclass(slots=True)
class _Session:
    """One session in memory.

    `last_turn` is where events of session scores are attached, `first_agent` the one that the session is known by:
    the first by time, whichever trace arrived first. Both with the place of their trace. `part` says why the
    judge looks at it.
    """

    record: SessionRecord
    scores: BoundedScores
    window: AnswerWindow
    service_version: str | None = None
    last_turn: tuple[tuple[int, str], str | None] = ((0, ""), None)
    first_agent: tuple[tuple[int, str], str] | None = None
    part: Part | None = None

    def weight(self) -> int:
        """Return the bytes that it takes, estimated."""
        return _SESSION_BYTES + _TRACE_BYTES * len(self.window)

    def put(self, trace_id: str, signals: Signals, weights: Mapping[str, float]) -> None:
        """Insert the signals of a trace, or replace them."""
        self.scores.put(trace_id, signals_of(signals, weights))
        # A trace of another part is rare, and came from another session: then the escalated part counts.
        self.part = max((self.part, *(each.part for each in signals.values())), key=_PARTS.index)

    def met(self, agent: str | None, place: tuple[int, str]) -> None:
        """Note the outermost agent of the trace at `place`."""
        if agent is not None and (self.first_agent is None or place < self.first_agent[0]):
            self.first_agent = (place, agent)


class Sessions:
    """The sessions in memory, with their scores. Owned by the thread that evaluates.

    `answer` makes an output ready for comparison, as the evaluators do. `weights` go over the published ones. `hold` is
    how many seconds traces may be on the way when their session is reported ended. `max_bytes` is what all of them may
    take in memory: the one that was quiet for longest is read from the store again when it goes on.
    """

    def __init__(
        self,
        store: SessionStore,
        live: LiveSessions,
        evaluators: SessionEvaluators,
        answer: Callable[[str | None], LoopText | None],
        clock: Clock,
        weights: Mapping[str, float],
        hold: float,
        max_bytes: int,
    ) -> None:
        self._store = store
        self._live = live
        self._endings = Endings(hold)
        self._evaluators = evaluators
        self._answer = answer
        self._clock = clock
        self._weights = merge_weights(weights)
        self._sessions: Recent[str, _Session] = Recent(max_bytes, _Session.weight)
        self._changed: dict[str, _Session] = {}
        self._members: Recent[str, Member] = Recent(MEMBERS)
        # The window around a place far back that was looked at last: until the next trace it is looked at again.
        self._far: tuple[str, tuple[int, str], AnswerWindow] | None = None
        # The session that was looked for last and is not stored: its first trace is between `previous` and `put`.
        self._absent: str | None = None

    def previous(self, session_id: str, place: tuple[int, str]) -> list[TurnSummary]:
        """Return the last turns of the session before `place`, oldest first."""
        self._far = None
        session = self._open(session_id)
        return self._window(session, place).before(place) if session else []

    def followers(
        self, session_id: str, places: Sequence[tuple[int, str]], trace: Member | None
    ) -> list[tuple[Member, list[TurnSummary]]]:
        """Return the traces of the session whose windows reach back to one of `places`, each with the turns before it.

        `trace` is the one that was put last; None where one has left.
        """
        session = self._open(session_id)
        found: dict[str, tuple[Member, list[TurnSummary]]] = {}
        if session is None:
            return []
        for place in places:
            window = self._window(session, place)
            if trace is not None and window is not session.window:
                window.put(trace)
            for member in window.after(place):
                if trace is None or member.trace_id != trace.trace_id:
                    found[member.trace_id] = (member, window.before(member.place))
        return list(found.values())

    def put(
        self,
        session_id: str,
        trace: Trace,
        member: Member,
        received_at: int,
        effort: Effort,
        seen: Seen,
        *,
        says_more: bool,
    ) -> SessionRecord:
        """Add a trace to its session, or replace it by its newer revision; `updates` gives what comes of it. Returns
        the session then, last seen when the newest of its traces was received.

        `effort` is what the trace takes more than its earlier revision there, `seen` what could be seen of it.
        `says_more`: something was said in it that was not in that revision.
        """
        session = self._open(session_id)
        if session is None:
            session = _Session(
                _new_record(session_id, trace, received_at), BoundedScores(self._weights), AnswerWindow()
            )
            self._absent = None
        session.window.put(member)
        self._members.put(member.trace_id, member)
        self._sessions.put(session_id, session)
        session.put(member.trace_id, member.signals, self._weights)
        session.met(trace.agent, member.place)
        record = session.record
        session.record = replace(
            record,
            user_id=record.user_id or trace.user_id,
            agent=session.first_agent[1] if session.first_agent else record.agent,
            services=_with(record.services, trace.service),
            versions=_with(record.versions, trace.service_version),
            environment=trace.environment or record.environment,
            started_at=min(record.started_at, trace.started_at),
            last_seen_at=max(record.last_seen_at, received_at),
            trace_count=session.scores.traces,
            revision=record.revision + says_more,
            effort=record.effort + effort,
            is_blind=record.is_blind and seen.is_blind,
            finalized_at=None,
            ended_at=None,
        )
        session.service_version = trace.service_version or session.service_version
        span_id = trace.turns[-1].span_id if trace.turns else trace.root_span_id
        session.last_turn = max(session.last_turn, (member.place, span_id), key=lambda turn: turn[0])
        self._changed[session_id] = session
        return session.record

    def found_unusual(self, session_id: str) -> None:
        """Note that the session was found to take more than usual."""
        session = self._open(session_id)
        if session is not None:
            session.record = replace(session.record, is_unusual=True)

    def rescore(self, session_id: str, member: Member) -> None:
        """Replace the signals of a member that `followers` gave. `updates` returns the result."""
        session = self._open(session_id)
        if session is not None:
            session.put(member.trace_id, member.signals, self._weights)
            self._changed[session_id] = session

    def updates(self) -> list[SessionUpdate]:
        """Return the sessions that have changed since the last call, each scored once, however many of its traces
        came."""
        changed, self._changed, self._far = self._changed, {}, None
        for session in changed.values():
            session.window.trim()
        # More of a session may be on the way when it is scored late: it is quiet from now on, not since the receipt.
        return [self._update(session, seen=self._clock.monotonic()) for session in changed.values()]

    def judged(
        self, session_id: str, place: tuple[int, str], evaluations: Sequence[Evaluation]
    ) -> SessionUpdate | None:
        """Take over the judge's answer on the trace at `place`, and return the session then. None where nothing of it
        is a signal, and where the trace is in no session."""
        signals = {each.name: each for each in evaluations if each.name in SIGNAL_NAMES}
        session = self._open(session_id) if signals else None
        member = self._window(session, place).find(place[1]) if session else None
        if session is None or member is None:
            return None
        member.signals.update(signals)
        session.put(member.trace_id, member.signals, self._weights)
        return self._update(session, revive=False)

    def reload(self, session_id: str) -> SessionUpdate | None:
        """Read a session again that a trace has left; None where no trace is left in it."""
        self._sessions.pop(session_id)
        self._changed.pop(session_id, None)
        self._live.forget(session_id)
        session = self._open(session_id)
        return self._update(session) if session and session.scores.traces else None

    def forget(self, session_id: str) -> None:
        """Forget a session that was deleted: what comes of it begins it anew."""
        self._sessions.pop(session_id)
        self._changed.pop(session_id, None)
        self._live.forget(session_id)
        self._endings.forget(session_id)
        self._absent = None

    def forget_all(self) -> None:
        """Read every session from the store again when it goes on, because memory may be ahead of the store."""
        self._sessions.clear()
        self._changed.clear()
        self._members.clear()
        self._far = self._absent = None

    def over(self, *, closing: bool = False) -> list[str]:
        """Return the sessions that have become idle or ended since the last call. `closing`: nothing more will come,
        so every reported end holds."""
        now = self._clock.monotonic()
        return [*self._endings.over(math.inf if closing else now), *self._live.idle(now)]

    def end(self, session_id: str) -> None:
        """Note that the session was reported ended: it is not active any more, until a trace comes that is new."""
        self._live.forget(session_id)
        self._endings.put(session_id, self._clock.monotonic())

    def ending(self, session_id: str) -> bool:
        """Return whether the session was reported ended, so that what comes now was on the way."""
        return session_id in self._endings

    def _update(self, session: _Session, *, revive: bool = True, seen: float | None = None) -> SessionUpdate:
        """Return the session's scores now. Without `revive` a session that was over stays over. `seen` is the monotonic
        time since when it is quiet, by default the receipt of its newest trace."""
        (_, trace_id), span_id = session.last_turn
        evaluations = self._evaluators.evaluate(
            session.record,
            session.scores,
            trace_id=trace_id or None,
            span_id=span_id,
            service_version=session.service_version,
            part=session.part,
            now=self._clock.now(),
        )
        session_id = session.record.session_id
        if (revive or session_id in self._live) and session_id not in self._endings:
            if seen is None:
                seen = self._clock.monotonic() - max(0, self._clock.now() - session.record.last_seen_at) / 1e9
            self._live.seen(
                session_id,
                agent=session.record.agent,
                service=session.record.services[0] if session.record.services else None,
                scores=self._evaluators.levels(evaluations),
                now=seen,
            )
        return SessionUpdate(record=session.record, evaluations=evaluations)

    def _open(self, session_id: str) -> _Session | None:
        """Return the session from memory or from the store. None where it is new."""
        # One that is not stored yet stays here, whatever room there is in memory.
        session = self._sessions.get(session_id) or self._changed.get(session_id)
        if session is None:
            stored = self._store.session(session_id) if session_id != self._absent else None
            if stored is None:
                self._absent = session_id
                return None
            session = self._restored(stored)
            self._sessions.put(session_id, session)
        return session

    def _restored(self, stored: StoredSession) -> _Session:
        effort = sum((trace.effort for trace in stored.traces), NO_EFFORT)
        count = len(stored.traces)
        # Traces have left or joined it since it was stored.
        has_changed = count != stored.record.trace_count
        revision = stored.record.revision + has_changed
        record = replace(stored.record, trace_count=count, revision=revision, effort=effort)
        if stored.traces:
            record = replace(record, started_at=stored.traces[0].started_at)
        session = _Session(record, BoundedScores(self._weights), AnswerWindow())
        for trace in stored.traces:
            member = self._member(trace)
            session.put(member.trace_id, member.signals, self._weights)
            if trace.turns is None:
                session.window.cut()
            else:
                session.window.put(member)
            for evaluation in trace.signals.values():
                session.service_version = evaluation.service_version
                session.last_turn = (member.place, evaluation.span_id)
                session.met(evaluation.agent, member.place)
        return session

    def _member(self, trace: StoredTrace) -> Member:
        return Member(
            trace_id=trace.trace_id,
            started_at=trace.started_at,
            said=[said_in(turn, self._answer(turn.output)) for turn in trace.turns or ()],
            signals=trace.signals,
        )

    def _window(self, session: _Session, place: tuple[int, str]) -> AnswerWindow:
        """Return the newest traces from memory. For a place far back, return those around it from the store."""
        if session.window.reaches(place):
            return session.window
        session_id = session.record.session_id
        if self._far is None or self._far[:2] != (session_id, place):
            self._far = session_id, place, self._window_around(session_id, place)
        return self._far[2]

    def _window_around(self, session_id: str, place: tuple[int, str]) -> AnswerWindow:
        places = self._store.neighbours(session_id, place)
        known = [member for at in places if (member := self._members.get(at[1])) is not None and member.place == at]
        unknown = {trace_id for _, trace_id in places} - {member.trace_id for member in known}
        read = [self._member(trace) for trace in (self._store.traces([*unknown]) if unknown else ())]
        window = AnswerWindow()
        window.cut()
        for member in (*known, *read):
            self._members.put(member.trace_id, member)
            window.put(member)
        return window


def _new_record(session_id: str, trace: Trace, received_at: int) -> SessionRecord:
    return SessionRecord(
        session_id=session_id,
        user_id=None,
        agent=None,
        services=(),
        started_at=trace.started_at,
        last_seen_at=received_at,
        trace_count=0,
    )


def _with(names: Sequence[str], name: str | None) -> Sequence[str]:
    """Return the names with one more, if it is new and there is room."""
    return names if name is None or name in names or len(names) >= MAX_SERVICES else [*names, name]
