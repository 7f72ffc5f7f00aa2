"""The evaluation of one complete trace: it is read, observed, scored and put into its session.

A commit collects the results. Everything here belongs to one thread. The evaluators compute all the time, so several
Python threads would only take turns.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial

from agenteval_collector.evaluation import ports
from agenteval_collector.evaluation.observation import TraceObservation, searchable, turn_of
from agenteval_collector.evaluation.outcomes import TraceOutcomes, failure_of
from agenteval_collector.evaluation.reading import why_partial
from agenteval_collector.evaluation.unchanged_revisions import LastReadings
from agenteval_collector.evaluators import EvaluationContext
from agenteval_collector.evaluators.loop_detection import LoopDetection, repetition
from agenteval_collector.evaluators.ports import Embed
from agenteval_collector.model.agent_work import work_of
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.commit import CROSS_TRACE_KINDS, Commit, RevisedTurn, SameTrace, ScoredTrace
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.effort import Effort
from agenteval_collector.model.judge_jobs import Judgement
from agenteval_collector.model.runs import RunTrace
from agenteval_collector.model.sessions import Member, StoredPlace
from agenteval_collector.model.trace_view import TraceView, view_of
from agenteval_collector.model.turn_summary import TurnSummary, said_in
from agenteval_collector.runtime.clock import Clock
from otel_agenteval.finding import Finding, Seen
from otel_agenteval.metrics.signals import SIGNAL_NAMES
from otel_agenteval.model import ModelCall, Trace
from otel_agenteval.outcome import Evaluation, Failure, Method, SubjectKind

logger = logging.getLogger(__name__)

MAX_PROCESSES = 64
"""The most processes of a trace that are stored."""


@dataclass(slots=True, kw_only=True)
class _Evaluated:
    """The results of one trace. `said` has its turns. `turns` has, by span id, the number of the turn of a span."""

    trace: Trace
    view: TraceView
    evaluations: list[Evaluation]
    findings: list[Finding]
    seen: Seen
    said: list[TurnSummary]
    turns: dict[str, int]
    effort: Effort


@dataclass(frozen=True, slots=True)
class TraceEvaluation:
    """Evaluates traces one after the other.

    `run_trace` sums up a trace for its run. `cost` returns the price of a model call in US dollars, None if it is
    unknown.
    """

    outcomes: TraceOutcomes
    sessions: ports.SessionAggregation
    store: ports.EvaluationStore
    embed: Embed
    clock: Clock
    read: ports.Reader
    telemetry: Telemetry
    run_trace: Callable[[Trace, str], RunTrace | None]
    cost: Callable[[ModelCall], float | None]
    observation: TraceObservation
    conversations: ports.ConversationFinder
    turns: ports.TurnFinder
    earlier: ports.EarlierTraces
    own_sessions: ports.OwnSessions
    readings: LastReadings = field(init=False, default_factory=LastReadings)

    def evaluate(self, assembled: AssembledTrace, commit: Commit, failure: Failure | None = None) -> StoredPlace | None:
        """Add to `commit` all results of the trace except for the scores of its session.

        If this revision belongs to another session than the one before, return the place that the trace has left. With
        the `failure` of an earlier attempt the trace is stored as failed, and is not read.
        """
        # Steps that may raise RetryableError come before any change that must be made only once, because they are tried
        # again from here.
        before = self._stored_place(assembled, commit)
        trace, unreadable = self._attempt(assembled) if failure is None else (_unread(assembled), failure)
        # The session is looked for once at most, and only where it is needed.
        place = cache(partial(self.conversations.place, trace, assembled.revision, commit))
        if self.own_sessions.hands_on(assembled, lambda: trace.session_id or place().session_id):
            return None
        # Called for the first revision too, because the call also remembers the reading.
        is_same = unreadable is None and self.readings.same(assembled, trace, before)
        if before is not None and is_same:
            is_first = not self.sessions.previous(before.session_id, _place(trace))
            seen = self.observation.seen_in(trace, is_first=is_first)
            commit.same.append(_same(assembled, trace, before.session_id, seen))
            return None
        place().add_to(commit)
        session_id = place().session_id
        trace = self.turns.joined(trace, session_id, commit)
        if before is not None and before.session_id != session_id:
            self.sessions.leave(before.session_id, trace.trace_id)
            commit.left.add(before.session_id)
        evaluated = self._evaluated(trace, assembled, session_id, unreadable)
        # A trace without an agent is stored with its status, but belongs to no session.
        in_session = bool(trace.turns) or trace.session_id is not None or assembled.death is not None
        if in_session:
            self._join(session_id, assembled, evaluated, before, commit)
        self._count(trace, assembled)
        commit.evaluations += evaluated.evaluations
        commit.traces.append(self._scored_trace(session_id, assembled, evaluated, in_session=in_session))
        if before is None or before.session_id == session_id:
            return None
        commit.overtaken.append((trace.trace_id, before.session_id))
        return before

    def _count(self, trace: Trace, assembled: AssembledTrace) -> None:
        for kind, values in trace.unread.items():
            self.telemetry.count(Counted.UNREAD, values, kind)
        if assembled.revision == 1 and (why := why_partial(trace, assembled)):
            self.telemetry.count(Counted.PARTIAL, which=why)

    def forget(self, trace_ids: Iterable[str]) -> None:
        """Forget the readings of these traces."""
        for trace_id in trace_ids:
            self.readings.forget(trace_id)

    def look_again(self, traces: Sequence[AssembledTrace], commit: Commit) -> None:
        """Look again for findings on told calls, in the traces that are told of other calls because of `commit`.

        `traces` are those that `commit` was made of.
        """
        at_hand = {each.trace_id: each for each in traces}
        revised_turns: list[RevisedTurn] = []
        for trace_id, session_id in self.turns.behind(commit).items():
            assembled = at_hand.get(trace_id) or self.earlier.trace(trace_id)
            trace, unreadable = (None, None) if assembled is None else self._attempt(assembled)
            if assembled is None or trace is None or unreadable is not None or not trace.turns:
                continue
            trace = self.turns.joined(trace, session_id, commit)
            found = self.observation.observe(
                trace, assembled, session_id=session_id, is_first=False, turns=turn_of(trace)
            )
            span_id = trace.turns[0].span_id
            on_turn = [each for each in found if each.kind in CROSS_TRACE_KINDS and each.span_id == span_id]
            revised_turns.append(
                RevisedTurn(trace_id=trace_id, session_id=session_id, span_id=span_id, findings=on_turn)
            )
        commit.revised_turns = revised_turns

    def _evaluated(
        self, trace: Trace, assembled: AssembledTrace, session_id: str, unreadable: Failure | None
    ) -> _Evaluated:
        """Return the results of the trace itself, and of its comparison with the earlier turns of its session."""
        previous = self.sessions.previous(session_id, _place(trace))
        context = EvaluationContext(trace, [turn.answer for turn in previous], self.embed)
        evaluations = self.outcomes.find(context, session_id, assembled.revision, unreadable)
        said = [said_in(*turn) for turn in zip(trace.turns, context.answers, strict=True)]
        if trace.turn_goes_on:
            del said[-1]  # The turn counts for the trace in which it ends.
        turns = turn_of(trace)
        seen = self.observation.seen_in(trace, is_first=not previous)
        findings = self.observation.observe(trace, assembled, session_id=session_id, is_first=not previous, turns=turns)
        compared = next((each for each in evaluations if each.name == LoopDetection.name), None)
        if compared is not None:
            findings += self.observation.in_answers(compared, previous, said)
        evaluations += self.outcomes.left_to_judge(trace, session_id, assembled.revision, unreadable, findings)
        return _Evaluated(
            trace=trace,
            view=_view(assembled, trace, session_id, seen),
            evaluations=evaluations,
            findings=findings,
            seen=seen,
            said=said,
            turns=turns,
            effort=self.observation.efforts.of(trace),
        )

    def _join(
        self,
        session_id: str,
        assembled: AssembledTrace,
        evaluated: _Evaluated,
        before: StoredPlace | None,
        commit: Commit,
    ) -> None:
        """Put the trace into its session, and evaluate again the traces that come after it there."""
        trace = evaluated.trace
        member = Member(
            trace_id=trace.trace_id,
            started_at=trace.started_at,
            said=evaluated.said,
            signals={each.name: each for each in evaluated.evaluations if each.name in SIGNAL_NAMES},
        )
        # A trace that was in another session before counts here as new, with all of its effort.
        stayed = before if before is not None and before.session_id == session_id else None
        added = evaluated.effort if stayed is None else evaluated.effort - stayed.effort
        says_more = stayed is None or not self.store.says_the_same(evaluated.view)
        session = self.sessions.put_trace(
            session_id,
            trace,
            member,
            assembled.received_at,
            added,
            evaluated.seen,
            before=None if stayed is None else stayed.place,
            says_more=says_more,
        )
        if not session.is_unusual and (unusual := self.observation.unusual_effort(trace, session)):
            evaluated.findings += unusual
            self.sessions.found_unusual(session_id)
        # A revision may start earlier than the one before: traces behind either place may repeat other answers now.
        places = [_place(trace)] if stayed is None else [stayed.place, _place(trace)]
        is_overtaken = self.rescore_behind(session_id, places, commit, member)
        if is_overtaken and (trace.turn_goes_on or stayed is not None):
            commit.overtaken.append((trace.trace_id, session_id))

    def _scored_trace(
        self, session_id: str, assembled: AssembledTrace, evaluated: _Evaluated, *, in_session: bool
    ) -> ScoredTrace:
        trace = evaluated.trace
        return ScoredTrace(
            trace_id=trace.trace_id,
            session_id=session_id,
            started_at=trace.started_at,
            revision=assembled.revision,
            view=evaluated.view,
            continues_turn=trace.continues_turn,
            turn_goes_on=trace.turn_goes_on,
            offsets=assembled.offsets,
            died=assembled.death.reason if assembled.death is not None else None,
            processes=_processes(assembled),
            run=trace.run,
            run_trace=self.run_trace(trace, session_id),
            findings=evaluated.findings,
            turn_of=evaluated.turns,
            text=searchable(trace),
            effort=evaluated.effort,
            work=work_of(trace, self.cost, evaluated.findings) if in_session and assembled.revision == 1 else None,
            in_session=in_session,
            agent=trace.agent,
            service=trace.service,
            service_version=trace.service_version,
            environment=trace.environment,
            scored_at=self.clock.now(),
        )

    def goals(self, session_ids: Sequence[str]) -> list[Evaluation]:
        """Return the outcomes of the goals of sessions that are over, to be judged or final.

        A session has one such outcome for each revision in which it came to rest.
        """
        found = (
            (state, self.outcomes.judging.refer_session(state.session_id))
            for state in self.store.without_goal(session_ids)
        )
        return [
            Evaluation(
                name=referral.name,
                version=referral.version,
                method=Method.LLM,
                subject=SubjectKind.SESSION,
                subject_id=state.session_id,
                revision=state.revision,
                outcome=referral.outcome,
                threshold=referral.threshold,
                session_id=state.session_id,
                trace_id=None,
                span_id=None,
                agent=state.agent,
                service=state.services[0] if state.services else None,
                service_version=state.versions[-1] if state.versions else None,
                environment=state.environment,
                model=referral.model,
                part=referral.part,
                evaluated_at=self.clock.now(),
            )
            for state, referral in found
            if referral is not None
        ]

    def judged(self, judgement: Judgement, commit: Commit) -> None:
        """Add a judgement to `commit`. Add nothing if the trace or session has a newer revision."""
        if self.replace_judged(judgement.evaluations, commit):
            commit.judgements.append(judgement)

    def replace_judged(self, evaluations: Sequence[Evaluation], commit: Commit) -> bool:
        """Add new judged outcomes of one revision to `commit`.

        Return False, and add nothing, if the trace or session has another revision by now.
        """
        first = evaluations[0]
        if first.subject is SubjectKind.SESSION:
            if self.store.session_revision(first.subject_id) != first.revision:
                return False
            commit.evaluations += evaluations
            return True
        stored_place = self.store.stored_place(first.subject_id)
        if stored_place is None or stored_place.revision != evaluations[0].revision:
            return False
        # This reads the store and may be tried again, so it comes before anything is added.
        changed = self.sessions.judged(stored_place.session_id, stored_place.place, evaluations)
        # The trace may have moved to another session since the judge was asked.
        commit.evaluations += [replace(each, session_id=stored_place.session_id) for each in evaluations]
        if changed is not None:
            commit.add(changed)
        return True

    def _stored_place(self, assembled: AssembledTrace, commit: Commit) -> StoredPlace | None:
        """Return the place of the revision before this one. Return None for the first revision."""
        if assembled.revision == 1:
            return None
        # The revision before may be in the same commit, where the store does not have it yet.
        for scored in reversed(commit.traces):
            if scored.trace_id == assembled.trace_id:
                place = (scored.started_at, scored.trace_id)
                # Only the store knows whether an outcome of it will wait for the judge: taken for granted here.
                return StoredPlace(
                    session_id=scored.session_id,
                    place=place,
                    revision=scored.revision,
                    pending=True,
                    effort=scored.effort,
                )
        return self.store.stored_place(assembled.trace_id)

    def _attempt(self, assembled: AssembledTrace) -> tuple[Trace, Failure | None]:
        """Return the trace as read, without a failure. If the readers fail, return a bare trace and the failure."""
        try:
            return self.read(assembled), None
        except Exception as error:
            logger.exception("trace %s could not be read", assembled.trace_id)
            return _unread(assembled), failure_of(error, "the trace could not be read")

    def rescore_behind(
        self, session_id: str, places: Sequence[tuple[int, str]], commit: Commit, trace: Member | None = None
    ) -> bool:
        """Evaluate again which answers the traces behind `places` repeat. Return whether there are such traces.

        Needed when a trace has left one of the places, or when `trace` arrived there late or as a new revision.
        """
        followers = self.sessions.followers(session_id, places, trace)
        for follower, previous in followers:
            known = follower.signals.get(LoopDetection.name)
            answers = [turn.answer for turn in follower.said]
            # Outcomes without an answer do not depend on earlier traces.
            if known is None or not any(answers):
                continue
            # The outcome may be from the time when the trace was in another session.
            known = replace(known, session_id=session_id)
            commit.findings += self.observation.in_answers(known, previous, follower.said)
            outcome = repetition(answers, [turn.answer for turn in previous])
            if outcome == known.outcome:
                continue
            rescored = replace(known, outcome=outcome, evaluated_at=self.clock.now())
            commit.evaluations.append(rescored)
            self.sessions.rescore(session_id, follower, rescored)
        return bool(followers)


def _place(trace: Trace) -> tuple[int, str]:
    """Return the place of the trace in its session."""
    return trace.started_at, trace.trace_id


def _view(assembled: AssembledTrace, trace: Trace, session_id: str, seen: Seen) -> TraceView:
    return view_of(
        trace,
        session_id=session_id,
        revision=assembled.revision,
        complete=assembled.complete,
        death=assembled.death,
        closing=assembled.closing,
        seen=seen,
    )


def _processes(assembled: AssembledTrace) -> list[str]:
    return sorted(assembled.processes)[:MAX_PROCESSES]


def _same(assembled: AssembledTrace, trace: Trace, session_id: str, seen: Seen) -> SameTrace:
    return SameTrace(
        trace_id=trace.trace_id,
        revision=assembled.revision,
        view=_view(assembled, trace, session_id, seen),
        offsets=assembled.offsets,
        processes=_processes(assembled),
    )


def _unread(assembled: AssembledTrace) -> Trace:
    return Trace(trace_id=assembled.trace_id, span_count=len(assembled.spans))
