"""The evaluation on a thread of its own, between assembly and everything that leaves."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol

from agenteval_collector.evaluation.evaluation import TraceEvaluation
from agenteval_collector.evaluation.outcomes import failure_of
from agenteval_collector.model.assembled import AssembledTrace
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.effort import Effort
from agenteval_collector.model.judging import JudgeJob, Judgement, job_of
from agenteval_collector.model.links import Move
from agenteval_collector.model.news import News, NewsSink
from agenteval_collector.model.sessions import SessionUpdate, Standing
from agenteval_collector.runtime.endurance import Endurance
from agenteval_collector.runtime.errors import RetryableError, Unavailable
from agenteval_collector.runtime.inbox import Inbox
from agenteval_collector.runtime.lru import Recent
from otel_agenteval.outcome import Evaluation, Failure, Status, Unscored

logger = logging.getLogger(__name__)

CAPACITY = 64 * 1024 * 1024
"""Bytes of complete traces that may wait; then assembly waits, and then senders are told to come back later."""
BATCH = 64
"""Traces in one commit at most."""
RESUMED = 4
"""Sessions of the last run that are taken up between two batches."""
RESUMED_JOBS = 64
"""Traces of the last run that wait for the judge, and are handed to it again between two batches."""
TAKEN_UP = 100
"""Traces of one session that were sampled out, and are judged after all: the newest."""
SESSIONS = 10_000
"""Sessions of which is known that nothing more is to be taken up."""
EFFORTS = 20_000
"""Sessions of the last runs whose efforts are compared with, the newest."""
HOUSEKEEPING = 1.0
"""Seconds that the stage sleeps at the longest."""

_TAKEN_UP = Unscored(
    status=Status.PENDING, reason="waiting for the judge after all, as another trace of the session is judged"
)

_ASKED_FOR = Unscored(status=Status.PENDING, reason="waiting for the judge, as somebody asked for it")


class EvaluationStore(Protocol):
    """The part of the store that the stage needs."""

    def commit(self, commit: Commit) -> News: ...

    def finalize(self, session_ids: Sequence[str]) -> News: ...

    def efforts(self, limit: int) -> Sequence[tuple[str, Effort]]: ...

    def end_session(self, session_id: str) -> bool: ...

    def live_sessions(self) -> list[str]: ...

    def sampled_out(self, session_id: str, limit: int) -> list[list[Evaluation]]: ...

    def pending_jobs(self, *, before: int, after: str = "", limit: int = 64) -> list[JudgeJob]: ...


class SessionLifetimes(Protocol):
    """The operations on sessions that the stage needs."""

    def reload(self, session_id: str) -> SessionUpdate | None: ...

    def updates(self) -> Sequence[SessionUpdate]: ...

    def forget_all(self) -> None: ...

    def over(self, *, closing: bool = False) -> list[str]: ...

    def end(self, session_id: str) -> None: ...

    def ending(self, session_id: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class _Ended:
    """A session was reported ended; `marked`: the store knew it, and holds that."""

    session_id: str
    marked: bool


@dataclass(frozen=True, slots=True)
class _Again:
    """Outcomes that somebody wants judged after all."""

    found: Sequence[Sequence[Evaluation]]
    done: Future[int]


class EvaluationStage:
    """Commits before it tells anybody: the sink gets what the store holds, `scored` what needs no replay, `refer` what
    waits for the judge. What is pending is nobody else's business until it is found."""

    def __init__(
        self,
        evaluation: TraceEvaluation,
        sessions: SessionLifetimes,
        store: EvaluationStore,
        sink: NewsSink,
        scored: Callable[[str, int], None],
        refer: Callable[[JudgeJob], None],
        room: Callable[[], int] = lambda: RESUMED_JOBS,
    ) -> None:
        """`room` is how many jobs `refer` has a place for now."""
        self._evaluation = evaluation
        self._sessions = sessions
        self._store = store
        self._sink = sink
        self._scored = scored
        self._refer = refer
        self._room = room
        self._inbox: Inbox[AssembledTrace | Judgement | _Ended | _Again] = Inbox(CAPACITY)
        self._whole: Recent[bool] = Recent(SESSIONS)
        self._to_resume: deque[str] = deque()
        # Where to go on with those that were pending before the start; None when all are handed over.
        self._pending_after: str | None = None
        self._pending_before = 0
        self._endurance = Endurance(logger)
        self._thread = threading.Thread(target=self._run, name="agenteval-evaluation", daemon=True)

    def start(self, *, pending_before: int | None = None) -> None:
        """`pending_before`: refer what waits for the judge since before that time (ns); None where none does."""
        if pending_before is not None:
            self._pending_after, self._pending_before = "", pending_before
        self._thread.start()

    def shutdown(self, timeout: float = 10.0) -> None:
        """Evaluate what was handed over, then stop. Safe before start and twice."""
        self._inbox.close()
        if self._thread.is_alive():
            self._thread.join(timeout)
            self._endurance.give_up()
            self._thread.join(1.0)

    def put(self, trace: AssembledTrace, timeout: float) -> bool:
        """Hand over a complete trace; False where there was no room within `timeout` seconds."""
        size = sum(len(raw) for raw, _ in trace.spans) + sum(len(raw) for raw, _ in trace.logs)
        return self._inbox.put(trace, size, timeout=timeout)

    def end_session(self, session_id: str, *, marked: bool) -> None:
        """The session was reported ended: its scores are final once what is on the way has come. `marked`: the store
        knows that it ended; otherwise it is marked with its first trace."""
        self._inbox.put_regardless(_Ended(session_id, marked), 0)

    def judge_again(self, found: Sequence[Sequence[Evaluation]]) -> Future[int]:
        """Outcomes by trace that somebody wants judged after all; how many traces had room, once that is committed."""
        again = _Again(found, Future())
        self._inbox.put_regardless(again, 0)
        return again.done

    def judged(self, judgement: Judgement) -> None:
        """The judge has answered; from any thread.

        There are no more of these than traces may wait for the judge. What they hold counts as waiting, so that new
        traces wait meanwhile.
        """
        self._inbox.put_regardless(judgement, sum(len(each.data) for each in judgement.exchanges))

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Complete traces that are not evaluated yet, and judgements that are not kept yet."""
        return len(self._inbox)

    def process(self, traces: Sequence[AssembledTrace]) -> None:
        """Evaluate and commit; what the thread does with each batch."""
        referred: set[str] = set()
        if self._attempt(traces, referred) is not None:
            # A defect of ours: one trace must not be the end of the others, and has to have a status itself.
            for trace in traces:
                failure = self._attempt([trace], referred)
                if failure is not None:
                    self._process([trace], referred, failure)
        for session_id in sorted(referred):
            self._endurance.survive(lambda: self._take_up(session_id))  # noqa: B023

    def _attempt(self, traces: Sequence[AssembledTrace], referred: set[str]) -> Failure | None:
        """A failure without its error, whose traceback would keep a cursor of the store open."""
        try:
            self._process(traces, referred)
        except RetryableError:
            raise
        except Exception as error:
            logger.exception("%d traces could not be evaluated, the first is %s", len(traces), traces[0].trace_id)
            self._sessions.forget_all()
            return failure_of(error, "the trace could not be evaluated")
        return None

    def _process(self, traces: Sequence[AssembledTrace], referred: set[str], failure: Failure | None = None) -> None:
        """Adds to `referred` the sessions of which a trace was left to the judge."""
        commit = Commit()
        left = [self._endurance.insist(lambda: self._evaluation.evaluate(trace, commit, failure)) for trace in traces]  # noqa: B023
        self._endurance.insist(lambda: self._evaluation.look_again(traces, commit))
        self._emit(self._committed(commit))
        for session_id in commit.sessions:
            if self._sessions.ending(session_id):
                self._endurance.insist(lambda: self._store.end_session(session_id))  # noqa: B023
        for trace in traces:
            self._scored(trace.trace_id, trace.revision)
        waiting = [each for each in commit.evaluations if each.outcome.status is Status.PENDING]
        for _, pending in groupby(waiting, key=lambda each: (each.subject_id, each.revision)):
            job = job_of(list(pending))
            self._refer(job)
            referred.add(job.session_id)
        self._recount([each for each in left if each is not None], list(commit.moves.values()))

    def _take_up(self, session_id: str) -> None:
        """A session is judged whole: with one of its traces, those that were sampled out of it wait for the judge."""
        limit = min(TAKEN_UP, self._room())
        if self._whole.get(session_id) or not limit:
            return
        self._leave_to_judge(self._endurance.insist(lambda: self._store.sampled_out(session_id, limit)), _TAKEN_UP)
        self._whole.put(session_id, True)

    def _leave_to_judge(self, found: Sequence[Sequence[Evaluation]], outcome: Unscored) -> int:
        """These outcomes of some traces wait for the judge after all; of how many traces: others have changed since."""
        commit, jobs = Commit(), []
        for evaluations in found:
            pending = [replace(each, outcome=outcome) for each in evaluations]
            if self._endurance.insist(lambda: self._evaluation.take_up(pending, commit)):  # noqa: B023
                jobs.append(job_of(pending))
        if jobs:
            self._emit(self._committed(commit))
        for job in jobs:
            self._refer(job)
        return len(jobs)

    def _judge_again(self, again: _Again) -> None:
        try:
            count = self._leave_to_judge(again.found[: self._room()], _ASKED_FOR)
        except Exception:
            # Whoever waits for it hears of it, too.
            again.done.set_exception(Unavailable("the traces could not be left to the judge; the log says why"))
            raise
        again.done.set_result(count)

    def process_judgements(self, judgements: Sequence[Judgement]) -> None:
        """Keep and emit what the judge says; what the thread does with each batch."""
        if not self._attempt_judgements(judgements):
            return
        for judgement in judgements:
            self._attempt_judgements([judgement])

    def _attempt_judgements(self, judgements: Sequence[Judgement]) -> bool:
        """Whether it failed: by a defect of ours, and then its traces stay pending until the next start."""
        try:
            commit = Commit()
            for each in judgements:
                self._endurance.insist(lambda: self._evaluation.judged(each, commit))  # noqa: B023
            self._emit(self._committed(commit))
        except RetryableError:
            raise
        except Exception:
            logger.exception("%d judgements could not be kept, the first of %s", len(judgements), judgements[0].job)
            self._sessions.forget_all()
            return True
        return False

    def finalize(self, session_ids: Sequence[str]) -> None:
        """The sessions are idle or ended: they count if they have not counted before, and so do their scores, once none
        of their traces waits for the judge."""
        if not session_ids:
            return
        news = self._endurance.insist(lambda: self._store.finalize(session_ids))
        self._evaluation.took(news.efforts)
        self._emit(news)

    def _run(self) -> None:
        try:
            self._endurance.survive(self.find_what_the_last_run_left)
            self._work()
        except RetryableError as error:
            logger.error("evaluation stops, the next start goes on from the log: %s", error)

    def find_what_the_last_run_left(self) -> None:
        """The sessions that go on, and what those took that are over."""
        self._to_resume.extend(self._endurance.insist(self._store.live_sessions))
        self._evaluation.took(self._endurance.insist(lambda: self._store.efforts(EFFORTS)))

    def _work(self) -> None:
        while True:
            resuming = bool(self._to_resume) or (self._pending_after is not None and self._room() > 0)
            items = self._inbox.take(BATCH, 0.0 if resuming else HOUSEKEEPING)
            traces = [item for item in items if isinstance(item, AssembledTrace)]
            if traces:
                self._endurance.survive(lambda: self.process(traces))  # noqa: B023
            judgements = [item for item in items if isinstance(item, Judgement)]
            if judgements:
                self._endurance.survive(lambda: self.process_judgements(judgements))  # noqa: B023
            for item in items:
                if isinstance(item, _Ended):
                    self._endurance.survive(lambda: self._end(item))  # noqa: B023
                elif isinstance(item, _Again):
                    self._endurance.survive(lambda: self._judge_again(item))  # noqa: B023
            closing = self._inbox.closed and not items
            self._endurance.survive(lambda: self.finalize(self._sessions.over(closing=closing)))  # noqa: B023
            self._endurance.survive(self._resume_some)
            if closing:
                return

    def _resume_some(self) -> None:
        """The sessions that were live at the last stop count again, and the traces that were pending then are referred
        again; a few at a time, so that no trace waits for all."""
        for _ in range(min(RESUMED, len(self._to_resume))):
            session_id = self._to_resume.popleft()
            self._endurance.insist(lambda: self._sessions.reload(session_id))  # noqa: B023
        if self._pending_after is not None and (room := self._room()) > 0:
            after, before, limit = self._pending_after, self._pending_before, min(room, RESUMED_JOBS)
            jobs = self._endurance.insist(lambda: self._store.pending_jobs(before=before, after=after, limit=limit))
            for job in jobs:
                self._refer(job)
            self._pending_after = jobs[-1].trace_id if jobs else None

    def _end(self, ended: _Ended) -> None:
        self._sessions.end(ended.session_id)
        if not ended.marked:
            # Its first trace may have been scored between the report and now.
            self._endurance.insist(lambda: self._store.end_session(ended.session_id))

    def _recount(self, left: Sequence[Standing], moves: Sequence[Move]) -> None:
        """Traces are in other sessions than before: by late spans, or as others have joined them to a conversation.
        Score those sessions as they are now."""
        commit = Commit()
        gone = [*left, *(Standing(session_id=each.left, place=each.place, revision=0) for each in moves)]
        for session_id in {*(each.session_id for each in gone), *(each.joined for each in moves)}:
            update = self._endurance.insist(lambda: self._sessions.reload(session_id))  # noqa: B023
            if update is None:
                commit.emptied.add(session_id)
            else:
                commit.sessions[session_id] = update
        for each in gone:
            self._endurance.insist(lambda: self._evaluation.rescore_behind(each, commit))  # noqa: B023
        for move in moves:
            self._endurance.insist(lambda: self._evaluation.rescore_from(move, commit))  # noqa: B023
        if gone:
            self._emit(self._committed(commit))

    def _committed(self, commit: Commit) -> News:
        for update in self._sessions.updates():
            commit.add(update)
        return self._endurance.insist(lambda: self._store.commit(commit))

    def _emit(self, news: News) -> None:
        found = [each for each in news.evaluations if each.evaluation.outcome.status is not Status.PENDING]
        self._sink.accept(replace(news, evaluations=found))
