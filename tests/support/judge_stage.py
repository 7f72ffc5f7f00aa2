"""A judge stage whose panel, time and store are the test's."""

import asyncio
import queue
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from agenteval_collector.app.judge import NoRechecks
from agenteval_collector.judge.asking import TraceQuestions
from agenteval_collector.judge.judgements import Judgements
from agenteval_collector.judge.panel import Judged
from agenteval_collector.judge.ports import JudgeReply, JudgeRequest, JudgeUnavailable, Question, Reserve, Usage
from agenteval_collector.judge.queue.stage import JudgeStage
from agenteval_collector.model.judge_jobs import Answer, JudgeExchange, JudgeJob, Judgement
from agenteval_collector.runtime.errors import Unavailable
from agenteval_collector.stores.judge_exchanges import JudgeAnswerStore

from otel_agenteval.model import Trace
from otel_agenteval.outcome import Failure, Method, Score, Status, Unscored
from tests.support.clock import ManualClock
from tests.support.evaluations import evaluation
from tests.support.judging import question
from tests.support.referring import exchange

PATIENT = 10.0
"""Seconds after which a test gives up on a thread."""
GOOD = Judged(outcome=Score(value=0.8, reason="well done"), model="m-2026")


def job(trace_id: str, *, urgent: bool = False, names: Collection[str] = ("confidence",)) -> JudgeJob:
    """A job whose outcomes of these names are pending."""
    pending = tuple(
        evaluation(
            name=name,
            method=Method.LLM,
            subject_id=trace_id,
            trace_id=trace_id,
            model="m",
            evaluated_at=1,
            outcome=Unscored(status=Status.PENDING, reason="waiting for the judge"),
        )
        for name in names
    )
    return JudgeJob(trace_id=trace_id, session_id="s-1", revision=1, urgent=urgent, pending=pending)


def unavailable(*, retry_after: float | None = 5.0, lasting: bool = False) -> JudgeUnavailable:
    return JudgeUnavailable("timeout", "no reply in 30 s", retry_after=retry_after, lasting=lasting)


@dataclass
class Answering(TraceQuestions):
    """Answers every question with this exchange."""

    exchange: JudgeExchange
    exchanges: list[JudgeExchange]

    @property
    def requests(self) -> int:
        return len(self.exchanges)

    @asynccontextmanager
    async def room(self, questions: int) -> AsyncIterator[None]:
        yield

    async def __call__(self, question: Question, *, model: str, vote: int) -> Answer:
        self.exchanges.append(self.exchange)
        return Answer(reply={}, model=model, temperature=0.0)


@dataclass
class Answers(JudgeAnswerStore):
    """The store of answers, in memory; `is_full`: it keeps nothing."""

    known: dict[str, Answer] = field(default_factory=dict)
    is_full: bool = False

    def answer(self, key: str) -> Answer | None:
        return self.known.get(key)

    def keep(self, key: str, answer: Answer, job: JudgeJob) -> None:
        if self.is_full:
            raise Unavailable("the store could not be written")
        self.known[key] = answer


@dataclass
class World:
    """Everything around the stage.

    `step` says what happens when a trace is judged for the n-th time, after what `pace` waits for: an error, or None
    for an answer. Waiting takes the stage no time: the clock is put forward.
    """

    step: Callable[[str, int], Exception | None] = lambda trace_id, attempt: None
    load_step: Callable[[str], Exception | None] = lambda trace_id: None
    gone: Collection[str] = ()
    asked_about: JudgeExchange = field(default_factory=exchange)
    judged: dict[str, Judged] = field(default_factory=lambda: {"confidence": GOOD})
    clock: ManualClock = field(default_factory=ManualClock)
    tried: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    delivered: "queue.Queue[Judgement]" = field(default_factory=queue.Queue)
    no_rooms: int = 0
    closed: int = 0
    pace: Callable[[], Awaitable[object]] | None = None
    together: int = 0
    most_together: int = 0

    def stage(self, *, capacity: int = 100, parallel: int = 1) -> JudgeStage:
        return JudgeStage(
            Judgements(self.load, self.judge_trace, self.asking, self.clock),
            self,
            self,
            self.clock,
            self,
            capacity=capacity,
            parallel=parallel,
            wait=self.wait,
            rechecks=NoRechecks(),
        )

    @contextmanager
    def running(self, *jobs: JudgeJob, capacity: int = 100, parallel: int = 1) -> Iterator[JudgeStage]:
        """A stage that has started with these jobs."""
        stage = self.stage(capacity=capacity, parallel=parallel)
        for each in jobs:
            stage.take_job(each)
        stage.start()
        try:
            yield stage
        finally:
            stage.shutdown(PATIENT)
            assert not stage.alive

    def next(self) -> Judgement:
        return self.delivered.get(timeout=PATIENT)

    def load(self, job: JudgeJob) -> Trace | None:
        if (error := self.load_step(job.trace_id)) is not None:
            raise error
        return None if job.trace_id in self.gone else Trace(trace_id=job.trace_id)

    async def judge_trace(self, trace: Trace, wanted: Collection[str], ask: TraceQuestions) -> dict[str, Judged]:
        self.tried.append(trace.trace_id)
        self.together += 1
        self.most_together = max(self.together, self.most_together)
        try:
            if self.pace is not None:
                await self.pace()
            if (error := self.step(trace.trace_id, self.tried.count(trace.trace_id))) is not None:
                raise error
            async with ask.room(1):
                await ask(question({}, {}), model="m", vote=0)
        finally:
            self.together -= 1
        return self.judged

    def asking(self, job: JudgeJob, exchanges: list[JudgeExchange]) -> TraceQuestions:
        return Answering(self.asked_about, exchanges)

    def take_judgement(self, judgement: Judgement) -> None:
        self.delivered.put(judgement)

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        if seconds is None:
            await asyncio.wait_for(event.wait(), PATIENT)
        else:
            self.waits.append(seconds)
            self.clock.advance(seconds)
            await asyncio.sleep(0)

    async def ask(self, request: JudgeRequest, reserve: Reserve) -> JudgeReply:
        raise AssertionError("the stage asks by its panel only")

    async def close(self) -> None:
        self.closed += 1

    def asked(self, exchange: JudgeExchange, error_type: str | None) -> None:
        raise AssertionError("the stage reports no requests")

    def requested(self, model: str, error_type: str | None) -> None:
        raise AssertionError("the client tells of its own requests")

    def answered(self, model: str, usage: Usage) -> None:
        raise AssertionError("the stage asks nothing")

    def looked_up(self, known: bool) -> None:
        raise AssertionError("the stage looks nothing up")

    def no_room(self) -> None:
        self.no_rooms += 1


def failure(judgement: Judgement) -> Failure:
    """The failure that the one outcome of a judgement is."""
    [outcome] = [each.outcome for each in judgement.evaluations]
    assert isinstance(outcome, Failure)
    return outcome
