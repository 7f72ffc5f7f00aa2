"""Put a question until it has its answer: again where the reply is malformed, not at all where it is known."""

import hashlib
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from agenteval_collector.judge.budget import Prices
from agenteval_collector.judge.cache import Cache
from agenteval_collector.judge.exchanges import ExchangeLog
from agenteval_collector.judge.ports import (
    Answer,
    AnswerStore,
    Budget,
    Judge,
    JudgeError,
    JudgeReply,
    JudgeRequest,
    JudgeTelemetry,
    Malformed,
    NoAnswer,
    Question,
    Spending,
)
from agenteval_collector.judge.prompt.envelope import Envelope, conceal, enclose, reask
from agenteval_collector.judge.prompt.replies import decode
from agenteval_collector.model.judging import Exchange, JudgeJob, StoredAnswer
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import RetryableError

logger = logging.getLogger(__name__)

REASKS: Final = 2
"""Times that a malformed reply is handed back."""

CACHED_BYTES: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Replied:
    """An answer with its text; `is_stored`: it was given earlier, to whichever process asked."""

    text: str
    answer: Answer
    is_stored: bool = False


def _weight(replied: Replied) -> int:
    # Decoded, a reply takes several times its text.
    return 1024 + 8 * len(replied.text)


@dataclass(frozen=True, kw_only=True)
class Asking:
    """Puts questions to `judge` under `budget`; belongs to one event loop. Where there are `answers`, nothing is asked
    that they know: each call of them holds the loop up for a millisecond or two.

    `endpoint` is where the judge is: another one with models of the same names gives other answers. `nonce` gives a new
    one at each call, `canary` stays. `temperature` is that of each vote, by its number from 0.
    """

    judge: Judge
    budget: Budget
    prices: Prices
    clock: Clock
    telemetry: JudgeTelemetry
    endpoint: str
    nonce: Callable[[], str]
    canary: str
    temperature: Callable[[int], float]
    answers: AnswerStore | None = None
    cache: Cache[Replied] = field(default_factory=lambda: Cache(capacity=CACHED_BYTES, weigh=_weight))

    def about_trace(self, exchanges: list[Exchange], job: JudgeJob) -> "TraceQuestions":
        """Make the `Ask` of one trace or session, which adds to `exchanges` whatever it asks. One of a recheck takes no
        answer that was given before."""
        return TraceQuestions(self, exchanges, job)


class TraceQuestions:
    """The `Ask` of one trace."""

    def __init__(self, asking: Asking, exchanges: list[Exchange], job: JudgeJob) -> None:
        self._asking = asking
        self._job = job
        self._exchanges = exchanges
        self._spending: Spending | None = None

    @property
    def requests(self) -> int:
        """The requests so far, and the answers that were known before."""
        return len(self._exchanges)

    @asynccontextmanager
    async def room(self, questions: int) -> AsyncIterator[None]:
        """Keep room in the budget for so many questions. Raises OverBudget."""
        async with self._asking.budget.room(questions) as spending:
            self._spending = spending
            yield

    async def __call__(self, question: Question, *, model: str, vote: int) -> Answer:
        """Ask. Raises NoAnswer, OverBudget, and JudgeUnavailable where it may be answered later."""
        by = self._asking
        temperature = by.temperature(vote)
        log = ExchangeLog(
            question=question,
            model=model,
            exchanges=self._exchanges,
            prices=by.prices,
            clock=by.clock,
            telemetry=by.telemetry,
        )
        if self._job.recheck:
            return (await self._insist(log, temperature)).answer
        key = _key(by.endpoint, question, model, temperature, vote)
        replied, known = await by.cache.get(key, lambda: self._look_up(key, log, temperature))
        known = known or replied.is_stored
        by.telemetry.looked_up(known)
        if known:
            log.repeated(replied.text)
        return replied.answer

    async def _look_up(self, key: str, log: ExchangeLog, temperature: float) -> Replied:
        """Return the answer that any process had, else ask."""
        answers = self._asking.answers
        if answers is not None and (kept := answers.answer(key)) is not None:
            answer = Answer(reply=json.loads(kept.reply), model=kept.model, temperature=kept.temperature)
            return Replied(text=kept.reply, answer=answer, is_stored=True)
        replied = await self._insist(log, temperature)
        if answers is not None:
            answer = replied.answer
            stored = StoredAnswer(reply=json.dumps(answer.reply), model=answer.model, temperature=answer.temperature)
            try:
                answers.keep(key, stored, self._job)
            except RetryableError as error:
                # It is paid for, and known to this process.
                logger.warning("an answer of the judge could not be kept: %s", error)
        return replied

    async def _insist(self, log: ExchangeLog, temperature: float) -> Replied:
        """Ask until the reply is valid; each time, the judge is told what was wrong with the last one."""
        by = self._asking
        envelope = enclose(log.question, nonce=by.nonce(), canary=by.canary)
        problem = ""
        for _ in range(1 + REASKS):
            asked_at = by.clock.now()
            reply = await self._request(envelope, log, temperature, asked_at)
            shown = replace(reply, text=conceal(by.canary, reply.text))
            try:
                decoded = decode(reply.text, log.question, by.canary)
            except Malformed as error:
                problem = conceal(by.canary, str(error))
                log.replied(asked_at, shown, malformed=problem)
                envelope = reask(envelope, shown.text, problem)
            else:
                log.replied(asked_at, shown)
                answer = Answer(reply=decoded, model=reply.model, temperature=reply.temperature)
                return Replied(text=shown.text, answer=answer)
        raise NoAnswer("malformed", f"no valid reply in {1 + REASKS} requests; the last one: {problem}")

    async def _request(self, envelope: Envelope, log: ExchangeLog, temperature: float, asked_at: int) -> JudgeReply:
        assert self._spending is not None, "questions are asked in a room"
        by = self._asking
        request = JudgeRequest(
            name=log.question.name,
            model=log.model,
            messages=envelope.messages,
            schema=envelope.schema,
            temperature=temperature,
        )
        started = by.clock.monotonic()
        try:
            return await by.judge.ask(request, self._spending)
        except JudgeError as error:
            log.failed(asked_at, by.clock.monotonic() - started, error)
            raise


def _key(endpoint: str, question: Question, model: str, temperature: float, vote: int) -> str:
    """Make a key that is the same for questions to which the same replies are answers; `vote` keeps votes apart."""
    asked = [question.name, question.version, question.instructions, question.schema, question.data]
    text = json.dumps([endpoint, model, temperature, *asked, vote], sort_keys=True, default=dict)
    return hashlib.sha256(text.encode()).hexdigest()
