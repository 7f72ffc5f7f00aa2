"""Keep the requests about a question, to be looked up later, and count them."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from agenteval_collector.judge.budget import Prices
from agenteval_collector.judge.ports import JudgeError, JudgeReply, JudgeTelemetry, Question
from agenteval_collector.judge.prompt.encoding import encode
from agenteval_collector.model.judging import Exchange
from agenteval_collector.runtime.clock import Clock

MAX_DATA: Final = 64 * 1024
"""Characters of a question's data that are kept; the middle is left out of longer ones."""
MAX_REPLY: Final = 16 * 1024
"""The same of a reply, whose length is up to the judge."""
MAX_PROBLEM: Final = 1024


@dataclass(frozen=True, kw_only=True)
class ExchangeLog:
    """Adds to `exchanges` every request about `question` that comes to its end, and reports it."""

    question: Question
    model: str
    exchanges: list[Exchange]
    prices: Prices
    clock: Clock
    telemetry: JudgeTelemetry

    def replied(self, asked_at: int, reply: JudgeReply, malformed: str | None = None) -> None:
        """Add a request that was answered; `malformed` says what is wrong with the reply."""
        exchange = replace(
            self._asked,
            asked_at=asked_at,
            reply=_shortened(reply.text, MAX_REPLY),
            problem=None if malformed is None else _shortened(malformed, MAX_PROBLEM),
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            # Prices are known by the model that was asked, not by the name in the reply.
            usd=self.prices.usd(self.model, reply.input_tokens, reply.output_tokens),
            seconds=reply.seconds,
        )
        self._add(exchange, None if malformed is None else "malformed")

    def failed(self, asked_at: int, seconds: float, error: JudgeError) -> None:
        """Add a request without a reply."""
        problem = _shortened(str(error), MAX_PROBLEM)
        self._add(replace(self._asked, asked_at=asked_at, problem=problem, seconds=seconds), error.error_type)

    def repeated(self, reply: str) -> None:
        """Add an earlier reply to the same question, which cost nothing."""
        free = replace(self._asked, input_tokens=0, output_tokens=0, usd=0.0, seconds=0.0, cached=True)
        self.exchanges.append(replace(free, asked_at=self.clock.now(), reply=_shortened(reply, MAX_REPLY)))

    @cached_property
    def _asked(self) -> Exchange:
        return Exchange(
            question=self.question.name,
            version=self.question.version,
            model=self.model,
            asked_at=0,
            instructions=self.question.instructions,
            data=_shortened(encode(dict(self.question.data)), MAX_DATA),
        )

    def _add(self, exchange: Exchange, error_type: str | None) -> None:
        self.exchanges.append(exchange)
        self.telemetry.asked(exchange, error_type)


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters left out ...] {text[-half:]}"
