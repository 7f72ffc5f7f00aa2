"""The judge on a thread of its own, behind the evaluation: nothing that it does holds up a trace.

What waits here is in the store as pending: whatever is not judged when the collector stops is taken up at its next
start.
"""

import asyncio
import logging
import math
import threading
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from agenteval_collector.judge.backlog import Backlog, Waiting
from agenteval_collector.judge.client.port import Judge, JudgeUnavailable
from agenteval_collector.judge.judgements import Judgements
from agenteval_collector.judge.outage import Outage, described
from agenteval_collector.judge.port import JudgeTelemetry
from agenteval_collector.model.judging import JudgeJob, Judgement
from agenteval_collector.runtime.clock import Clock

logger = logging.getLogger(__name__)

ATTEMPTS: Final = 5
"""Times that one trace may fail to get an answer while others get theirs."""
PATIENCE: Final = 5
"""Times in a row that the judge may be away while traces are drained."""
MIN_PAUSE: Final = 0.5
"""Seconds before anything is tried again, whatever the error says."""
LONGEST_WAIT: Final = 60.0
CLOSING: Final = 2.0
"""Seconds for the judge to close its connections."""

Wait: TypeAlias = Callable[[asyncio.Event, float | None], Awaitable[None]]
"""Waits for an event, at most so many seconds; None: as long as it likes."""


async def wait_at_most(event: asyncio.Event, seconds: float | None) -> None:
    """The `Wait` by the machine's clock."""
    try:
        async with asyncio.timeout(LONGEST_WAIT if seconds is None else min(seconds, LONGEST_WAIT)):
            await event.wait()
    except TimeoutError:
        return


class JudgeStage:
    """Takes jobs from any thread and delivers their judgements.

    At most `parallel` traces are under way, `capacity` wait. Where there is no room a judgement is delivered at once,
    in the thread that submits: all outcomes failed. `deliver` must not block, and may be called from any thread.

    While the judge is away nothing fails: the stage waits as long as the judge's client says, then tries a single
    trace. A trace that gets no answer while others get theirs fails after `ATTEMPTS`.
    """

    def __init__(
        self,
        judgements: Judgements,
        judge: Judge,
        deliver: Callable[[Judgement], None],
        clock: Clock,
        telemetry: JudgeTelemetry,
        *,
        capacity: int,
        parallel: int,
        wait: Wait = wait_at_most,
    ) -> None:
        self._judgements = judgements
        self._judge = judge
        self._deliver = deliver
        self._clock = clock
        self._telemetry = telemetry
        self._parallel = parallel
        self._wait = wait
        self._backlog = Backlog(capacity)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False
        # Guards the three fields above: jobs come from the evaluation's thread, all else belongs to the loop's.
        self._lock = threading.Lock()
        self._wake = asyncio.Event()
        self._under_way: set[asyncio.Task[None]] = set()
        self._answered = 0
        self._outage = Outage()
        self._draining = False
        self._thread = threading.Thread(target=self._run, name="agenteval-judge", daemon=True)
        self._runner: asyncio.Runner | None = None

    def start(self) -> None:
        self._thread.start()

    def shutdown(self, timeout: float = 10.0) -> None:
        """Stop at once: what waits or is under way stays pending in the store. Safe before start and twice."""
        with self._lock:
            self._closing = True
            self._rouse()
        if self._thread.is_alive():
            self._thread.join(timeout)
        if self._runner is not None:
            self._runner.run(self._close())
            self._runner.close()
            self._runner = None

    def submit(self, job: JudgeJob) -> None:
        """Hand over a job; never blocks. After the shutdown it stays pending in the store."""
        waiting = Waiting(job=job)
        with self._lock:
            if self._closing:
                return
            refused = self._backlog.add(waiting)
            self._rouse()
        if refused is not None:
            self._telemetry.no_room()
            why = "too many traces wait for the judge" if refused is waiting else "the trace gave way to an urgent one"
            away = self._outage.error
            because = f"; judging pauses: {away}" if away else ""
            self._fail(refused, "no_room", f"{why}: judge.backlog is {self._backlog.capacity}{because}")

    def drain(self, progress: Callable[[int], None]) -> None:
        """Judge what was submitted, in the calling thread, to its end; instead of `start`, and as often as needed.

        `progress` is told now and then how many traces are left. Where the judge is away `PATIENCE` times in a row, or
        until somebody repairs it, all that is left fails.
        """

        def finished() -> bool:
            if (error := self._outage.error) is not None:
                if error.lasting:
                    self._give_up(error.error_type, f"the judge cannot be asked: {error}")
                elif self._outage.pauses >= PATIENCE:
                    self._give_up(error.error_type, f"the judge was away {PATIENCE} times in a row: {error}")
            left = len(self._backlog) + len(self._under_way)
            progress(left)
            return not left

        self._draining = True
        self._runner = self._runner or asyncio.Runner()
        self._runner.run(self._serve(finished))

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Traces that are neither judged nor under way."""
        return len(self._backlog)

    @property
    def room(self) -> int:
        """How many more may be submitted before one has no place; an instant's value."""
        return max(self._backlog.capacity - len(self._backlog), 0)

    @property
    def trouble(self) -> str | None:
        """Why traces wait for the judge, in words; None where nothing is wrong. From any thread."""
        trouble, error = self._judge.trouble, self._outage.error
        if trouble is not None:
            return described(trouble, self._clock.now())
        return None if error is None else f"judging pauses: {error}"

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._serve(lambda: self._closing))
            runner.run(self._close())

    async def _serve(self, finished: Callable[[], bool]) -> None:
        with self._lock:
            self._loop = asyncio.get_running_loop()
        try:
            while not finished():
                self._wake.clear()
                self._begin()
                await self._wait(self._wake, self._idle_for())
        finally:
            with self._lock:
                self._loop = None
            for task in self._under_way:
                task.cancel()
            await asyncio.gather(*self._under_way, return_exceptions=True)

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
        now = self._clock.monotonic()
        while len(self._under_way) < self._limit and now >= self._outage.until:
            with self._lock:
                waiting = self._backlog.take(now, probe=self._outage.pauses > 0)
            if waiting is None:
                return
            task = asyncio.create_task(self._attempt(waiting), name=f"agenteval-judge-{waiting.job.trace_id}")
            self._under_way.add(task)
            task.add_done_callback(self._ended)

    @property
    def _limit(self) -> int:
        return 1 if self._outage.pauses else self._parallel

    def _idle_for(self) -> float | None:
        """Seconds until something may be begun; None where only an event can bring that about."""
        if len(self._under_way) >= self._limit:
            return None
        with self._lock:
            size, due = len(self._backlog), self._backlog.due()
        if not size:
            return None
        now = self._clock.monotonic()
        if self._outage.until > now:
            return self._outage.until - now
        # Whatever was ready has begun.
        return None if due is None else max(due - now, 0.0)

    async def _attempt(self, waiting: Waiting) -> None:
        try:
            judgement = await self._judgements.find(waiting.job)
        except JudgeUnavailable as error:
            self._unavailable(waiting, error)
            return
        # A refusal is an answer too.
        if not all(exchange.cached for exchange in judgement.exchanges):
            self._answered += 1
            self._outage.over()
        self._deliver(judgement)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._wake.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a judgement was not delivered; the next start finds its trace again", exc_info=error)

    def _unavailable(self, waiting: Waiting, error: JudgeUnavailable) -> None:
        now = self._clock.monotonic()
        pause = max(error.retry_after, MIN_PAUSE)
        if not error.sent or self._draining:
            self._outage.pause(now, now + pause, error)
        if error.sent:
            waiting.tries += 1
            if waiting.answered is not None and waiting.answered < self._answered:
                waiting.attempts += 1
            waiting.answered = self._answered
        if waiting.attempts >= ATTEMPTS:
            reason = f"the judge answered for other traces in between, for this one it failed every time: {error}"
            self._fail(waiting, error.error_type, reason)
            return
        with self._lock:
            self._backlog.put_back(waiting, now + pause)

    def _give_up(self, error_type: str, reason: str) -> None:
        while (waiting := self._backlog.take(math.inf)) is not None:
            self._fail(waiting, error_type, reason)

    def _fail(self, waiting: Waiting, error_type: str, reason: str) -> None:
        self._deliver(self._judgements.failed(waiting.job, error_type, reason))
