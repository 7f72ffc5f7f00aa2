"""How a question gets its answer: asked again where the reply is malformed, several times where votes are wanted, and
only once where it was answered before."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from agenteval_collector.judge.cache import Cache
from agenteval_collector.judge.checks import decode
from agenteval_collector.judge.client.port import Judge, JudgeRefused, JudgeReply, JudgeRequest, JudgeUnavailable
from agenteval_collector.judge.envelope import Envelope, conceal, enclose, reask
from agenteval_collector.judge.exchanges import Recording
from agenteval_collector.judge.ledger import Prices
from agenteval_collector.judge.port import Answer, Ask, JudgeTelemetry, Malformed, NoAnswer, OverBudget, Question, Reply
from agenteval_collector.model.judging import Exchange
from agenteval_collector.runtime.clock import Clock

REASKS: Final = 2
"""Times that a malformed reply is handed back."""
SECOND_LOOKS: Final = 2
"""Further votes where a score is near its threshold."""

CACHED_VOTES: Final = 10_000
CACHED_BYTES: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vote:
    """A valid reply, as text and decoded."""

    text: str
    reply: Reply
    model: str
    temperature: float | None


class Asking:
    """Puts questions to `judge`; belongs to one event loop.

    A question with scores is asked `votes` times at once. Where the median of one of its scores is within `band` of
    the threshold then, it is asked twice more. Votes that fail count as long as there is another one: the answer
    tells how many there are. `nonce` gives a new random one at each call, `canary` is random too
    and stays; both as `enclose` wants them.
    """

    def __init__(
        self,
        judge: Judge,
        *,
        prices: Prices,
        clock: Clock,
        nonce: Callable[[], str],
        canary: str,
        votes: int,
        band: float,
        temperature: float,
        telemetry: JudgeTelemetry,
    ) -> None:
        self._judge = judge
        self._prices = prices
        self._clock = clock
        self._nonce = nonce
        self._canary = canary
        self._votes = votes
        self._band = band
        self._temperature = temperature
        self._telemetry = telemetry
        self._cache: Cache[_Vote] = Cache(entries=CACHED_VOTES, capacity=CACHED_BYTES, weigh=_weight)

    def recorded_in(self, exchanges: list[Exchange]) -> Ask:
        """An `Ask` that adds to `exchanges` whatever it asks."""

        async def ask(question: Question, *, model: str) -> Answer:
            recording = Recording(
                question, model, exchanges, prices=self._prices, clock=self._clock, telemetry=self._telemetry
            )
            return await self._answer(question, model, recording)

        return ask

    async def _answer(self, question: Question, model: str, recording: Recording) -> Answer:
        votes = await self._poll(question, model, range(self._votes if question.scores else 1), recording)
        if self._undecided(question, votes):
            # Where there are no further votes to be had, the first ones stand.
            with suppress(NoAnswer, OverBudget):
                more = range(self._votes, self._votes + SECOND_LOOKS)
                votes += await self._poll(question, model, more, recording)
        return Answer(
            replies=tuple(vote.reply for vote in votes), model=votes[0].model, temperature=votes[0].temperature
        )

    async def _poll(self, question: Question, model: str, numbers: Sequence[int], recording: Recording) -> list[_Vote]:
        """The valid votes of these numbers, at least one."""
        polled = [self._vote(question, model, number, recording) for number in numbers]
        results = await asyncio.gather(*polled, return_exceptions=True)
        votes = [result for result in results if isinstance(result, _Vote)]
        errors = [result for result in results if isinstance(result, BaseException)]
        final = [error for error in errors if isinstance(error, NoAnswer | OverBudget)]
        # All votes are found before any error counts: they are known then when the trace is judged again.
        for error in errors:
            if error not in final:
                raise error
        if not votes:
            raise final[0]
        return votes

    def _undecided(self, question: Question, votes: Sequence[_Vote]) -> bool:
        if question.scores is None or not self._band:
            return False
        by_evaluator = zip(*(question.scores(vote.reply) for vote in votes), strict=True)
        return any(abs(median(score for score, _ in pairs) - pairs[0][1]) <= self._band for pairs in by_evaluator)

    async def _vote(self, question: Question, model: str, number: int, recording: Recording) -> _Vote:
        key = _key(question, model, self._temperature, number)
        vote, known = await self._cache.get(key, lambda: self._insist(question, model, recording))
        if known:
            recording.repeated(vote.text)
        return vote

    async def _insist(self, question: Question, model: str, recording: Recording) -> _Vote:
        """Ask until the reply is valid; each time, the judge is told what was wrong with the last one."""
        envelope = enclose(question, nonce=self._nonce(), canary=self._canary)
        problem = ""
        for _ in range(1 + REASKS):
            asked_at = self._clock.now()
            reply = await self._request(question, model, envelope, recording)
            shown = replace(reply, text=conceal(self._canary, reply.text))
            try:
                decoded = decode(reply.text, question, self._canary)
            except Malformed as error:
                problem = conceal(self._canary, str(error))
                recording.replied(asked_at, shown, malformed=problem)
                envelope = reask(envelope, shown.text, problem)
            else:
                recording.replied(asked_at, shown)
                return _Vote(text=shown.text, reply=decoded, model=reply.model, temperature=reply.temperature)
        raise NoAnswer("malformed", f"no valid reply in {1 + REASKS} requests; the last one: {problem}")

    async def _request(self, question: Question, model: str, envelope: Envelope, recording: Recording) -> JudgeReply:
        asked_at, started = self._clock.now(), self._clock.monotonic()
        try:
            return await self._judge.ask(
                JudgeRequest(
                    name=question.name,
                    model=model,
                    messages=envelope.messages,
                    schema=envelope.schema,
                    temperature=self._temperature,
                )
            )
        except JudgeRefused as error:
            recording.failed(asked_at, self._clock.monotonic() - started, error)
            raise NoAnswer(error.error_type, str(error)) from error
        except JudgeUnavailable as error:
            if error.sent:
                recording.failed(asked_at, self._clock.monotonic() - started, error)
            raise


def _key(question: Question, model: str, temperature: float, number: int) -> str:
    """The same for questions to which the same replies are answers. `number` keeps votes apart."""
    asked = [model, temperature, question.name, question.version, question.instructions, question.schema, question.data]
    text = json.dumps([*asked, number], sort_keys=True, default=dict)
    return hashlib.sha256(text.encode()).hexdigest()


def _weight(vote: _Vote) -> int:
    """Bytes of memory, about: decoded, a reply takes several times its text."""
    return 1024 + 8 * len(vote.text)
