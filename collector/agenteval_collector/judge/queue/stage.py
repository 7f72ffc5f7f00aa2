"""Run the judge on a thread of its own, behind the evaluation. So nothing that it does holds up a trace.

The store has the outcomes of all waiting jobs as pending. Jobs that are not judged when the collector stops are taken
up at its next start.
"""

import asyncio
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Container
from typing import Final, TypeAlias

from agenteval_collector.judge.judgements import Judgements
from agenteval_collector.judge.ports import Judge, JudgementTaker, JudgeTelemetry, JudgeUnavailable, Rechecks
from agenteval_collector.judge.queue.backlog import Backlog, WaitingJob
from agenteval_collector.judge.queue.outage import Outage
from agenteval_collector.model.judge_jobs import JudgeJob, Judgement
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.component import Component
from agenteval_collector.runtime.errors import RetryableError
from otel_agenteval.outcome import Failure, Score

logger = logging.getLogger(__name__)

FAULTS: Final = 5
"""Outages that may begin with the same trace. Then the trace fails.

Other traces get answers in between, so the cause is the trace and not the endpoint.
"""
OUTAGES_BORNE: Final = 5
"""Number of times in a row that the judge may be away while traces are drained."""
NO_ROOM: Final = "no_room"
"""The error of a trace that found no place among those that wait."""
LONGEST_WAIT: Final = 60.0
"""Seconds until the stage looks again without an event, for rechecks that are due."""
CLOSING: Final = 2.0
"""Seconds that the judge has to close its connections."""
NOTHING_VALID: Final = "its last replies were malformed, so scores fail; name another model in judge.model"
"""Says that the judge answers, but in no form that can be read."""

Wait: TypeAlias = Callable[[asyncio.Event, float | None], Awaitable[None]]
"""Waits for an event, for at most this many seconds. None means without a limit."""


async def wait_at_most(event: asyncio.Event, seconds: float | None) -> None:
    """Wait by the machine's clock."""
    try:
        async with asyncio.timeout(LONGEST_WAIT if seconds is None else min(seconds, LONGEST_WAIT)):
            await event.wait()
    except TimeoutError:
        return


class JudgeStage(Component):
    """Takes jobs from any thread and delivers their judgements. At most `parallel` are under way, and `capacity` wait.

    A job that finds no room fails at once, in the thread that hands it over. While the judge is away nothing fails.
    Judging pauses, and then a single trace is tried. A trace that gets no answer while others get theirs fails after
    `FAULTS`.
    """

    def __init__(
        self,
        judgements: Judgements,
        judge: Judge,
        taker: JudgementTaker,
        clock: Clock,
        telemetry: JudgeTelemetry,
        *,
        capacity: int,
        parallel: int,
        wait: Wait = wait_at_most,
        rechecks: Rechecks,
    ) -> None:
        self._backlog = Backlog(capacity)
        super().__init__("judge", self._backlog)
        self._judgements = judgements
        self._judge = judge
        self._taker = taker
        self._clock = clock
        self._telemetry = telemetry
        self._parallel = parallel
        self._wait = wait
        self._rechecks = rechecks
        self._outage = Outage(clock)
        self._nothing_valid = False
        self._loop: asyncio.AbstractEventLoop | None = None
        # Guards the backlog and the loop. Jobs come from the evaluation's thread; all else is the loop's.
        self._lock = threading.Lock()
        self._wake = asyncio.Event()
        self._under_way: set[asyncio.Task[None]] = set()
        self._runner: asyncio.Runner | None = None

    def run(self) -> None:
        """Judge what is submitted, until the shutdown."""
        with asyncio.Runner() as runner:
            runner.run(self._serve(lambda: self._backlog.closed))
            runner.run(self._close())

    def shutdown(self, timeout: float = 10.0) -> None:
        """Stop at once. Jobs that wait or are under way stay pending in the store. Safe before start and twice."""
        with self._lock:
            self._backlog.close()
            self._rouse()
        super().shutdown(timeout)
        # `drain` leaves the runner open, as a replay calls `drain` for each batch.
        if self._runner is not None:
            self._runner.run(self._close())
            self._runner.close()
            self._runner = None

    def take_job(self, job: JudgeJob) -> None:
        """Take a job; never blocks. After the shutdown the job stays pending in the store."""
        with self._lock:
            has_place = self._backlog.add(job)
            self._rouse()
        if not has_place:
            self._telemetry.no_room()
            because = f"; judging pauses: {pause.error}" if (pause := self._outage.pause) else ""
            why = f"too many traces wait for the judge: judge.backlog is {self._backlog.capacity}{because}"
            self._fail(job, NO_ROOM, why)

    def forget(self, subject_ids: Container[str]) -> None:
        """Drop the waiting jobs of these traces and sessions. From any thread."""
        with self._lock:
            self._backlog.forget(subject_ids)

    def drain(self, progress: Callable[[int], None]) -> None:
        """Judge all submitted jobs to the end, in the calling thread. It replaces `start`, and may be called again.

        `progress` is told how many jobs are left. All of these fail after `OUTAGES_BORNE` outages in a row, or if
        only a person can help.
        """

        def finished() -> bool:
            self._lose_patience()
            count = len(self._backlog) + len(self._under_way)
            progress(count)
            return not count

        self._runner = self._runner or asyncio.Runner()
        self._runner.run(self._serve(finished))

    @property
    def room(self) -> int:
        """The number of jobs that may be submitted before one finds no place. It holds for an instant only."""
        return max(self._backlog.capacity - len(self._backlog), 0)

    @property
    def trouble(self) -> str | None:
        """The reason why traces wait for the judge, in words. None if nothing is wrong. From any thread."""
        return self._outage.described()

    @property
    def fault(self) -> str | None:
        """Say why the judge gives no scores: its `trouble`, or malformed replies. None if nothing is wrong.

        From any thread.
        """
        return self.trouble or (NOTHING_VALID if self._nothing_valid else None)

    @property
    def paused(self) -> bool:
        """True while requests are held back because the judge does not answer. From any thread."""
        pause = self._outage.pause
        return pause is not None and isinstance(pause.error, JudgeUnavailable)

    async def _serve(self, finished: Callable[[], bool]) -> None:
        with self._lock:
            self._loop = asyncio.get_running_loop()
        try:
            while not finished():
                self._wake.clear()
                self.survive(self._take_rechecks)
                self._begin()
                await self._wait(self._wake, self._idle_for())
        finally:
            with self._lock:
                self._loop = None
            for task in self._under_way:
                task.cancel()
            await asyncio.gather(*self._under_way, return_exceptions=True)

    def _take_rechecks(self) -> None:
        for job in self._rechecks.due():
            self.take_job(job)

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(CLOSING):
                await self._judge.close()
        except TimeoutError:
            logger.warning("the judge's connections were not closed in %g s", CLOSING)

    def _rouse(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake.set)

    def _begin(self) -> None:
        """Take as many jobs as may be under way now."""
        while len(self._under_way) < self._limit and not self._outage.left:
            with self._lock:
                waiting = self._backlog.take(self._clock.monotonic(), probe=self._outage.pause is not None)
            if waiting is None:
                return
            task = asyncio.create_task(self._attempt(waiting), name=f"agenteval-judge-{waiting.job.trace_id}")
            self._under_way.add(task)
            task.add_done_callback(self._ended)

    @property
    def _limit(self) -> int:
        return self._parallel if self._outage.pause is None else 1

    def _idle_for(self) -> float | None:
        """Return the seconds until something may be begun. Return None if only an event can allow that."""
        if len(self._under_way) >= self._limit:
            return None
        if pause := self._outage.left:
            return pause
        # All ready jobs have begun. The jobs that still wait were put back, each until a time of its own.
        with self._lock:
            due = self._backlog.next_due()
        return None if due is None else max(due - self._clock.monotonic(), 0.0)

    async def _attempt(self, waiting: WaitingJob) -> None:
        try:
            judgement = await self._judgements.find(waiting.job)
        except (JudgeUnavailable, RetryableError) as error:
            self._unanswered(waiting, error)
            return
        # A refusal is an answer too. Answers from the cache say nothing about the endpoint.
        if not all(exchange.cached for exchange in judgement.exchanges):
            self._outage.note_answer()
            self._note_validity(judgement)
        self._taker.take_judgement(judgement)

    def _note_validity(self, judgement: Judgement) -> None:
        outcomes = [evaluation.outcome for evaluation in judgement.evaluations]
        if any(isinstance(outcome, Score) for outcome in outcomes):
            self._nothing_valid = False
        elif any(isinstance(outcome, Failure) and outcome.error_type == "malformed" for outcome in outcomes):
            self._nothing_valid = True

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._wake.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a judgement was not delivered; the next start finds its trace again", exc_info=error)

    def _unanswered(self, waiting: WaitingJob, error: JudgeUnavailable | RetryableError) -> None:
        is_first = self._outage.note_failure(error)
        if isinstance(error, JudgeUnavailable):
            waiting.faults += is_first
            if waiting.faults >= FAULTS:
                reason = f"the judge answered for other traces in between, for this one it failed every time: {error}"
                self._fail(waiting.job, error.error_type, reason)
                return
        with self._lock:
            self._backlog.put_back(waiting, self._clock.monotonic() + self._outage.left)

    def _lose_patience(self) -> None:
        pause = self._outage.pause
        if pause is None:
            return
        error_type = pause.error.error_type if isinstance(pause.error, JudgeUnavailable) else "store_unavailable"
        if isinstance(pause.error, JudgeUnavailable) and pause.error.lasting:
            reason = f"the judge cannot be asked: {pause.error}"
        elif pause.number >= OUTAGES_BORNE:
            reason = f"the judge was away {OUTAGES_BORNE} times in a row: {pause.error}"
        else:
            return
        while (waiting := self._backlog.take(math.inf)) is not None:
            self._fail(waiting.job, error_type, reason)

    def _fail(self, job: JudgeJob, error_type: str, reason: str) -> None:
        self._taker.take_judgement(self._judgements.failed(job, error_type, reason))
