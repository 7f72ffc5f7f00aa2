"""The way of one complete trace through the evaluation: read, put into a session, scored, observed, committed.

`TraceEvaluation.evaluate` goes this way from top to bottom and adds what it finds to the changes of a pass. `commit`
stores them. Everything here belongs to one thread. The evaluators compute all the time, so several Python threads would
only take turns.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from agenteval_collector.config.findings import FindingsConfig
from agenteval_collector.evaluation.agent_identities import AgentIdentities
from agenteval_collector.evaluation.conversations.linking import Conversations
from agenteval_collector.evaluation.conversations.running_turns import RunningTurns
from agenteval_collector.evaluation.doubtful_step import doubtful_step
from agenteval_collector.evaluation.embedding import EmbeddedEmbedder
from agenteval_collector.evaluation.evaluators import EvaluationContext, TraceEvaluator
from agenteval_collector.evaluation.evaluators.loop_detection import LoopDetection, repetition
from agenteval_collector.evaluation.findings.effort import AgentEfforts
from agenteval_collector.evaluation.findings.trace import Observed, findings_in, seen_in
from agenteval_collector.evaluation.findings.trace_loops import TraceLoops
from agenteval_collector.evaluation.judged_reasons import JudgedReasons
from agenteval_collector.evaluation.ports import EarlierTraces, OwnSessions
from agenteval_collector.evaluation.preparing import Appraisal, Prepared, has_truth, outcome_of, read, unread
from agenteval_collector.evaluation.reading import LastReadings, TraceReader, why_partial
from agenteval_collector.evaluation.referrals import Referrals
from agenteval_collector.evaluation.run_trace import Detector, sum_up
from agenteval_collector.evaluation.sessions.in_memory import Changes, Neighbours, Sessions
from agenteval_collector.evaluation.shared_calls import SharedCalls
from agenteval_collector.evaluation.unfinished import is_unfinished, unfinished_run
from agenteval_collector.model.agent_work import AgentWork, work_of
from agenteval_collector.model.assembled_trace import AssembledTrace, Death
from agenteval_collector.model.callers import sender_of
from agenteval_collector.model.commit import CROSS_TRACE_KINDS, Commit, RevisedTurn, ScoredTrace
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.judge_jobs import Judgement
from agenteval_collector.model.news import News
from agenteval_collector.model.prices import TokenPrices
from agenteval_collector.model.sessions import Member, SessionState, StoredPlace
from agenteval_collector.model.trace_view import DoubtfulStep, TraceView, view_of
from agenteval_collector.model.turn_summary import TurnSummary, said_in
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.stores.store import Store
from otel_agenteval.finding import Finding, FindingKind, Seen
from otel_agenteval.metrics.signals import SIGNAL_NAMES
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Evaluation, Failure, Method, Outcome, SubjectKind

logger = logging.getLogger(__name__)

MAX_PROCESSES = 64
"""The most processes of a trace that are stored."""
MAX_SAID = 16 * 1024
"""Characters of a trace's text that can be searched. The rest is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvaluation:
    """Evaluates traces one after the other, and stores the results.

    `safety` look for violations of constraints in the traces of runs. `earlier` has the traces that were evaluated
    before.
    """

    reader: TraceReader
    conversations: Conversations
    turns: RunningTurns
    sessions: Sessions
    outcomes: "TraceOutcomes"
    observation: "TraceObservation"
    reasons: JudgedReasons
    prices: TokenPrices
    safety: Sequence[Detector]
    store: Store
    earlier: EarlierTraces
    own_sessions: OwnSessions
    telemetry: Telemetry
    clock: Clock
    readings: LastReadings = field(init=False, default_factory=LastReadings)
    shared_calls: SharedCalls = field(init=False, default_factory=SharedCalls)
    identities: AgentIdentities = field(init=False, default_factory=AgentIdentities)

    def evaluate(
        self,
        assembled: AssembledTrace,
        changes: Changes,
        failure: Failure | None = None,
        prepared: Prepared | None = None,
    ) -> None:
        """Add all results of the trace to `changes`, except for the scores of its session.

        With the `failure` of an earlier attempt the trace is stored as failed, and is not read. What is `prepared` is
        not computed again. After a RetryableError the trace can be evaluated again with the same changes, because all
        look-ups come before any change that must be made only once.
        """
        commit = changes.commit
        # Read.
        before = self._stored_place(assembled, commit)
        if failure is not None:
            prepared = Prepared(unread(assembled), failure)
        trace, unreadable, appraisal = prepared or read(self.reader, assembled)
        placed = None
        if not self.own_sessions.is_all:
            if trace.session_id is None:
                placed = self.conversations.place(trace, assembled.revision, commit)
            if self.own_sessions.hands_on(assembled, placed.session_id if placed else trace.session_id or ""):
                return
        # Called for the first revision too, because the call also remembers the reading.
        is_same = unreadable is None and self.readings.same(assembled, trace, before, self.reader.read_apart)
        trace = self.identities.named(trace, assembled)
        position = trace.started_at, trace.trace_id
        if before is not None and is_same:
            is_first = not changes.around(before.session_id, position).before(position)
            visibility = seen_in(trace, is_first=is_first)
            view = _view(assembled, trace, before.session_id, visibility, doubtful_step(trace))
            commit.same.append(ScoredTrace(view=view, offsets=assembled.offsets, processes=_processes(assembled)))
            return

        # Find its session.
        placed = placed or self.conversations.place(trace, assembled.revision, commit)
        placed.add_to(commit)
        session_id = placed.session_id
        trace = self.turns.joined(trace, session_id, commit)
        if trace.told:
            appraisal = None  # Calls of earlier traces count, of which nothing was known.
        stayed = before if before is not None and before.session_id == session_id else None
        if before is not None and stayed is None:
            changes.leave(before.session_id, trace.trace_id)
        near = changes.around(session_id, *([] if stayed is None else [stayed.place]), position)

        self._score(trace, assembled, unreadable, near, stayed, changes, appraisal)
        self._count(trace, assembled)
        if before is not None and stayed is None:
            commit.overtaken.append((trace.trace_id, before.session_id))
            commit.left.append(before)

    def _score(
        self,
        trace: Trace,
        assembled: AssembledTrace,
        unreadable: Failure | None,
        near: Neighbours,
        stayed: StoredPlace | None,
        changes: Changes,
        known: Appraisal | None,
    ) -> None:
        """Score and observe a trace, and put it into the session `near` it, if an earlier revision may have
        `stayed`. What is `known` of it is not computed again."""
        session_id = near.session_id
        previous = near.before((trace.started_at, trace.trace_id))
        context = EvaluationContext(
            trace, [turn.answer for turn in previous], self.outcomes.embedder.embed, known and known.answers
        )
        evaluations = self.outcomes.find(context, session_id, assembled.revision, unreadable, known and known.outcomes)
        answered = zip(trace.turns, context.answers, strict=True)
        summaries = [said_in(turn, answer) for turn, answer in answered if not turn.is_orphan]
        if trace.turn_goes_on:
            del summaries[-1]  # The turn counts for the trace in which it ends.

        turns = turn_of(trace)
        findings = self.observation.observe(
            trace,
            assembled,
            session_id=session_id,
            is_first=not previous,
            turns=turns,
            observed=known and known.observed,
        )
        compared = next((evaluation for evaluation in evaluations if evaluation.name == LoopDetection.name), None)
        if compared is not None:
            findings += self.observation.in_answers(compared, previous, summaries)
        evaluations += self.outcomes.left_to_judge(trace, session_id, assembled.revision, unreadable, findings)

        doubtful = doubtful_step(trace) if known is None else known.doubtful
        view = _view(assembled, trace, session_id, seen_in(trace, is_first=not previous), doubtful)
        elsewhere = self.shared_calls.elsewhere(trace, session_id)
        effort = self.observation.efforts.of(trace, elsewhere)
        # A trace without an agent is stored with its status, but belongs to no session.
        in_session = trace.has_turns or trace.session_id is not None or assembled.death is not None
        if in_session:
            signals = {evaluation.name: evaluation for evaluation in evaluations if evaluation.name in SIGNAL_NAMES}
            member = Member(
                trace_id=trace.trace_id, started_at=trace.started_at, signals=signals, effort=effort, said=summaries
            )
            findings += self._put(trace, assembled, member, view, near, stayed, changes)

        changes.commit.evaluations += evaluations
        processes = _processes(assembled)
        changes.commit.traces.append(
            ScoredTrace(
                view=view,
                offsets=assembled.offsets,
                processes=processes,
                run=trace.run,
                run_trace=sum_up(
                    self.prices.of_calls,
                    self.safety,
                    trace,
                    session_id,
                    _senders(processes),
                    known and known.checks,
                ),
                findings=findings,
                turn_of=turns,
                text=searchable(trace),
                effort=effort,
                work=self._work(trace, findings, assembled, elsewhere) if in_session or trace.turns else None,
                in_session=in_session,
                # What is no turn of an agent counts for none.
                agent=trace.agent if trace.has_turns or assembled.death is not None else None,
                service=trace.service,
                service_version=trace.service_version,
                environment=trace.environment,
                scored_at=self.clock.now(),
            )
        )

    def _put(
        self,
        trace: Trace,
        assembled: AssembledTrace,
        member: Member,
        view: TraceView,
        near: Neighbours,
        stayed: StoredPlace | None,
        changes: Changes,
    ) -> list[Finding]:
        """Put a trace into the session `near` it. Return what is found of that session."""
        session_id = near.session_id
        says_more = stayed is None or not self.store.says_the_same(view)
        session = changes.put(
            near,
            trace,
            member,
            received_at=assembled.received_at,
            visibility=view.seen,
            stayed=stayed,
            says_more=says_more,
        )
        unusual = [] if session.is_unusual else self.observation.unusual_effort(trace, session)
        if unusual:
            changes.found_unusual(session_id)
        # A revision may start earlier than the one before: traces behind either place may repeat other answers now.
        is_overtaken = self._compare_again(near, changes, but=trace.trace_id)
        if is_overtaken and (trace.turn_goes_on or stayed is not None):
            changes.commit.overtaken.append((trace.trace_id, session_id))
        return unusual

    def _work(
        self, trace: Trace, findings: Sequence[Finding], assembled: AssembledTrace, elsewhere: Collection[str]
    ) -> AgentWork:
        prices = self.prices
        trace = trace if trace.has_turns else self.identities.with_sibling(trace)
        return work_of(
            trace, prices.of_call, findings, assembled.revision, elsewhere, embedding_usd=prices.of_embedding_usd
        )

    def look_again(self, traces: Sequence[AssembledTrace], commit: Commit) -> None:
        """Look again for findings on told calls, in the traces that are told of other calls because of `commit`.

        `traces` are those that `commit` was made of. Raises RetryableError.
        """
        at_hand = {trace.trace_id: trace for trace in traces}
        revised_turns: list[RevisedTurn] = []
        for trace_id, session_id in self.turns.behind(commit).items():
            assembled = at_hand.get(trace_id) or self.earlier.trace(trace_id)
            if assembled is None:
                continue
            trace, unreadable, _ = read(self.reader, assembled)
            if unreadable is not None or not trace.turns:
                continue
            trace = self.identities.named(trace, assembled)
            trace = self.turns.joined(trace, session_id, commit)
            findings = self.observation.observe(
                trace, assembled, session_id=session_id, is_first=False, turns=turn_of(trace)
            )
            span_id = trace.turns[0].span_id
            on_turn = [
                finding for finding in findings if finding.kind in CROSS_TRACE_KINDS and finding.span_id == span_id
            ]
            revised_turns.append(
                RevisedTurn(trace_id=trace_id, session_id=session_id, span_id=span_id, findings=on_turn)
            )
        commit.revised_turns = revised_turns

    def commit(self, changes: Changes) -> News:
        """Score the sessions that have changed, store all changes, and return what is new. Raises RetryableError.

        Raises Outdated or Superseded, with nothing stored, if another process was faster.
        """
        news = self.store.commit(changes.score())
        self.sessions.keep(changes)
        return news

    def recount(self, commit: Commit) -> Changes:
        """Read the sessions again that traces have left or joined with a stored `commit`. Return their new scores.

        Raises RetryableError.
        """
        changes = self.sessions.begin()
        moves = commit.moves.values()
        places = [(session.session_id, session.place) for session in commit.left]
        places += [(move.left, move.place) for move in moves]
        places += [(move.joined, (move.started_at, "")) for move in moves]
        for session_id in dict.fromkeys(session_id for session_id, _ in places):
            changes.read_again(session_id)
        for session_id, position in places:
            self._compare_again(changes.around(session_id, position), changes)
        return changes

    def judge(self, judgement: Judgement, changes: Changes) -> None:
        """Add a judgement to `changes`. Add nothing if the trace or session has a newer revision."""
        if self.replace_judged(self.reasons.grouped(judgement.evaluations), changes):
            changes.commit.judgements.append(judgement)

    def replace_judged(self, evaluations: Sequence[Evaluation], changes: Changes) -> bool:
        """Add new judged outcomes of one revision to `changes`.

        Return False, and add nothing, if the trace or session has another revision by now. Raises RetryableError.
        """
        first = evaluations[0]
        if first.subject is SubjectKind.SESSION:
            if self.store.session_revision(first.subject_id) != first.revision:
                return False
            changes.commit.evaluations += evaluations
            return True
        stored_place = self.store.stored_place(first.subject_id)
        if stored_place is None or stored_place.revision != first.revision:
            return False
        # This reads the store and may be tried again, so it comes before anything is added.
        changes.judge(stored_place.session_id, stored_place.place, evaluations)
        # The trace may have moved to another session since the judge was asked.
        changes.commit.evaluations += [
            replace(evaluation, session_id=stored_place.session_id) for evaluation in evaluations
        ]
        return True

    def goals(self, session_ids: Sequence[str]) -> list[Evaluation]:
        """Return the outcomes of the goals of sessions that are over, to be judged or final.

        A session has one such outcome for each revision in which it came to rest. Raises RetryableError.
        """
        states = self.store.without_goal(session_ids)
        outcomes = [self.outcomes.goal(state) for state in states]
        return [evaluation for evaluation in outcomes if evaluation is not None]

    def forget(self, trace_ids: Iterable[str]) -> None:
        """Forget the readings of these traces."""
        for trace_id in trace_ids:
            self.readings.forget(trace_id)

    def _stored_place(self, assembled: AssembledTrace, commit: Commit) -> StoredPlace | None:
        """Return the place of the revision before this one. Return None for the first revision."""
        if assembled.revision == 1:
            return None
        # The revision before may be in the same commit, if the store does not have it yet.
        for scored in reversed(commit.traces):
            if scored.trace_id == assembled.trace_id:
                # Only the store knows whether an outcome of it will wait for the judge: taken for granted here.
                return StoredPlace(
                    session_id=scored.session_id,
                    place=scored.view.place,
                    revision=scored.revision,
                    pending=True,
                    effort=scored.effort,
                )
        return self.store.stored_place(assembled.trace_id)

    def _compare_again(self, near: Neighbours, changes: Changes, *, but: str | None = None) -> bool:
        """Evaluate again which answers the traces behind the places of `near` repeat. Return whether there are any.

        Needed if the trace `but` has come there late or as a new revision, or if a trace has left one of the places.
        """
        behind = near.behind(but)
        for member, previous in behind:
            known = member.signals.get(LoopDetection.name)
            answers = [turn.answer for turn in member.said]
            # Outcomes without an answer do not depend on earlier traces.
            if known is None or not any(answers):
                continue
            # The outcome may be from the time when the trace was in another session.
            outcome = repetition(answers, [turn.answer for turn in previous])
            rescored = replace(known, session_id=near.session_id, outcome=outcome, evaluated_at=self.clock.now())
            changes.commit.findings += self.observation.in_answers(rescored, previous, member.said)
            if outcome == known.outcome:
                continue
            changes.commit.evaluations.append(rescored)
            changes.rescore(near, member, rescored)
        return bool(behind)

    def _count(self, trace: Trace, assembled: AssembledTrace) -> None:
        for kind, values in trace.unread.items():
            self.telemetry.count(Counted.UNREAD, values, kind)
        if assembled.revision == 1 and (why := why_partial(trace, assembled)):
            self.telemetry.count(Counted.PARTIAL, which=why)


def _view(
    assembled: AssembledTrace, trace: Trace, session_id: str, visibility: Seen, doubtful: DoubtfulStep | None
) -> TraceView:
    return view_of(
        trace,
        session_id=session_id,
        revision=assembled.revision,
        complete=assembled.complete,
        death=assembled.death,
        closing=assembled.closing,
        visibility=visibility,
        doubtful=doubtful,
    )


def _senders(processes: Sequence[str]) -> list[str]:
    return sorted({*map(sender_of, processes)} - {""})


def _processes(assembled: AssembledTrace) -> list[str]:
    return sorted(assembled.processes)[:MAX_PROCESSES]


@dataclass(frozen=True, slots=True)
class TraceOutcomes:
    """Makes the outcomes of one trace: some at once, the others are left to the judge.

    The evaluators `with_truth` are asked only about a trace that has ground truth, even if that could not be read.
    """

    evaluators: Sequence[TraceEvaluator]
    with_truth: Sequence[TraceEvaluator]
    referrals: Referrals
    thresholds: Mapping[str, float | None]
    embedder: EmbeddedEmbedder
    clock: Clock

    def find(
        self,
        context: EvaluationContext,
        session_id: str,
        revision: int,
        failure: Failure | None,
        known: Mapping[str, Outcome] | None = None,
    ) -> list[Evaluation]:
        """Return the outcomes that need no judge. With a `failure` to read the trace, all outcomes are that failure.
        Evaluators whose outcome is `known` are not asked."""
        trace = context.trace
        known = known or {}
        evaluation = self._about(trace, session_id, revision)
        return [
            evaluation(
                name=evaluator.name,
                version=evaluator.version,
                method=evaluator.method,
                model=self.embedder.model if evaluator.method is Method.EMBEDDING else None,
                threshold=self.thresholds[evaluator.name],
                outcome=failure or known.get(evaluator.name) or outcome_of(evaluator, context),
            )
            for evaluator in (*self.evaluators, *(self.with_truth if has_truth(trace) else ()))
        ]

    def left_to_judge(
        self, trace: Trace, session_id: str, revision: int, failure: Failure | None, findings: Sequence[Finding]
    ) -> list[Evaluation]:
        """Return the outcomes that are left to the judge, pending and final ones. `findings` are those of the trace."""
        evaluation = self._about(trace, session_id, revision)
        return [
            evaluation(
                name=referral.name,
                version=referral.version,
                method=Method.LLM,
                model=referral.model,
                threshold=referral.threshold,
                outcome=failure or referral.outcome,
                part=None if failure else referral.part,
            )
            for referral in self.referrals.refer(trace.with_earlier_calls(), session_id, findings)
        ]

    def goal(self, state: SessionState) -> Evaluation | None:
        """Return the outcome of the goal of a session that is over. Return None if goals are not judged."""
        referral = self.referrals.refer_session(state.session_id)
        if referral is None:
            return None
        return Evaluation(
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
            service=state.service,
            service_version=state.versions[-1] if state.versions else None,
            environment=state.environment,
            model=referral.model,
            part=referral.part,
            evaluated_at=self.clock.now(),
        )

    def _about(self, trace: Trace, session_id: str, revision: int) -> partial[Evaluation]:
        """Return an evaluation of this revision without the parts that depend on the evaluator."""
        return partial(
            Evaluation,
            subject=SubjectKind.TRACE,
            subject_id=trace.trace_id,
            revision=revision,
            session_id=session_id,
            trace_id=trace.trace_id,
            span_id=trace.turns[0].span_id if trace.turns else trace.root_span_id,
            agent=trace.agent,
            service=trace.service,
            service_version=trace.service_version,
            environment=trace.environment,
            evaluated_at=self.clock.now(),
        )


@dataclass(frozen=True, slots=True)
class TraceObservation:
    """Makes the findings of complete traces, one trace after the other. `settings` say which of them count."""

    loops: TraceLoops
    efforts: AgentEfforts
    settings: FindingsConfig
    clock: Clock

    def observe(
        self,
        trace: Trace,
        assembled: AssembledTrace,
        *,
        session_id: str,
        is_first: bool,
        turns: Mapping[str, int],
        observed: Sequence[Observed] | None = None,
    ) -> list[Finding]:
        """Return the findings of a trace.

        `is_first` is true if no earlier trace of its session is known. `turns` is the result of `turn_of`, `observed`
        what the trace shows as a first one, if that is known already.
        """
        now = self.clock.now()
        findings = [*self.loops.in_trace(trace, session_id, assembled)]
        if assembled.death is not None:
            findings.append(_death_of(trace, assembled.death, session_id, now))
        elif assembled.closing is not None and is_unfinished(trace, assembled):
            findings.append(unfinished_run(trace, assembled.closing.reason, session_id, now))
        try:
            findings += findings_in(trace, session_id=session_id, is_first=is_first, found_at=now, observed=observed)
        except Exception:  # A defect of our detectors must not cost the trace its scores.
            logger.exception("what is to be observed in trace %s could not be found", trace.trace_id)
        return self.settings.apply(_in_turn(finding, turns) for finding in findings)

    def in_answers(
        self, compared: Evaluation, previous: Sequence[TurnSummary], turns: Sequence[TurnSummary]
    ) -> list[Finding]:
        """Return the finding that a trace repeats an answer, if there is one.

        `compared` is the trace's outcome of loop_detection. `turns` are its turns, `previous` the turns before these.
        """
        return self.settings.apply(self.loops.in_answers(compared, previous, turns))

    def unusual_effort(self, trace: Trace, session: SessionState) -> list[Finding]:
        """Return the finding that `session` takes more effort than usual now that `trace` has come, if it does."""
        finding = self.efforts.unusual(
            trace, session.effort, agent=session.key, session_id=session.session_id, found_at=self.clock.now()
        )
        return self.settings.apply(finding)


def turn_of(trace: Trace) -> dict[str, int]:
    """Return the number of the turn of each span that is a turn, a tool call or a model call."""
    turns: dict[str, int] = {}
    for number, turn in enumerate(trace.turns):
        if turn.is_orphan:
            continue
        turns[turn.span_id] = number
        for span_id in (*(call.span_id for call in turn.tool_calls), *(call.span_id for call in turn.model_calls)):
            if span_id is not None:
                turns.setdefault(span_id, number)
    return turns


def searchable(trace: Trace) -> str:
    """Return the inputs and outputs of a trace in lower case for searching, cut after `MAX_SAID` characters."""
    texts = (text[:MAX_SAID] for turn in trace.turns for text in (turn.input, turn.output) if text)
    return "\n".join(texts)[:MAX_SAID].casefold()


def _in_turn(finding: Finding, turns: Mapping[str, int]) -> Finding:
    turn = turns.get(finding.span_id or "")
    return finding if turn is None or finding.turn is not None else replace(finding, turn=turn)


def _death_of(trace: Trace, death: Death, session_id: str, found_at: int) -> Finding:
    return Finding(
        kind=FindingKind.AGENT_DIED,
        severity=FindingKind.AGENT_DIED.severity,
        reason=death.reason,
        trace_id=trace.trace_id,
        session_id=session_id,
        agent=trace.agent or death.agent,
        service=trace.service or death.service,
        service_version=trace.service_version,
        environment=trace.environment,
        metadata={"open_spans": [span.name for span in death.open_spans[:10]]},
        found_at=found_at,
    )
