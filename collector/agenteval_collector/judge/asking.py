"""Put a question until it has its answer: again where the reply is malformed, often for votes, once if known."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final

from agenteval_collector.judge.budget.prices import Prices
from agenteval_collector.judge.cache import Cache
from agenteval_collector.judge.checks import decode
from agenteval_collector.judge.client.ports import Judge, JudgeError, JudgeReply, JudgeRequest, NoAnswer, Spending
from agenteval_collector.judge.exchanges import ExchangeLog
from agenteval_collector.judge.ports import Answer, Budget, JudgeTelemetry, Malformed, OverBudget, Question, Reply
from agenteval_collector.judge.prompt.envelope import Envelope, conceal, enclose, reask
from agenteval_collector.model.judging import Exchange
from agenteval_collector.runtime.clock import Clock

REASKS: Final = 2
"""Times that a malformed reply is handed back."""
SECOND_LOOKS: Final = 2
"""Further votes where a score is near its threshold."""

CACHED_BYTES: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """A valid reply, as text and decoded."""

    text: str
    reply: Reply
    model: str
    temperature: float | None


def _weight(vote: Vote) -> int:
    # Decoded, a reply takes several times its text.
    return 1024 + 8 * len(vote.text)


@dataclass(frozen=True, kw_only=True)
class Asking:
    """The way in which questions are put to `judge` under `budget`; belongs to one event loop.

    A question with scores is asked `votes` times at once, and twice more where a median is then within `band` of its
    threshold. Votes that fail are left out where there is a valid one. `nonce` gives a new one at each call, `canary`
    stays.
    """

    judge: Judge
    budget: Budget
    prices: Prices
    clock: Clock
    telemetry: JudgeTelemetry
    nonce: Callable[[], str]
    canary: str
    votes: int
    band: float
    temperature: float
    cache: Cache[Vote] = field(default_factory=lambda: Cache(capacity=CACHED_BYTES, weigh=_weight))

    def about_trace(self, exchanges: list[Exchange], fresh: bool = False) -> "TraceQuestions":
        """Make the `Ask` of one trace, which adds to `exchanges` whatever it asks; a `fresh` one takes no answer that
        was given before."""
        return TraceQuestions(self, exchanges, fresh)


class TraceQuestions:
    """The `Ask` of one trace."""

    def __init__(self, asking: Asking, exchanges: list[Exchange], fresh: bool) -> None:
        self._asking = asking
        self._fresh = fresh
        self._exchanges = exchanges
        self._spending: Spending | None = None

    @asynccontextmanager
    async def room(self, questions: int) -> AsyncIterator[None]:
        """Keep room in the budget for the votes on so many questions. Raises OverBudget."""
        async with self._asking.budget.room(questions * self._asking.votes) as spending:
            self._spending = spending
            yield

    async def __call__(self, question: Question, *, model: str) -> Answer:
        """Ask. Raises NoAnswer, OverBudget, and JudgeUnavailable where it may be answered later."""
        by = self._asking
        log = ExchangeLog(
            question=question,
            model=model,
            exchanges=self._exchanges,
            prices=by.prices,
            clock=by.clock,
            telemetry=by.telemetry,
        )
        votes = await self._poll(log, range(by.votes if question.readings else 1))
        if _undecided(question, votes, by.band):
            # Where there are no further votes to be had, the first ones stand.
            with suppress(NoAnswer, OverBudget):
                votes += await self._poll(log, range(by.votes, by.votes + SECOND_LOOKS))
        return Answer(
            replies=tuple(vote.reply for vote in votes), model=votes[0].model, temperature=votes[0].temperature
        )

    async def _poll(self, log: ExchangeLog, numbers: Sequence[int]) -> list[Vote]:
        """Collect the valid votes of these numbers, at least one."""
        results = await asyncio.gather(*(self._vote(log, number) for number in numbers), return_exceptions=True)
        votes = [result for result in results if isinstance(result, Vote)]
        errors = [result for result in results if isinstance(result, BaseException)]
        passing = [error for error in errors if not isinstance(error, NoAnswer | OverBudget)]
        # All votes are found before any error counts: they are known then when the trace is judged again.
        if passing or not votes:
            raise (passing or errors)[0]
        return votes

    async def _vote(self, log: ExchangeLog, number: int) -> Vote:
        if self._fresh:
            return await self._insist(log)
        key = _key(log.question, log.model, self._asking.temperature, number)
        vote, known = await self._asking.cache.get(key, lambda: self._insist(log))
        if known:
            log.repeated(vote.text)
        return vote

    async def _insist(self, log: ExchangeLog) -> Vote:
        """Ask until the reply is valid; each time, the judge is told what was wrong with the last one."""
        by = self._asking
        envelope = enclose(log.question, nonce=by.nonce(), canary=by.canary)
        problem = ""
        for _ in range(1 + REASKS):
            asked_at = by.clock.now()
            reply = await self._request(envelope, log, asked_at)
            shown = replace(reply, text=conceal(by.canary, reply.text))
            try:
                decoded = decode(reply.text, log.question, by.canary)
            except Malformed as error:
                problem = conceal(by.canary, str(error))
                log.replied(asked_at, shown, malformed=problem)
                envelope = reask(envelope, shown.text, problem)
            else:
                log.replied(asked_at, shown)
                return Vote(text=shown.text, reply=decoded, model=reply.model, temperature=reply.temperature)
        raise NoAnswer("malformed", f"no valid reply in {1 + REASKS} requests; the last one: {problem}")

    async def _request(self, envelope: Envelope, log: ExchangeLog, asked_at: int) -> JudgeReply:
        assert self._spending is not None, "questions are asked in a room"
        by = self._asking
        request = JudgeRequest(
            name=log.question.name,
            model=log.model,
            messages=envelope.messages,
            schema=envelope.schema,
            temperature=by.temperature,
        )
        started = by.clock.monotonic()
        try:
            return await by.judge.ask(request, self._spending)
        except JudgeError as error:
            log.failed(asked_at, by.clock.monotonic() - started, error)
            raise


def _undecided(question: Question, votes: Sequence[Vote], band: float) -> bool:
    """Tell whether a score is so near its threshold that two more votes are wanted."""
    return bool(band) and any(
        abs(median(each.value(vote.reply) for vote in votes) - each.threshold) <= band for each in question.readings
    )


def _key(question: Question, model: str, temperature: float, number: int) -> str:
    """Make a key that is the same for questions to which the same replies are answers; `number` keeps votes apart."""
    asked = [model, temperature, question.name, question.version, question.instructions, question.schema, question.data]
    text = json.dumps([*asked, number], sort_keys=True, default=dict)
    return hashlib.sha256(text.encode()).hexdigest()
