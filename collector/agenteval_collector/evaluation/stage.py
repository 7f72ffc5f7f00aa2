"""The evaluation stage. It has its own thread, between assembly and everything that takes outcomes."""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

from agenteval_collector.evaluation.inbox import (
    Again,
    EvaluationInbox,
    Item,
    PartitionChange,
    ReportedEnd,
    is_barrier,
)
from agenteval_collector.evaluation.ports import JobTaker, ScoredTaker
from agenteval_collector.evaluation.preparing import failure_of
from agenteval_collector.evaluation.reading_ahead import ReadingAhead
from agenteval_collector.evaluation.sessions.in_memory import Changes
from agenteval_collector.evaluation.trace_evaluation import TraceEvaluation
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.callers import sender_of
from agenteval_collector.model.judge_jobs import Judgement, drawn_with, job_of
from agenteval_collector.model.news import News, NewsSink
from agenteval_collector.model.quarantine import InputKind
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.component import Component
from agenteval_collector.runtime.errand import Errand
from agenteval_collector.runtime.errors import Outdated, RetryableError, Superseded, Unavailable
from agenteval_collector.runtime.work import SCORING, WorkAccount
from agenteval_collector.stores.quarantine import FATAL, Quarantine
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.outcome import Evaluation, Failure, JudgedPart, Status, SubjectKind, Unscored

T = TypeVar("T")

BATCH = 64
"""The most traces in one commit."""
TOGETHER = 4 * 1024 * 1024
"""Bytes of traces after which a commit takes no further trace, because it holds all of them in memory as read."""
RESUMED = 4
"""Sessions, left by the last process, that are read again between two batches."""
RESUMED_JOBS = 64
"""Jobs, left by the last process, that are handed to the judge again between two batches."""
TAKEN_UP = 100
"""Newest sampled-out traces of an escalated session that are judged after all."""
SESSIONS = 10_000
"""Escalated sessions that are remembered because sampled-out traces of them were left to the judge already."""
EFFORTS = 20_000
"""Newest sessions of earlier processes whose efforts new sessions are compared with."""
BEHIND = 0.5
"""Seconds that traces have to wait, without a break, before worker processes start. Below that one core is enough."""
HOUSEKEEPING = 1.0
"""The longest time in seconds that the stage sleeps."""

SET_ASIDE = Failure(
    error_type="quarantined",
    reason=f"the collector died {FATAL} times while it evaluated this trace; "
    "`agenteval repair --retry trace-ID` tries it again",
)
"""The outcome of a trace that is set aside."""

FATAL_AHEAD = f"worker processes died {FATAL} times while they read this trace"
"""Why a trace is set aside on which workers died."""

_TAKEN_UP = Unscored(status=Status.PENDING, reason="waiting for the judge after all, as its session was escalated")

_ASKED_FOR = Unscored(status=Status.PENDING, reason="waiting for the judge, as somebody asked for it")


class EvaluationStage(Component):
    """Evaluates what is in its inbox. Commits results to the store before it hands them to anybody.

    `emit` gets all that is stored, except for pending outcomes. `judge` gets the outcomes that wait for it.
    `scored` hears which traces are stored and need not be read from the log again. Memory for the traces of a batch is
    reserved from `work`, if there is such an account. A trace in `quarantine` is stored as failed, and not read. Once
    more waits than this thread can do, worker processes prepare traces `ahead`.
    """

    def __init__(
        self,
        evaluation: TraceEvaluation,
        *,
        inbox: EvaluationInbox,
        judge: JobTaker,
        scored: ScoredTaker,
        emit: NewsSink,
        clock: Clock,
        work: WorkAccount | None = None,
        quarantine: Quarantine | None = None,
        ahead: ReadingAhead | None = None,
    ) -> None:
        super().__init__("evaluation", inbox)
        self._ahead = ahead
        # The batches that were taken from the inbox, the next one first.
        self._batches: deque[Sequence[Item]] = deque()
        self._behind_since: float | None = None
        self._quarantine = quarantine
        self._reserve = WorkAccount.reserve_nothing if work is None else work.reserve
        self._inbox = inbox
        self._evaluation = evaluation
        self._sessions = evaluation.sessions
        self._store = evaluation.store
        self._judge = judge
        self._scored = scored
        self._own_sessions = evaluation.own_sessions
        self._efforts = evaluation.observation.efforts
        self._emit = emit
        self._clock = clock
        # The number of sampled-out traces that were left to the judge, by session. `TAKEN_UP` if there are no more.
        self._taken_up: LruMap[str, int] = LruMap(SESSIONS)
        self._to_resume: deque[str] = deque()
        self._taken_over: set[int] = set()
        # The trace id behind which the earlier pending jobs are read on. None when all of them are handed over.
        self._pending_after: str | None = None
        self._pending_before = 0
        self._pending_subject = SubjectKind.TRACE

    def evaluate_batch(self, traces: Sequence[AssembledTrace]) -> None:
        """Evaluate a batch of traces and commit the results. A trace that may be fatal is evaluated alone, and one that
        is set aside is stored as failed."""
        quarantine = self._quarantine
        if quarantine is None:
            self._evaluate_together(traces)
            return
        if self._ahead is not None:
            for trace in self._ahead.finish(traces):
                self.insist(quarantine.set_aside, InputKind.TRACE, trace.trace_id, FATAL_AHEAD, trace.size)
        for trace in traces:
            if quarantine.holds(InputKind.TRACE, trace.trace_id):
                self._attempt(partial(self._commit_traces, set(), SET_ASIDE, [trace]), "a trace set aside", add_up=True)
                self.insist(quarantine.measure, InputKind.TRACE, trace.trace_id, trace.size)
        for together in quarantine.in_turn(InputKind.TRACE, traces, attrgetter("trace_id")):
            with quarantine.work_on(InputKind.TRACE, [trace.trace_id for trace in together]):
                self._evaluate_together(together)
            for trace in together:
                self.insist(quarantine.settle, InputKind.TRACE, trace.trace_id)

    def _evaluate_together(self, traces: Sequence[AssembledTrace]) -> None:
        escalated: set[str] = set()
        with self._reserve(SCORING * sum(trace.size for trace in traces)):
            self._evaluate(traces, escalated)
        for session_id in sorted(escalated):
            self._attempt(partial(self._take_up, session_id), "the rest of an escalated session")

    def _evaluate(self, traces: Sequence[AssembledTrace], escalated: set[str]) -> None:
        for trace, failure in self._failing_alone(partial(self._commit_traces, escalated, None), traces, "traces"):
            self._logger.error("trace %s is to be kept as failed", trace.trace_id)
            # If not even that is possible, the traces behind it are evaluated all the same.
            self._attempt(partial(self._commit_traces, escalated, failure, [trace]), "a failed trace", add_up=True)

    def _commit_traces(
        self, escalated: set[str], failure: Failure | None, traces: Sequence[AssembledTrace], changes: Changes
    ) -> None:
        """Evaluate and commit traces. Add to `escalated` the sessions with a trace that is judged for its findings.

        With the `failure` of an earlier attempt the traces are stored as failed.
        """
        traces = self._own_sessions.still_own(traces)
        new = self.insist(self._own_sessions.not_stored, traces)
        for trace in new:
            prepared = None if self._ahead is None else self._ahead.prepared(trace)
            self.insist(self._evaluation.evaluate, trace, changes, failure, prepared)
        commit = changes.commit
        self.insist(self._evaluation.look_again, new, commit)
        self._commit(changes)
        for scored in commit.traces:
            self._sessions.end_awaited(scored.view.session_id, {*map(sender_of, scored.processes)})
        for session_id in commit.sessions:
            if self._sessions.is_ending(session_id):
                self.insist(self._store.end_session, session_id)
        # The traces that were stored before are among these: they need no replay either.
        for trace in traces:
            self._scored.take_scored(trace.trace_id, trace.revision)
        waiting = [evaluation for evaluation in commit.evaluations if evaluation.outcome.status is Status.PENDING]
        for _, pending in groupby(waiting, key=lambda evaluation: (evaluation.subject_id, evaluation.revision)):
            job = job_of(list(pending))
            self._judge.take_job(job)
            if job.urgent:
                escalated.add(job.session_id)
        if commit.left or commit.moves:
            self._commit(self.insist(self._evaluation.recount, commit))

    def store_judgements(self, judgements: Sequence[Judgement]) -> None:
        """Store and emit a batch of judgements."""
        # Sessions that another process has taken over are left out: that process has asked the judge, too.
        own = [judgement for judgement in judgements if self._own_sessions.owns(judgement.job.session_id)]
        for judgement, _ in self._failing_alone(self._commit_judgements, own, "judgements"):
            self._logger.error("trace %s stays pending until the next start", judgement.job.trace_id)

    def _commit_judgements(self, judgements: Sequence[Judgement], changes: Changes) -> None:
        for judgement in judgements:
            self.insist(self._evaluation.judge, judgement, changes)
        self._commit(changes)

    def _commit(self, changes: Changes) -> None:
        """Store the changes of a pass, and tell what is new."""
        self._tell_of(self.insist(self._evaluation.commit, changes))

    def _failing_alone(
        self, step: Callable[[Sequence[T], Changes], None], items: Sequence[T], what: str
    ) -> Iterator[tuple[T, Failure]]:
        """Work off all items together. Yield those that fail by themselves, with the failure.

        After an unexpected error the items are worked off one by one, and sessions are added up from their traces.
        `what` names the items in log messages.
        """
        if self._attempt(partial(step, items), f"{len(items)} {what}") is not None:
            for item in items:
                failure = self._attempt(partial(step, [item]), f"one of {len(items)} {what}", add_up=True)
                if failure is not None:
                    yield item, failure

    def _attempt(self, step: Callable[[Changes], None], what: str, *, add_up: bool = False) -> Failure | None:
        """Do a step that commits changes. Return the failure if an unexpected error is raised, else None. Raises
        RetryableError.

        The step begins anew whenever another process has joined traces to the same conversations meanwhile. This ends,
        because the other process has made progress each time. `what` names in log messages what the step works off.
        """
        while True:
            try:
                step(self._sessions.begin(add_up=add_up))
            except Outdated as error:
                self._logger.info("begun anew: %s (%s)", what, error)
                self._sessions.forget_all()
                continue
            except RetryableError:
                raise
            except Superseded as error:
                self._logger.warning("left to other processes: %s (%s)", what, error)
                self._sessions.forget_all()
                self._own_sessions.superseded()
            except Exception as error:
                self._logger.exception("not worked off: %s", what)
                self._sessions.forget_all()
                # Not the error itself: its traceback would keep a cursor of the store open.
                return failure_of(error, "the trace could not be evaluated")
            return None

    def _take_up(self, session_id: str, changes: Changes) -> None:
        """Hand the sampled-out traces of an escalated session to the judge as well, so that it judges the whole
        session."""
        taken_up = self._taken_up.get(session_id) or 0
        limit = min(TAKEN_UP - taken_up, self._judge.room)
        if not limit:
            return
        pending = self.insist(self._store.sampled_out, session_id, limit)
        escalated = [
            [replace(evaluation, part=JudgedPart.ESCALATED) for evaluation in of_trace] for of_trace in pending
        ]
        self._leave_to_judge(escalated, _TAKEN_UP, changes)
        # If fewer are found than there is room for, there are no more.
        self._taken_up.put(session_id, taken_up + limit if len(pending) == limit else TAKEN_UP)

    def _leave_to_judge(self, groups: Sequence[Sequence[Evaluation]], outcome: Unscored, changes: Changes) -> int:
        """Let outcomes of traces wait for the judge. Return the number of traces.

        Traces that have changed since are left out.
        """
        jobs = []
        for evaluations in groups:
            pending = [
                replace(evaluation, outcome=replace(outcome, metadata=drawn_with(evaluation.outcome)))
                for evaluation in evaluations
            ]
            if self.insist(self._evaluation.replace_judged, pending, changes):
                jobs.append(job_of(pending))
        if jobs:
            self._commit(changes)
        for job in jobs:
            self._judge.take_job(job)
        return len(jobs)

    def _judge_again(self, again: Again, changes: Changes) -> None:
        try:
            count = self._leave_to_judge(again.outcomes[: self._judge.room], _ASKED_FOR, changes)
        except Exception:
            # Another thread waits for the result, so it needs the error as well.
            again.done.set_exception(Unavailable("the traces could not be left to the judge; the log says why"))
            raise
        again.done.set_result(count)

    def _finalize_over(self, *, closing: bool) -> None:
        self.finalize(
            [session_id for session_id in self._sessions.over(closing=closing) if self._own_sessions.owns(session_id)]
        )

    def finalize(self, session_ids: Sequence[str]) -> None:
        """Count each session that is over once.

        The scores of a session are counted once none of its traces waits for the judge.
        """
        for _ in self._failing_alone(self._finalize, session_ids, "sessions that are over"):
            self._logger.error("a session that is over is not counted before the next start")

    def _finalize(self, session_ids: Sequence[str], changes: Changes) -> None:
        if not session_ids:
            return
        goals = self.insist(self._evaluation.goals, session_ids)
        if goals:
            # Committed before the sessions are marked as over. After a crash in between they become over once more, and
            # have this outcome already.
            changes.commit.evaluations += goals
            self._commit(changes)
        # Handed over at once: where the next step fails and is done again, it finds these outcomes made.
        for goal in goals:
            if goal.outcome.status is Status.PENDING:
                self._judge.take_job(job_of([goal]))
        news = self.insist(self._store.finalize, session_ids)
        self._efforts.remember_efforts(news.efforts)
        self._tell_of(news)

    def run(self) -> None:
        self.survive(self.find_what_was_left)
        while True:
            resuming = bool(self._to_resume) or (self._pending_after is not None and self._judge.room > 0)
            is_empty = not self.work_off_inbox(0.0 if resuming else HOUSEKEEPING)
            closing = self._inbox.closed and is_empty
            self.survive(self._finalize_over, closing=closing)
            self.survive(self._resume_some)
            if closing:
                return

    def work_off_inbox(self, timeout: float) -> bool:
        """Work off a batch of the inbox. Wait up to `timeout` seconds for it; return False if nothing comes."""
        ahead = self._ahead
        while len(self._batches) < (1 if ahead is None else ahead.batches):
            items = self._inbox.take(BATCH, 0.0 if self._batches else timeout, weight=TOGETHER)
            if not items:
                break
            self._batches.append(items)
            if ahead is not None:
                ahead.begin(item for item in items if isinstance(item, AssembledTrace))
        if not self._batches:
            return False
        for _, between in groupby(self._batches.popleft(), key=is_barrier):
            self._work_off([*between])
        if ahead is not None:
            ahead.forget()
            self._note_load(ahead)
        return True

    def _note_load(self, ahead: ReadingAhead) -> None:
        """Start the workers once traces have waited for this thread for `BEHIND` without a break."""
        if not len(self._inbox):
            self._behind_since = None
        elif self._behind_since is None:
            self._behind_since = self._clock.monotonic()
        elif self._clock.monotonic() - self._behind_since > BEHIND:
            ahead.start()

    def _work_off(self, items: Sequence[Item]) -> None:
        """Work off barriers, or the items between two barriers: all traces, then all judgements, then the rest."""
        traces = [item for item in items if isinstance(item, AssembledTrace)]
        if traces:
            self.survive(self.evaluate_batch, traces)
        judgements = [item for item in items if isinstance(item, Judgement)]
        if judgements:
            self.survive(self.store_judgements, judgements)
        for item in items:
            if isinstance(item, ReportedEnd):
                self.survive(self._end, item)
            elif isinstance(item, Again):
                self._attempt(partial(self._judge_again, item), "traces to judge after all")
            elif isinstance(item, PartitionChange):
                self.survive(self._change_partitions, item)
            elif isinstance(item, Errand):
                item.run()

    def find_what_was_left(self) -> None:
        """Find the sessions that are still active, and remember the efforts of those that are over."""
        self._go_on(())
        self._efforts.remember_efforts(self.insist(self._store.efforts, EFFORTS))

    def _go_on(self, partitions: Collection[int]) -> None:
        """Go on with the sessions and jobs of these partitions, as an earlier or another process has left them."""
        self._taken_over = {*partitions} | (set() if self._pending_after is None else self._taken_over)
        sessions = self.insist(self._store.live_sessions)
        self._to_resume.extend(
            session_id for session_id in sessions if self._own_sessions.is_in(session_id, partitions)
        )
        self._pending_after, self._pending_before = "", self._clock.now()
        self._pending_subject = SubjectKind.TRACE

    def _change_partitions(self, change: PartitionChange) -> None:
        if change.is_given_up:
            self._own_sessions.give_up_partitions(change.partitions)
            self._sessions.keep_only(self._own_sessions.owns)
            change.done.set_result(None)
        else:
            self.insist(self._own_sessions.take_partitions, change.partitions)
            self._go_on(change.partitions)

    def _resume_some(self) -> None:
        """Take up some of the sessions and jobs that the last process left. It takes a few at a time, so new traces
        need not wait for all."""
        for _ in range(min(RESUMED, len(self._to_resume))):
            session_id = self._to_resume.popleft()
            self.insist(self._sessions.resume, session_id)
        if self._pending_after is not None and (room := self._judge.room) > 0:
            after, before, limit = self._pending_after, self._pending_before, min(room, RESUMED_JOBS)
            subject = self._pending_subject
            jobs = self.insist(self._store.pending_jobs, before=before, after=after, limit=limit, subject=subject)
            for job in jobs:
                if self._own_sessions.is_in(job.session_id, self._taken_over):
                    self._judge.take_job(job)
            self._pending_after = jobs[-1].trace_id if jobs else None
            # All jobs on traces are handed over: those on sessions come next.
            if not jobs and subject is SubjectKind.TRACE:
                self._pending_subject, self._pending_after = SubjectKind.SESSION, ""

    def _end(self, ended: ReportedEnd) -> None:
        if ended.sender:
            # Its first trace of this sender may have been scored between the report and now.
            known = map(sender_of, self.insist(self._store.processes_in, ended.session_id))
            if ended.sender not in known:
                self._sessions.await_end(ended.session_id, ended.sender)
                return
        self._sessions.end(ended.session_id)
        if not ended.marked:
            # Its first trace may have been scored between the report and now.
            self.insist(self._store.end_session, ended.session_id)

    def _tell_of(self, news: News) -> None:
        settled = [item for item in news.evaluations if item.evaluation.outcome.status is not Status.PENDING]
        self._emit.take_news(replace(news, evaluations=settled))
