"""Sessions whose traces are arriving: their windows of answers and their scores, current after every trace."""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from agenteval_collector.model.effort import Effort
from agenteval_collector.model.sessions import Member, SessionRecord, SessionUpdate, Signals, StoredSession, StoredTrace
from agenteval_collector.model.turn_summary import TurnSummary, said_in
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.sessions.live_sessions import Endings, LiveSessions
from agenteval_collector.sessions.ports import SessionStore
from agenteval_collector.sessions.session import Session, added_up, put_down, taken_up
from agenteval_collector.sessions.session_evaluators import SessionEvaluators
from agenteval_collector.sessions.upper_bound import BoundedScores
from agenteval_collector.sessions.window import AnswerWindow, Place
from otel_agenteval.finding import Seen
from otel_agenteval.lru import LruMap
from otel_agenteval.metrics import SIGNAL_NAMES, LoopText
from otel_agenteval.metrics.signals import merge_weights
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Evaluation

MEMBERS: Final = 2048
"""Traces that came last, of all sessions: those that come out of order mostly stand beside these."""
EARLIER: Final = 7
LATER: Final = 8
"""Neighbours of a trace far back: enough to compare it and those behind it, traces without an answer included."""

MAX_SERVICES = 100
"""Services, and versions, that are listed of one session. An id that a thousand services share is no session."""


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
        self._sessions: LruMap[str, Session] = LruMap(max_bytes, Session.weight)
        # Those that the store does not have as they are now stay here, whatever room there is in memory.
        self._held: dict[str, Session] = {}
        # Those of them that are scored with the next commit.
        self._changed: dict[str, Session] = {}
        self._members: LruMap[str, Member] = LruMap(MEMBERS)
        # The windows around places far back that the trace in hand looks at.
        self._far: dict[tuple[str, Place], AnswerWindow] = {}
        # After a defect of ours no sums are believed before the next commit.
        self._doubts = False
        # The session that was looked for last and is not stored: its first trace is between `previous` and `put`.
        self._absent: str | None = None

    def previous(self, session_id: str, place: Place) -> list[TurnSummary]:
        """Return the last turns of the session before `place`, oldest first."""
        self._far.clear()
        session = self._open(session_id)
        return self._window(session, place).before(place) if session else []

    def followers(
        self, session_id: str, places: Sequence[Place], trace: Member | None
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
        before: Place | None,
        says_more: bool,
    ) -> SessionRecord:
        """Add a trace to its session, or replace it by its newer revision; `updates` gives what comes of it. Returns
        the session then, last seen when the newest of its traces was received.

        `before` is the place of its earlier revision there, `effort` what it takes more than that, `seen` what could be
        seen of it. `says_more`: something was said in it that was not in that revision.
        """
        session = self._open(session_id)
        if session is None:
            session = Session(_new_record(session_id, trace, received_at), BoundedScores(self._weights), AnswerWindow())
            self._absent = None
        # What may have to be tried again comes before anything is changed: the store is read here, if at all.
        known = session.changed.get(member.trace_id)
        if known is None and before is not None:
            known = self._window(session, before).find(member.trace_id)
        self._window(session, member.place)
        session.score(member.trace_id, member.signals, self._weights, None if known is None else known.signals)
        if before is not None and before != member.place:
            session.gone.add(member.trace_id)
        session.window.put(member)
        self._sessions.put(session_id, session)
        self._change(session, member)
        session.met(trace.agent, member.place)
        session.record = _record_with(trace, session, received_at, effort, seen, says_more=says_more)
        session.service_version = trace.service_version or session.service_version
        span_id = trace.turns[-1].span_id if trace.turns else trace.root_span_id
        session.last_turn = max(session.last_turn, (member.place, span_id), key=lambda turn: turn[0])
        self._changed[session_id] = session
        return session.record

    def leave(self, session_id: str, trace_id: str) -> None:
        """Note that a newer revision of the trace is in another session, though the store has it here still: whoever
        comes later in the same commit does not find it. The session is read again after that (`reload`)."""
        session = self._open(session_id)
        if session is not None:
            session.window.remove(trace_id)
            session.changed.pop(trace_id, None)
            session.gone.add(trace_id)
            self._held[session_id] = session
            self._far.clear()

    def found_unusual(self, session_id: str) -> None:
        """Note that the session was found to take more than usual."""
        session = self._open(session_id)
        if session is not None:
            session.record = replace(session.record, is_unusual=True)

    def rescore(self, session_id: str, member: Member, evaluation: Evaluation) -> None:
        """Replace a signal of a member that `followers` gave. `updates` returns the result."""
        session = self._open(session_id)
        if session is not None:
            self._replace(session, member, {evaluation.name: evaluation})
            self._changed[session_id] = session

    def updates(self) -> list[SessionUpdate]:
        """Return the sessions that have changed since the last call, each scored once, however many of its traces
        came."""
        changed, self._changed = self._changed, {}
        for session in self._held.values():
            session.settle()
        self._held.clear()
        self._far.clear()
        self._doubts = False
        # More of a session may be on the way when it is scored late: it is quiet from now on, not since the receipt.
        return [self._update(session, seen=self._clock.monotonic()) for session in changed.values()]

    def judged(self, session_id: str, place: Place, evaluations: Sequence[Evaluation]) -> SessionUpdate | None:
        """Take over the judge's answer on the trace at `place`, and return the session then. None where nothing of it
        is a signal, and where the trace is in no session."""
        signals = {each.name: each for each in evaluations if each.name in SIGNAL_NAMES}
        session = self._open(session_id) if signals else None
        member = self._window(session, place).find(place[1]) if session else None
        if session is None or member is None:
            return None
        self._replace(session, member, signals)
        return self._update(session, revive=False)

    def reload(self, session_id: str) -> SessionUpdate | None:
        """Read a session again that a trace has left; None where no trace is left in it."""
        self._drop(session_id)
        session = self._open(session_id)
        return self._update(session) if session and session.scores.traces else None

    def forget(self, session_id: str) -> None:
        """Forget a session that was deleted: what comes of it begins it anew."""
        self._drop(session_id)
        self._endings.forget(session_id)
        self._absent = None

    def _drop(self, session_id: str) -> None:
        self._sessions.pop(session_id)
        self._held.pop(session_id, None)
        self._changed.pop(session_id, None)
        self._live.forget(session_id)

    def forget_all(self) -> None:
        """Read every session from the store again when it goes on, because memory may be ahead of the store."""
        self._sessions.clear()
        self._held.clear()
        self._changed.clear()
        self._members.clear()
        self._far.clear()
        self._absent = None
        self._doubts = True

    def keep(self, is_kept: Callable[[str], bool]) -> None:
        """Forget what is in memory, and let go of the sessions that go on elsewhere: those for which `is_kept` returns
        false."""
        self.forget_all()
        self._live.keep(is_kept)

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

    def _update(self, session: Session, *, revive: bool = True, seen: float | None = None) -> SessionUpdate:
        """Return the session's scores now. Without `revive` a session that was over stays over. `seen` is the monotonic
        time since when it is quiet, by default the receipt of its newest trace."""
        evaluations = self._evaluators.evaluate(session, self._clock.now())
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
        return SessionUpdate(record=session.record, evaluations=evaluations, sums=put_down(session, self._weights))

    def _change(self, session: Session, member: Member) -> None:
        """Note that a trace of the session is not in the store as it is now."""
        self._members.put(member.trace_id, member)
        session.changed[member.trace_id] = member
        self._held[session.record.session_id] = session

    def _replace(self, session: Session, member: Member, signals: Signals) -> None:
        """Replace signals of a trace of the session."""
        session.score(member.trace_id, {**member.signals, **signals}, self._weights, member.signals)
        member.signals.update(signals)
        self._change(session, member)

    def _open(self, session_id: str) -> Session | None:
        """Return the session from memory or from the store. None where it is new."""
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
            session = taken_up(stored.record, stored.sums, self._weights)
        if session is None:
            session = added_up(stored.record, self._store.session_traces(stored.record.session_id), self._weights)
        members = [self._member(each) for each in stored.newest]
        if len(members) < session.scores.traces:
            session.window = AnswerWindow(members[0].place)
        for member in members:
            session.window.put(member)
        return session

    def _member(self, trace: StoredTrace) -> Member:
        """Return what is known of the trace: each has one object, so that what changes there is known everywhere."""
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
        """Return the newest traces from memory. For a place far back, return those around it from the store."""
        if session.window.reaches(place):
            return session.window
        key = session.record.session_id, place
        if key not in self._far:
            self._far[key] = self._window_around(session, place)
        return self._far[key]

    def _window_around(self, session: Session, place: Place) -> AnswerWindow:
        changed = session.changed
        # For each that does not stand any more where the store has it, one more is asked for.
        stored = self._store.neighbours(
            session.record.session_id, place, EARLIER + len(session.gone), LATER + len(session.gone)
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
        """Return the trace at `place`, where it is in memory."""
        _, trace_id = place
        known = session.changed.get(trace_id) or session.window.find(trace_id) or self._members.get(trace_id)
        return known if known is not None and known.place == place else None


def _record_with(
    trace: Trace, session: Session, received_at: int, effort: Effort, seen: Seen, *, says_more: bool
) -> SessionRecord:
    """Return the session's record with a trace that is in the session already."""
    record = session.record
    return replace(
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
