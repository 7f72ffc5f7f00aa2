"""Sessions whose traces are arriving. Their windows of answers and their scores are current after every trace.

A pass of the evaluation takes the sessions that it changes out of memory. They come back when the pass is committed. If
it fails they are dropped with it, and are read from the store when they go on.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from agenteval_collector.evaluation.embedding import EmbeddedEmbedder
from agenteval_collector.evaluation.evaluators.ports import comparable
from agenteval_collector.evaluation.sessions.live_sessions import Endings, LiveSessions
from agenteval_collector.evaluation.sessions.session import (
    AnswerWindow,
    Place,
    Session,
    added_up,
    new_state,
    put_down,
    state_with,
    taken_up,
)
from agenteval_collector.evaluation.sessions.session_evaluators import SessionEvaluators
from agenteval_collector.evaluation.sessions.upper_bound import BoundedScores
from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.sessions import Member, SessionState, SessionUpdate, Signals, StoredPlace
from agenteval_collector.model.turn_summary import TurnSummary, said_in
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.stores.store import Store
from otel_agenteval.finding import Seen
from otel_agenteval.internal.lru import LruMap
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


class Cause(IntEnum):
    """The cause for which a session is scored again. The highest one counts."""

    JUDGED = 1
    """The judge has answered. A session that was over stays over."""
    READ_AGAIN = 2
    """A trace has left the session. It is as quiet as its newest trace is old."""
    CHANGED = 3
    """A trace has come, or compares with other answers now. More of the session may be on the way."""


@dataclass(slots=True)
class Neighbours:
    """The traces of a session around some places, as they were when nothing was changed.

    `session` is None if it has no trace yet.
    """

    session_id: str
    session: Session | None
    windows: Mapping[Place, AnswerWindow]

    def before(self, position: Place) -> list[TurnSummary]:
        """Return the last turns of the session before one of the places, oldest first."""
        return self.windows[position].before(position) if self.session is not None else []

    def behind(self, trace_id: str | None) -> list[tuple[Member, list[TurnSummary]]]:
        """Return the traces whose windows reach back to one of the places, each with the turns before it.

        The trace of this id is left out.
        """
        windows = {
            member.trace_id: (member, window.before(member.place))
            for key, window in self.windows.items()
            for member in window.after(key)
            if member.trace_id != trace_id
        }
        return list(windows.values())


class Sessions:
    """The sessions in memory, with their scores. Owned by the thread that evaluates.

    `weights` replace published weights. `hold` is the time in seconds that traces may be on the way after their session
    was reported ended. `max_bytes` bounds the memory of all sessions: the session that was quiet for longest leaves,
    and is read from the store again when it goes on.
    """

    def __init__(
        self,
        store: Store,
        live: LiveSessions,
        evaluators: SessionEvaluators,
        embedder: EmbeddedEmbedder,
        clock: Clock,
        weights: Mapping[str, float],
        hold: float,
        max_bytes: int,
    ) -> None:
        self._store = store
        self._live = live
        self._endings = Endings(hold)
        self._evaluators = evaluators
        self._embedder = embedder
        self._clock = clock
        self.weights = merge_weights(weights)
        # Both hold only what the store holds, too.
        self._kept: LruMap[str, Session] = LruMap(max_bytes, Session.weight)
        self._members: LruMap[str, Member] = LruMap(MEMBERS)

    def begin(self, *, add_up: bool = False) -> "Changes":
        """Begin a pass, without changes.

        With `add_up` sessions that are read are added up from all their traces. After an unexpected error, the stored
        sums may be what is wrong.
        """
        return Changes(self, add_up=add_up)

    def keep(self, changes: "Changes") -> None:
        """Keep the sessions of a pass in memory. The store must have the commit of the pass by then."""
        for session_id, session in changes.opened.items():
            if session is not None:
                for member in session.changed.values():
                    self._members.put(member.trace_id, member)
                session.settle()
                self._kept.put(session_id, session)
        for session_id in changes.commit.emptied:
            self._live.forget(session_id)
        for session_id, cause in changes.causes.items():
            self._note_score(changes.commit.sessions[session_id], cause)

    def take(self, session_id: str) -> Session | None:
        """Take a session out of memory. Return None if it is not there."""
        return self._kept.pop(session_id)

    def read(self, session_id: str, *, add_up: bool) -> Session | None:
        """Read a session from the store. Return None if it is new. Raises RetryableError."""
        stored = self._store.session(session_id)
        if stored is None:
            return None
        session = None
        if stored.sums is not None and not add_up:
            session = taken_up(stored.state, stored.sums, self.weights)
        if session is None:
            session = added_up(stored.state, self._store.session_traces(session_id), self.weights)
        members = [self._summed_up(trace) for trace in stored.newest]
        # The window does not have all traces of the session, so it must know where it begins.
        if len(members) < session.scores.traces:
            session.window = AnswerWindow(members[0].place)
        for member in members:
            session.window.put(member)
        return session

    def window(self, session: Session, position: Place) -> AnswerWindow:
        """Return the window of the newest traces. For a place far back, return the traces around it from the store.

        Raises RetryableError.
        """
        if session.window.reaches(position):
            return session.window
        changed = session.changed
        # One more is asked for, in both directions, for each trace that has left its place in the store.
        stored = self._store.neighbours(
            session.state.session_id, position, EARLIER + len(session.gone), LATER + len(session.gone)
        )
        elsewhere = session.gone | changed.keys()
        places = [at for at in stored if at[1] not in elsewhere] + [trace.place for trace in changed.values()]
        places.sort()
        here = bisect_left(places, position)
        near = places[max(0, here - EARLIER) : here + LATER]
        members = [member for at in near if (member := self._known(session, at)) is not None]
        unknown = {trace_id for _, trace_id in near} - {member.trace_id for member in members}
        window = AnswerWindow()
        for member in members:
            window.put(member)
        for read in self._store.traces([*unknown]) if unknown else ():
            member = self._summed_up(read)
            self._members.put(member.trace_id, member)
            window.put(member)
        return window

    def update(self, session: Session) -> SessionUpdate:
        """Return the session with its scores now, to be stored."""
        evaluations = self._evaluators.evaluate(session, self._clock.now())
        return SessionUpdate(state=session.state, evaluations=evaluations, sums=put_down(session, self.weights))

    def resume(self, session_id: str) -> None:
        """Go on with a session that an earlier or another process has left. Raises RetryableError."""
        changes = self.begin()
        if changes.read_again(session_id):
            changes.score()
        self.keep(changes)

    def forget(self, session_id: str) -> None:
        """Forget a session that was deleted. A trace that comes later begins it anew."""
        self._kept.pop(session_id)
        self._live.forget(session_id)
        self._endings.forget(session_id)

    def forget_all(self) -> None:
        """Forget all sessions, because the store has changed without them. Each is read again when it goes on."""
        self._kept.clear()
        self._members.clear()

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

    def await_end(self, session_id: str, sender: str) -> None:
        """Note that the sender reported a session as ended of which no trace of its own is known."""
        self._endings.await_trace(session_id, sender, self._clock.monotonic())

    def end_awaited(self, session_id: str, senders: Collection[str]) -> None:
        """Note the end that one of these senders, whose trace is stored now, has reported."""
        if self._endings.is_awaited(session_id, senders, self._clock.monotonic()):
            self.end(session_id)

    def is_ending(self, session_id: str) -> bool:
        """Return whether the session was reported ended just now. A trace that comes now was on the way."""
        return session_id in self._endings

    def _note_score(self, update: SessionUpdate, cause: Cause) -> None:
        """Note that a session goes on with these scores."""
        state = update.state
        if state.session_id in self._endings or (cause is Cause.JUDGED and state.session_id not in self._live):
            return
        quiet_since = self._clock.monotonic()
        if cause is not Cause.CHANGED:
            # The receipt is in wall-clock time, and idle sessions are found by the monotonic clock.
            quiet_since -= max(0, self._clock.now() - state.last_seen_at) / 1e9
        if cause is Cause.READ_AGAIN:
            self._live.forget(state.session_id)
        self._live.touch(
            state.session_id,
            agent=state.agent,
            service=state.service,
            scores=self._evaluators.levels(update.evaluations),
            now=quiet_since,
        )

    def _summed_up(self, stored: Member) -> Member:
        """Return a trace of the store with summaries of its turns in place of the turns."""
        member = self._members.get(stored.trace_id)
        if member is not None and member.started_at == stored.started_at:
            return member
        turns = [said_in(turn, comparable(turn.output, self._embedder.embed)) for turn in stored.turns]
        return replace(stored, said=turns, turns=())

    def _known(self, session: Session, position: Place) -> Member | None:
        """Return the trace at `place` if it is in memory."""
        _, trace_id = position
        member = session.changed.get(trace_id) or session.window.find(trace_id) or self._members.get(trace_id)
        return member if member is not None and member.place == position else None


class Changes:
    """The changes of one pass: the commit, and the sessions in memory that it changes.

    `around`, `leave`, `judge` and `read_again` read the store and may raise RetryableError, with nothing changed that a
    second call would change again. Nothing else here reads it.
    """

    def __init__(self, sessions: Sessions, *, add_up: bool) -> None:
        self.commit = Commit()
        self.opened: dict[str, Session | None] = {}
        """The sessions that the pass has looked at, by id. None: it has no trace yet."""
        self.causes: dict[str, Cause] = {}
        """The sessions that the commit scores."""
        self._sessions = sessions
        self._add_up = add_up

    def around(self, session_id: str, *places: Place) -> Neighbours:
        """Return the traces of a session around these places."""
        session = self._open(session_id)
        windows = {} if session is None else {position: self._sessions.window(session, position) for position in places}
        return Neighbours(session_id, session, windows)

    def put(
        self,
        near: Neighbours,
        trace: Trace,
        member: Member,
        *,
        received_at: int,
        visibility: Seen,
        stayed: StoredPlace | None,
        says_more: bool,
    ) -> SessionState:
        """Add a trace to the session `near` it, or replace the revision of it that stands at `stayed`.

        `near` has the traces around both places. Return the state of the session then. `visibility` says what could be
        seen of the trace. `says_more` is true if it says something that was not in the revision before. The session was
        last seen when its newest trace was received.
        """
        weights = self._sessions.weights
        session = near.session
        if session is None:
            state = new_state(near.session_id, trace, received_at)
            session = near.session = Session(state, BoundedScores(weights), AnswerWindow())
            self.opened[near.session_id] = session
            # The revision before could not be read, or had no turn: it was in no session.
            stayed = None
        known = session.changed.get(member.trace_id)
        if known is None and stayed is not None:
            known = near.windows[stayed.place].find(member.trace_id)
        # Counts of an earlier revision are taken back with the signals that they were made of.
        session.score(member.trace_id, member.signals, weights, None if known is None else known.signals)
        if stayed is not None and stayed.place != member.place:
            session.gone.add(member.trace_id)
        session.window.put(member)
        for window in near.windows.values():
            if window is not session.window:
                window.put(member)
        session.changed[member.trace_id] = member
        session.met(AgentKey(trace.agent, trace.service), member.place)
        session.state = state_with(
            session.state,
            trace,
            agent=session.first_agent[1] if session.first_agent else None,
            trace_count=session.scores.traces,
            received_at=received_at,
            effort=member.effort if stayed is None else member.effort - stayed.effort,
            visibility=visibility,
            says_more=says_more,
        )
        session.service_version = trace.service_version or session.service_version
        span_id = trace.turns[-1].span_id if trace.turns else trace.root_span_id
        session.last_turn = max(session.last_turn, (member.place, span_id), key=lambda turn: turn[0])
        self._note(near.session_id, Cause.CHANGED)
        return session.state

    def found_unusual(self, session_id: str) -> None:
        """Note that a session takes more effort than usual."""
        session = self.opened[session_id]
        assert session is not None
        session.state = replace(session.state, is_unusual=True)

    def rescore(self, near: Neighbours, member: Member, evaluation: Evaluation) -> None:
        """Replace a signal of one of the traces `near`."""
        assert near.session is not None
        self._replace(near.session, member, {evaluation.name: evaluation})
        self._note(near.session_id, Cause.CHANGED)

    def leave(self, session_id: str, trace_id: str) -> None:
        """Note that a newer revision of the trace is in another session, although the store still has it in this one.

        Later traces of the same commit do not find it here. After the commit the session is read again.
        """
        session = self._open(session_id)
        if session is not None:
            session.window.remove(trace_id)
            session.changed.pop(trace_id, None)
            session.gone.add(trace_id)

    def judge(self, session_id: str, position: Place, evaluations: Sequence[Evaluation]) -> None:
        """Take over judged outcomes of the trace at `position`.

        Do nothing if none of them is a signal, or if the trace is in no session.
        """
        signals = {evaluation.name: evaluation for evaluation in evaluations if evaluation.name in SIGNAL_NAMES}
        session = self._open(session_id) if signals else None
        member = self._sessions.window(session, position).find(position[1]) if session else None
        if session is not None and member is not None:
            self._replace(session, member, signals)
            self._note(session_id, Cause.JUDGED)

    def read_again(self, session_id: str) -> bool:
        """Read a session again after a trace has left it. Return False if it has no trace any more."""
        self._sessions.take(session_id)
        session = self.opened[session_id] = self._sessions.read(session_id, add_up=self._add_up)
        if session is None or not session.scores.traces:
            self.commit.emptied.add(session_id)
            return False
        self._note(session_id, Cause.READ_AGAIN)
        return True

    def score(self) -> Commit:
        """Return the commit with the scores of all sessions that have changed.

        Each session is scored once, however many of its traces came.
        """
        for session_id in self.causes:
            session = self.opened[session_id]
            assert session is not None
            self.commit.add(self._sessions.update(session))
        return self.commit

    def _open(self, session_id: str) -> Session | None:
        if session_id not in self.opened:
            session = self._sessions.take(session_id)
            self.opened[session_id] = session or self._sessions.read(session_id, add_up=self._add_up)
        return self.opened[session_id]

    def _note(self, session_id: str, cause: Cause) -> None:
        self.causes[session_id] = max(cause, self.causes.get(session_id, cause))

    def _replace(self, session: Session, member: Member, signals: Signals) -> None:
        """Replace signals of a trace of the session."""
        changed = replace(member, signals={**member.signals, **signals})
        session.score(member.trace_id, changed.signals, self._sessions.weights, member.signals)
        session.changed[member.trace_id] = changed
        if session.window.find(member.trace_id) is not None:
            session.window.put(changed)
