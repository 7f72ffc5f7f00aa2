"""Read a complete trace, observe and score it, put it into its session, and collect all that in a commit.

All of it belongs to one thread. These evaluators compute, and Python's threads would only take turns at it.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial

from agenteval_collector.evaluation.observation import TraceObservation, searchable, turn_of
from agenteval_collector.evaluation.outcomes import TraceOutcomes, failure_of
from agenteval_collector.evaluation.ports import (
    ConversationFinder,
    EarlierTraces,
    EvaluationStore,
    OwnSessions,
    Reader,
    SessionAggregation,
    TurnFinder,
)
from agenteval_collector.evaluation.reading import why_partial
from agenteval_collector.evaluation.unchanged_revisions import LastReadings
from agenteval_collector.evaluators import EvaluationContext
from agenteval_collector.evaluators.loop_detection import LoopDetection, repetition
from agenteval_collector.evaluators.ports import Embed
from agenteval_collector.model.agent_work import work_of
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.commit import CROSS_TRACE_KINDS, Commit, RevisedTurn, SameTrace, TraceRecord
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.effort import Effort
from agenteval_collector.model.judge_jobs import Judgement
from agenteval_collector.model.runs import RunTrace
from agenteval_collector.model.sessions import Member, StoredPlace
from agenteval_collector.model.trace_view import TraceView, view_of
from agenteval_collector.model.turn_summary import TurnSummary, said_in
from agenteval_collector.runtime.clock import Clock
from otel_agenteval.finding import Finding, Seen
from otel_agenteval.metrics import SIGNAL_NAMES
from otel_agenteval.model import ModelCall, Trace
from otel_agenteval.outcome import Evaluation, Failure, Method, SubjectKind

logger = logging.getLogger(__name__)

MAX_PROCESSES = 64
"""Processes that are kept of a trace."""


@dataclass(slots=True, kw_only=True)
class _Evaluated:
    """The results of one trace. `said` are its turns, `turns` the number of the turn of each span."""

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
    """Evaluates traces one after the other. `run_trace` sums up a trace for its run, `cost` prices a model call in US
    dollars, None where it cannot."""

    outcomes: TraceOutcomes
    sessions: SessionAggregation
    store: EvaluationStore
    embed: Embed
    clock: Clock
    read: Reader
    telemetry: Telemetry
    run_trace: Callable[[Trace, str], RunTrace | None]
    cost: Callable[[ModelCall], float | None]
    observation: TraceObservation
    conversations: ConversationFinder
    turns: TurnFinder
    earlier: EarlierTraces
    own_sessions: OwnSessions
    readings: LastReadings = field(init=False, default_factory=LastReadings)

    def evaluate(self, assembled: AssembledTrace, commit: Commit, failure: Failure | None = None) -> StoredPlace | None:
        """Add to `commit` everything that follows from the trace but the scores of its session. Returns the place it
        has left, if this revision belongs elsewhere.

        With the `failure` of an earlier attempt the trace is kept as failed, without being read.
        """
        # Everything that may have to be tried again comes before anything is changed.
        before = self._stored_place(assembled, commit)
        trace, unreadable = self._attempt(assembled) if failure is None else (_unread(assembled), failure)
        # Looked for once, and only where it matters.
        place = cache(partial(self.conversations.place, trace, assembled.revision, commit))
        if self.own_sessions.hands_on(assembled, lambda: trace.session_id or place().session_id):
            return None
        # Called for the first revision too: this remembers it.
        is_same = unreadable is None and self.readings.same(assembled, trace, before)
        if before is not None and is_same:
            is_first = not self.sessions.previous(before.session_id, _place(trace))
            seen = self.observation.seen_in(trace, is_first=is_first)
            commit.same.append(_same(assembled, trace, before.session_id, seen))
            return None
        for kind, values in trace.unread.items():
            self.telemetry.count(Counted.UNREAD, values, kind)
        if assembled.revision == 1 and (why := why_partial(trace, assembled)):
            self.telemetry.count(Counted.PARTIAL, which=why)
        place().keep(commit)
        session_id = place().session_id
        trace = self.turns.joined(trace, session_id, commit)
        if before is not None and before.session_id != session_id:
            self.sessions.leave(before.session_id, trace.trace_id)
            commit.left.add(before.session_id)
        evaluated = self._evaluated(trace, assembled, session_id, unreadable)
        commit.evaluations += evaluated.evaluations
        # Telemetry of no agent is stored with its status, but belongs to no session.
        in_session = bool(trace.turns) or trace.session_id is not None or assembled.death is not None
        if in_session:
            self._join(session_id, assembled, evaluated, before, commit)
        commit.traces.append(self._record(session_id, assembled, evaluated, in_session=in_session))
        if before is None or before.session_id == session_id:
            return None
        commit.overtaken.append((trace.trace_id, before.session_id))
        return before

    def forget(self, trace_ids: Iterable[str]) -> None:
        """Forget what was read of these traces."""
        for trace_id in trace_ids:
            self.readings.forget(trace_id)

    def look_again(self, traces: Sequence[AssembledTrace], commit: Commit) -> None:
        """Look again for findings on told calls in traces that those of `commit`, made of `traces`, tell of calls."""
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
        """Return everything that is found in the trace itself and against the earlier turns of its session."""
        previous = self.sessions.previous(session_id, _place(trace))
        context = EvaluationContext(trace, [turn.answer for turn in previous], self.embed)
        evaluations = self.outcomes.find(context, session_id, assembled.revision, unreadable)
        said = [said_in(*turn) for turn in zip(trace.turns, context.answers, strict=True)]
        if trace.turn_goes_on:
            del said[-1]  # It is said by the trace in which the turn ends.
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
        """Put the trace into its session, and evaluate the traces that come after it there again."""
        trace = evaluated.trace
        member = Member(
            trace_id=trace.trace_id,
            started_at=trace.started_at,
            said=evaluated.said,
            signals={each.name: each for each in evaluated.evaluations if each.name in SIGNAL_NAMES},
        )
        stayed = before if before is not None and before.session_id == session_id else None
        added = evaluated.effort if stayed is None else evaluated.effort - stayed.effort
        says_more = stayed is None or not self.store.says_the_same(evaluated.view)
        session = self.sessions.put(
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
        places = [_place(trace)] if stayed is None else [stayed.place, _place(trace)]
        is_overtaken = self.rescore_behind(session_id, places, commit, member)
        if is_overtaken and (trace.turn_goes_on or stayed is not None):
            commit.overtaken.append((trace.trace_id, session_id))

    def _record(
        self, session_id: str, assembled: AssembledTrace, evaluated: _Evaluated, *, in_session: bool
    ) -> TraceRecord:
        trace = evaluated.trace
        return TraceRecord(
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

    def remember_efforts(self, efforts: Sequence[tuple[str, Effort]]) -> None:
        """Remember the effort of sessions that are over, in this order, with their agents."""
        self.observation.efforts.remember_efforts(efforts)

    def goals(self, session_ids: Sequence[str]) -> list[Evaluation]:
        """Return what is to be said of the goals of sessions that are over, once for all that was said in them."""
        found = (
            (record, self.outcomes.judging.refer_session(record.session_id))
            for record in self.store.without_goal(session_ids)
        )
        return [
            Evaluation(
                name=referral.name,
                version=referral.version,
                method=Method.LLM,
                subject=SubjectKind.SESSION,
                subject_id=record.session_id,
                revision=record.revision,
                outcome=referral.outcome,
                threshold=referral.threshold,
                session_id=record.session_id,
                trace_id=None,
                span_id=None,
                agent=record.agent,
                service=record.services[0] if record.services else None,
                service_version=record.versions[-1] if record.versions else None,
                environment=record.environment,
                model=referral.model,
                part=referral.part,
                evaluated_at=self.clock.now(),
            )
            for record, referral in found
            if referral is not None
        ]

    def judged(self, judgement: Judgement, commit: Commit) -> None:
        """Add to `commit` the judge's answer. Nothing is added where the trace has a newer revision."""
        if self.replace_judged(judgement.evaluations, commit):
            commit.judgements.append(judgement)

    def replace_judged(self, evaluations: Sequence[Evaluation], commit: Commit) -> bool:
        """Add to `commit` new judged outcomes of a revision. Returns False where the trace has another one by now."""
        first = evaluations[0]
        if first.subject is SubjectKind.SESSION:
            if self.store.session_revision(first.subject_id) != first.revision:
                return False
            commit.evaluations += evaluations
            return True
        stored_place = self.store.stored_place(first.subject_id)
        if stored_place is None or stored_place.revision != evaluations[0].revision:
            return False
        # Reads the store, so it may have to be tried again, and comes before anything is added.
        changed = self.sessions.judged(stored_place.session_id, stored_place.place, evaluations)
        # Its trace may be in another session than when the judge was asked.
        commit.evaluations += [replace(each, session_id=stored_place.session_id) for each in evaluations]
        if changed is not None:
            commit.add(changed)
        return True

    def _stored_place(self, assembled: AssembledTrace, commit: Commit) -> StoredPlace | None:
        """Return the place of the revision before; None for the first revision."""
        if assembled.revision == 1:
            return None
        for record in reversed(commit.traces):
            if record.trace_id == assembled.trace_id:
                place = (record.started_at, record.trace_id)
                # Whether anything of it will wait for the judge is known when it is stored.
                return StoredPlace(
                    session_id=record.session_id,
                    place=place,
                    revision=record.revision,
                    pending=True,
                    effort=record.effort,
                )
        return self.store.stored_place(assembled.trace_id)

    def _attempt(self, assembled: AssembledTrace) -> tuple[Trace, Failure | None]:
        """Read the trace. Where our readers fail, return what can be said without them, and the failure."""
        try:
            return self.read(assembled), None
        except Exception as error:
            logger.exception("trace %s could not be read", assembled.trace_id)
            return _unread(assembled), failure_of(error, "the trace could not be read")

    def rescore_behind(
        self, session_id: str, places: Sequence[tuple[int, str]], commit: Commit, trace: Member | None = None
    ) -> bool:
        """Evaluate again what the traces behind these places repeat, as one left, or `trace` arrived late or again.
        Returns whether there are any."""
        followers = self.sessions.followers(session_id, places, trace)
        for follower, previous in followers:
            known = follower.signals.get(LoopDetection.name)
            answers = [turn.answer for turn in follower.said]
            # Outcomes without an answer do not depend on earlier traces.
            if known is None or not any(answers):
                continue
            # It may have been found in a session that the trace was in before.
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
