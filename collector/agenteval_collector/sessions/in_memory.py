"""Sessions whose traces are arriving. Their windows of answers and their scores are current after every trace."""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from agenteval_collector.model.effort import Effort
from agenteval_collector.model.sessions import Member, SessionState, SessionUpdate, Signals, StoredSession, StoredTrace
from agenteval_collector.model.turn_summary import TurnSummary, said_in
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.sessions.live_sessions import Endings, LiveSessions
from agenteval_collector.sessions.ports import SessionStore
from agenteval_collector.sessions.session import Session, added_up, put_down, taken_up
from agenteval_collector.sessions.session_evaluators import SessionEvaluators
from agenteval_collector.sessions.upper_bound import BoundedScores
from agenteval_collector.sessions.window import AnswerWindow, Place
from otel_agenteval.finding import Seen
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.metrics.loops import LoopText
from otel_agenteval.metrics.signals import SIGNAL_NAMES, merge_weights
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Evaluation

MEMBERS: Final = 2048
"""Traces of all sessions that are remembered, the last to come. Traces out of order mostly have places near these."""
EARLIER: Final = 7
LATER: Final = 8
"""`EARLIER` and `LATER` are the numbers of neighbours that are read for a trace far back.

They are enough to compare it and the traces behind it, even if some have no answer.
"""

MAX_SERVICES = 100
"""The most services, and the most versions, that are listed for one session.

An id that a thousand services share does not stand for a session.
"""


class Sessions:
    """The sessions in memory, with their scores. Owned by the thread that evaluates.

    `answer` prepares an output for comparison, as the evaluators do. `weights` replace published weights. `hold` is the
    time in seconds that traces may be on the way after their session was reported ended. `max_bytes` bounds the memory
    of all sessions: the session that was quiet for longest leaves, and is read from the store again when it goes on.
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
        self._sessions: LruMap[str, Session] = LruMap(max_bytes, Session.weight)
        # Sessions that differ from the store stay here until they are stored, even if memory is full.
        self._held: dict[str, Session] = {}
        # The sessions among them that the next commit scores.
        self._changed: dict[str, Session] = {}
        self._members: LruMap[str, Member] = LruMap(MEMBERS)
        # Windows around places far back, read from the store for the current trace.
        self._far: dict[tuple[str, Place], AnswerWindow] = {}
        # True after an unexpected error: until the next commit the stored sums may be wrong, so traces are added up.
        self._doubts = False
        # The session that was not found in the store last. Saves a second read between `previous` and `put_trace`.
        self._absent: str | None = None

    def previous(self, session_id: str, place: Place) -> list[TurnSummary]:
        """Return the last turns of the session before `place`, oldest first."""
        # Each trace is looked at with `previous` first, so windows of the trace before are not needed any more.
        self._far.clear()
        session = self._open(session_id)
        return self._window(session, place).before(place) if session else []

    def followers(
        self, session_id: str, places: Sequence[Place], trace: Member | None
    ) -> list[tuple[Member, list[TurnSummary]]]:
        """Return the traces of the session whose windows reach back to one of `places`, each with the turns before it.

        `trace` is put into the session, and is not returned itself. It is None if a trace has left the session.
        """
        session = self._open(session_id)
        found: dict[str, tuple[Member, list[TurnSummary]]] = {}
        if session is None:
            return []
        for place in places:
            window = self._window(session, place)
            # A window that was read from the store does not have the new trace yet.
            if trace is not None and window is not session.window:
                window.put(trace)
            for member in window.after(place):
                if trace is None or member.trace_id != trace.trace_id:
                    found[member.trace_id] = (member, window.before(member.place))
        return list(found.values())

    def put_trace(
        self,
        session_id: str,
        trace: Trace,
        member: Member,
        received_at: int,
        effort: Effort,
        seen: Seen,
        *,
        before: Place | None,
        says_more: bool,
    ) -> SessionState:
        """Add a trace to its session, or replace an earlier revision of it. Return the state of the session then.

        `updates` returns the scores that follow. `before` is the place of the earlier revision in the session. `effort`
        is what the trace takes more than that revision, and `seen` what could be seen of it. `says_more` is true if the
        trace says something that was not in that revision. The session was last seen when its newest trace was
        received.
        """
        session = self._open(session_id)
        if session is None:
            session = Session(_new_record(session_id, trace, received_at), BoundedScores(self._weights), AnswerWindow())
            self._absent = None
        # All reads of the store come before any change, because they may fail and are tried again. So both windows are
        # read now, as `followers` needs them later.
        found = None if before is None else self._window(session, before).find(member.trace_id)
        self._window(session, member.place)
        known = session.changed.get(member.trace_id) or found
        # Counts of an earlier revision are taken back with the signals that they were made of.
        session.score(member.trace_id, member.signals, self._weights, None if known is None else known.signals)
        if before is not None and before != member.place:
            session.gone.add(member.trace_id)
        session.window.put(member)
        self._sessions.put(session_id, session)
        self._change(session, member)
        session.met(trace.agent, member.place)
        session.state = _state_with(trace, session, received_at, effort, seen, says_more=says_more)
        session.service_version = trace.service_version or session.service_version
        span_id = trace.turns[-1].span_id if trace.turns else trace.root_span_id
        session.last_turn = max(session.last_turn, (member.place, span_id), key=lambda turn: turn[0])
        self._changed[session_id] = session
        return session.state

    def leave(self, session_id: str, trace_id: str) -> None:
        """Note that a newer revision of the trace is in another session, although the store still has it in this one.

        Later traces of the same commit do not find it here. After the commit the session is read again (`reload`).
        """
        session = self._open(session_id)
        if session is not None:
            session.window.remove(trace_id)
            session.changed.pop(trace_id, None)
            session.gone.add(trace_id)
            self._held[session_id] = session
            self._far.clear()

    def found_unusual(self, session_id: str) -> None:
        """Note that the session takes more effort than usual."""
        session = self._open(session_id)
        if session is not None:
            session.state = replace(session.state, is_unusual=True)

    def rescore(self, session_id: str, member: Member, evaluation: Evaluation) -> None:
        """Replace a signal of a member that `followers` returned. `updates` returns the new scores."""
        session = self._open(session_id)
        if session is not None:
            self._replace(session, member, {evaluation.name: evaluation})
            self._changed[session_id] = session

    def updates(self) -> list[SessionUpdate]:
        """Return the sessions that have changed since the last call.

        Each session is scored once, however many of its traces came.
        """
        changed, self._changed = self._changed, {}
        for session in self._held.values():
            session.settle()
        self._held.clear()
        self._far.clear()
        self._doubts = False
        # If a trace is scored late, more of its session may be on the way. So the quiet time counts from now, not from
        # the receipt.
        return [self._update(session, seen=self._clock.monotonic()) for session in changed.values()]

    def judged(self, session_id: str, place: Place, evaluations: Sequence[Evaluation]) -> SessionUpdate | None:
        """Take over judged outcomes of the trace at `place`, and return the session with its new scores.

        Return None if none of them is a signal, or if the trace is in no session.
        """
        signals = {each.name: each for each in evaluations if each.name in SIGNAL_NAMES}
        session = self._open(session_id) if signals else None
        member = self._window(session, place).find(place[1]) if session else None
        if session is None or member is None:
            return None
        self._replace(session, member, signals)
        return self._update(session, revive=False)

    def reload(self, session_id: str) -> SessionUpdate | None:
        """Read a session again after a trace has left it. Return None if the session has no trace any more."""
        self._drop(session_id)
        session = self._open(session_id)
        return self._update(session) if session and session.scores.traces else None

    def forget(self, session_id: str) -> None:
        """Forget a session that was deleted. A trace that comes later begins it anew."""
        self._drop(session_id)
        self._endings.forget(session_id)
        self._absent = None

    def _drop(self, session_id: str) -> None:
        self._sessions.pop(session_id)
        self._held.pop(session_id, None)
        self._changed.pop(session_id, None)
        self._live.forget(session_id)

    def forget_all(self) -> None:
        """Forget all sessions, because memory may be ahead of the store. Each is read again when it goes on."""
        self._sessions.clear()
        self._held.clear()
        self._changed.clear()
        self._members.clear()
        self._far.clear()
        self._absent = None
        self._doubts = True

    def keep_only(self, is_kept: Callable[[str], bool]) -> None:
        """Forget what is in memory. Sessions for which `is_kept` returns false go on elsewhere, and are let go."""
        self.forget_all()
        self._live.keep_only(is_kept)

    def over(self, *, closing: bool = False) -> list[str]:
        """Return the sessions that have become idle or have ended since the last call.

        With `closing` nothing more will come, so every session that was reported ended has ended.
        """
        now = self._clock.monotonic()
        return [*self._endings.over(math.inf if closing else now), *self._live.idle(now)]

    def end(self, session_id: str) -> None:
        """Note that the session was reported ended. It is not active any more until a new trace comes."""
        self._live.forget(session_id)
        self._endings.note_end(session_id, self._clock.monotonic())

    def ending(self, session_id: str) -> bool:
        """Return whether the session was reported ended just now. A trace that comes now was on the way."""
        return session_id in self._endings

    def _update(self, session: Session, *, revive: bool = True, seen: float | None = None) -> SessionUpdate:
        """Return the session with its scores now. Without `revive` a session that was over stays over.

        `seen` is the monotonic time from which the session counts as quiet, by default the receipt of its newest trace.
        """
        evaluations = self._evaluators.evaluate(session, self._clock.now())
        session_id = session.state.session_id
        if (revive or session_id in self._live) and session_id not in self._endings:
            if seen is None:
                # The receipt is in wall-clock time, and idle sessions are found by the monotonic clock.
                seen = self._clock.monotonic() - max(0, self._clock.now() - session.state.last_seen_at) / 1e9
            self._live.touch(
                session_id,
                agent=session.state.agent,
                service=session.state.services[0] if session.state.services else None,
                scores=self._evaluators.levels(evaluations),
                now=seen,
            )
        return SessionUpdate(state=session.state, evaluations=evaluations, sums=put_down(session, self._weights))

    def _change(self, session: Session, member: Member) -> None:
        """Note that a trace of the session has changed and is not stored yet."""
        self._members.put(member.trace_id, member)
        session.changed[member.trace_id] = member
        self._held[session.state.session_id] = session

    def _replace(self, session: Session, member: Member, signals: Signals) -> None:
        """Replace signals of a trace of the session."""
        session.score(member.trace_id, {**member.signals, **signals}, self._weights, member.signals)
        member.signals.update(signals)
        self._change(session, member)

    def _open(self, session_id: str) -> Session | None:
        """Return the session from memory or from the store. Return None if it is new."""
        session = self._sessions.get(session_id) or self._held.get(session_id)
        if session is None:
            stored = self._store.session(session_id) if session_id != self._absent else None
            if stored is None:
                self._absent = session_id
                return None
            session = self._restored(stored)
            self._sessions.put(session_id, session)
        return session

    def _restored(self, stored: StoredSession) -> Session:
        session = None
        if stored.sums is not None and not self._doubts:
            session = taken_up(stored.state, stored.sums, self._weights)
        if session is None:
            session = added_up(stored.state, self._store.session_traces(stored.state.session_id), self._weights)
        members = [self._member(each) for each in stored.newest]
        # The window does not have all traces of the session, so it must know where it begins.
        if len(members) < session.scores.traces:
            session.window = AnswerWindow(members[0].place)
        for member in members:
            session.window.put(member)
        return session

    def _member(self, trace: StoredTrace) -> Member:
        """Return the trace as a member.

        A trace in memory is always the same object, so that a change of it shows in every window.
        """
        known = self._members.get(trace.trace_id)
        if known is not None and known.started_at == trace.started_at:
            return known
        return Member(
            trace_id=trace.trace_id,
            started_at=trace.started_at,
            said=[said_in(turn, self._answer(turn.output)) for turn in trace.turns],
            signals=trace.signals,
        )

    def _window(self, session: Session, place: Place) -> AnswerWindow:
        """Return the window of the newest traces. For a place far back, return the traces around it from the store."""
        if session.window.reaches(place):
            return session.window
        key = session.state.session_id, place
        if key not in self._far:
            self._far[key] = self._window_around(session, place)
        return self._far[key]

    def _window_around(self, session: Session, place: Place) -> AnswerWindow:
        changed = session.changed
        # One more is asked for, in both directions, for each trace that has left its place in the store.
        stored = self._store.neighbours(
            session.state.session_id, place, EARLIER + len(session.gone), LATER + len(session.gone)
        )
        elsewhere = session.gone | changed.keys()
        places = [at for at in stored if at[1] not in elsewhere] + [each.place for each in changed.values()]
        places.sort()
        here = bisect_left(places, place)
        near = places[max(0, here - EARLIER) : here + LATER]
        known = [member for at in near if (member := self._known(session, at)) is not None]
        unknown = {trace_id for _, trace_id in near} - {member.trace_id for member in known}
        read = [self._member(trace) for trace in (self._store.traces([*unknown]) if unknown else ())]
        window = AnswerWindow()
        for member in (*known, *read):
            self._members.put(member.trace_id, member)
            window.put(member)
        return window

    def _known(self, session: Session, place: Place) -> Member | None:
        """Return the trace at `place` if it is in memory."""
        _, trace_id = place
        known = session.changed.get(trace_id) or session.window.find(trace_id) or self._members.get(trace_id)
        return known if known is not None and known.place == place else None


def _state_with(
    trace: Trace, session: Session, received_at: int, effort: Effort, seen: Seen, *, says_more: bool
) -> SessionState:
    """Return the session's state, brought up to date with a trace whose signals are counted already."""
    state = session.state
    return replace(
        state,
        user_id=state.user_id or trace.user_id,
        agent=session.first_agent[1] if session.first_agent else state.agent,
        services=_with(state.services, trace.service),
        versions=_with(state.versions, trace.service_version),
        environment=trace.environment or state.environment,
        started_at=min(state.started_at, trace.started_at),
        last_seen_at=max(state.last_seen_at, received_at),
        trace_count=session.scores.traces,
        revision=state.revision + says_more,
        effort=state.effort + effort,
        is_blind=state.is_blind and seen.is_blind,
        finalized_at=None,
        ended_at=None,
    )


def _new_record(session_id: str, trace: Trace, received_at: int) -> SessionState:
    return SessionState(
        session_id=session_id,
        user_id=None,
        agent=None,
        services=(),
        started_at=trace.started_at,
        last_seen_at=received_at,
        trace_count=0,
    )


def _with(names: Sequence[str], name: str | None) -> Sequence[str]:
    """Return the names and `name`. Leave it out if it is known or there is no room."""
    return names if name is None or name in names or len(names) >= MAX_SERVICES else [*names, name]
