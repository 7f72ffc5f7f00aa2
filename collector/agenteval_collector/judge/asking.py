"""Put a question to the judge until it has its answer.

A question with a known answer is not asked at all. A question with a malformed reply is asked again. Every request is
counted, and kept as an exchange that can be looked up later.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final
from weakref import WeakValueDictionary

from agenteval_collector.judge.budget import Ledger
from agenteval_collector.judge.ports import (
    Judge,
    JudgeError,
    JudgeRequest,
    JudgeTelemetry,
    JudgeUnavailable,
    Malformed,
    NoAnswer,
    Question,
    Reserve,
    Settle,
)
from agenteval_collector.judge.prompt.encoding import encode
from agenteval_collector.judge.prompt.envelope import conceal, enclose, reask
from agenteval_collector.judge.prompt.replies import decode
from agenteval_collector.model.judge_jobs import Answer, JudgeExchange, JudgeJob
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import RetryableError
from agenteval_collector.stores.judge_exchanges import JudgeAnswerStore
from otel_agenteval.sending.throttle import ThrottledLog

logger = logging.getLogger(__name__)

REASKS: Final = 2
"""Number of times that a malformed reply is handed back to the judge."""
MAX_REQUESTS: Final = 5
"""HTTP requests of one question until its answer: of plainer forms, after malformed replies, and after failures that
may pass. They are enough for each form of a request and both further attempts at a model that takes only words."""
MAX_DATA: Final = 64 * 1024
"""Characters of a question's data that are kept. Longer data loses its middle."""
MAX_REPLY: Final = 16 * 1024
"""Characters of a reply that are kept. The judge decides how long its reply is."""
MAX_PROBLEM: Final = 1024
"""Characters that are kept of the description of what is wrong with a reply."""
NO_VALID_REPLY: Final = (
    "%d requests to the judge had no valid reply, what was asked fails; name another model in judge.model"
)


@dataclass(frozen=True, kw_only=True)
class Asking:
    """Puts questions to `judge` under the budget of `ledger`. Belongs to one event loop.

    A question is not asked if `answers` know its answer. Each call of `answers` holds the loop up for a millisecond
    or two.

    `endpoint` is the judge's address. It is part of an answer's key, as another endpoint gives other answers even
    if its models have the same names. `nonce` returns a new nonce at each call; `mark` always stays the same.
    `temperature` returns the temperature of a vote by the vote's number, from 0.
    """

    judge: Judge
    ledger: Ledger
    clock: Clock
    telemetry: JudgeTelemetry
    endpoint: str
    nonce: Callable[[], str]
    mark: str
    temperature: Callable[[int], float]
    answers: JudgeAnswerStore
    locks: MutableMapping[str, asyncio.Lock] = field(init=False, default_factory=WeakValueDictionary)
    """By the key of an answer: the lock of whoever asks for it. It is gone once nobody holds it or waits for it."""

    @cached_property
    def log(self) -> ThrottledLog:
        """The log of questions without a valid reply."""
        return ThrottledLog(logger, self.clock.monotonic)

    def about(self, job: JudgeJob, exchanges: list[JudgeExchange]) -> "TraceQuestions":
        """Make the questions of one trace or session, which add each exchange to `exchanges`.

        Those of a recheck use no earlier answer.
        """
        return TraceQuestions(self, exchanges, job)


class TraceQuestions:
    """Puts questions about one trace to the judge."""

    def __init__(self, asking: Asking, exchanges: list[JudgeExchange], job: JudgeJob) -> None:
        self._asking = asking
        self._job = job
        self._exchanges = exchanges
        self._reserve: Reserve | None = None

    @property
    def requests(self) -> int:
        """The number of requests so far. An answer that was known before counts as one."""
        return len(self._exchanges)

    @asynccontextmanager
    async def room(self, questions: int) -> AsyncIterator[None]:
        """Keep room in the budget for this number of questions. Raises OverBudget."""
        async with self._asking.ledger.room(questions) as self._reserve:
            yield

    async def __call__(self, question: Question, *, model: str, vote: int) -> Answer:
        """Ask, independently of other votes.

        Raises NoAnswer, OverBudget, and JudgeUnavailable if the question may be answered later.
        """
        by = self._asking
        temperature = by.temperature(vote)
        if self._job.recheck:
            return await self._insist(question, model, temperature)
        key = _key(by.endpoint, question, model, temperature, vote)
        # Traces that come together often bring the same question: one asks it, the others find its answer.
        async with by.locks.setdefault(key, asyncio.Lock()):
            known = by.answers.answer(key)
            by.telemetry.looked_up(known is not None)
            if known is None:
                answer = await self._insist(question, model, temperature)
                try:
                    by.answers.keep(key, answer, self._job)
                except RetryableError as error:
                    # The answer is paid for, and still good for this trace.
                    logger.warning("an answer of the judge could not be kept: %s", error)
                return answer
        # An earlier reply costs nothing, and was counted when it came.
        free = replace(self._asked(question, model), input_tokens=0, output_tokens=0, usd=0.0, seconds=0.0)
        reply = _shortened(json.dumps(known.reply), MAX_REPLY)
        self._exchanges.append(replace(free, reply=reply, cached=True))
        return known

    async def _insist(self, question: Question, model: str, temperature: float) -> Answer:
        """Ask until the reply is valid. After a malformed reply, tell the judge what was wrong with it."""
        assert self._reserve is not None, "questions are asked in a room"
        by, problem = self._asking, ""
        nonce = by.nonce()
        request = enclose(question, model=model, temperature=temperature, nonce=nonce, mark=by.mark)
        reserve = _Bounded(self._reserve)
        count = 0
        while count <= REASKS and reserve.requests < MAX_REQUESTS:
            count += 1
            exchange, started = self._asked(question, model), by.clock.monotonic()
            try:
                reply = await by.judge.ask(request, reserve)
            except JudgeError as error:
                message, seconds = _shortened(str(error), MAX_PROBLEM), by.clock.monotonic() - started
                self._count(replace(exchange, problem=message, seconds=seconds), error.error_type)
                raise
            by.telemetry.answered(model, reply.usage)
            # The mark is removed before the reply is kept or shown again. With it, data could imitate a reply.
            text = conceal(by.mark, reply.text)
            sent, received = reply.input_tokens, reply.output_tokens
            # Prices are listed by the model that was asked, not by the name in the reply.
            usd = by.ledger.prices.usd(model, sent, received)
            exchange = replace(exchange, input_tokens=sent, output_tokens=received, usd=usd, seconds=reply.seconds)
            exchange = replace(exchange, reply=_shortened(text, MAX_REPLY))
            try:
                decoded = decode(reply.text, question, by.mark)
            except Malformed as error:
                problem = conceal(by.mark, str(error))
                request = reask(request, nonce, text, problem)
                self._count(replace(exchange, problem=_shortened(problem, MAX_PROBLEM)), "malformed")
            else:
                self._count(exchange, None)
                return Answer(reply=decoded, model=reply.model, temperature=reply.temperature)
        # What is wrong with the reply is not logged, as it may quote the trace. The outcome's reason says it.
        by.log.lose(NO_VALID_REPLY, count, f"the first question is {question.name}, asked of {model}")
        by.log.log_losses()
        raise NoAnswer("malformed", f"no valid reply in {count} requests; the last one: {problem}")

    def _asked(self, question: Question, model: str) -> JudgeExchange:
        """Make the exchange of a question that is asked now."""
        return JudgeExchange(
            question=question.name,
            version=question.version,
            model=model,
            asked_at=self._asking.clock.now(),
            instructions=question.instructions,
            data=_shortened(encode(dict(question.data)), MAX_DATA),
        )

    def _count(self, exchange: JudgeExchange, error_type: str | None) -> None:
        self._exchanges.append(exchange)
        self._asking.telemetry.asked(exchange, error_type)


class _Bounded:
    """Reserves at most `MAX_REQUESTS` HTTP requests, and counts them."""

    def __init__(self, reserve: Reserve) -> None:
        self._reserve = reserve
        self.requests = 0

    async def __call__(self, request: JudgeRequest) -> Settle:
        """Reserve a request. Raises JudgeUnavailable if it is one too many, and the errors of the other."""
        if self.requests >= MAX_REQUESTS:
            raise JudgeUnavailable("too_many_requests", f"no answer to {request.name} in {MAX_REQUESTS} requests")
        self.requests += 1
        return await self._reserve(request)


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters left out ...] {text[-half:]}"


def _key(endpoint: str, question: Question, model: str, temperature: float, vote: int) -> str:
    """Make the key of an answer. Questions that the same reply answers have the same key.

    `vote` is part of the key, so each vote has its own answer.
    """
    content = [question.name, question.version, question.instructions, question.schema, question.data]
    text = json.dumps([endpoint, model, temperature, *content, vote], sort_keys=True, default=dict)
    return hashlib.sha256(text.encode()).hexdigest()
