"""What is kept of the requests about a question, and counted of them."""

from typing import Final

from agenteval_collector.judge.client.port import JudgeError, JudgeReply
from agenteval_collector.judge.encoding import encode
from agenteval_collector.judge.ledger import Prices
from agenteval_collector.judge.port import JudgeTelemetry, Question
from agenteval_collector.model.judging import Exchange
from agenteval_collector.runtime.clock import Clock

MAX_DATA: Final = 64 * 1024
"""Characters of a question's data that are kept; the middle is left out of longer ones."""
MAX_REPLY: Final = 16 * 1024
"""The same of a reply, which is as long as the judge likes."""
MAX_PROBLEM: Final = 1024


class Recording:
    """Adds to `exchanges` every request about `question` that comes to its end, and reports it.

    What it cost is added up by the model that was asked, not by the name in the reply: prices are known by that.
    """

    def __init__(
        self,
        question: Question,
        model: str,
        exchanges: list[Exchange],
        *,
        prices: Prices,
        clock: Clock,
        telemetry: JudgeTelemetry,
    ) -> None:
        self._question = question
        self._model = model
        self._exchanges = exchanges
        self._prices = prices
        self._clock = clock
        self._telemetry = telemetry
        self._data = _shortened(encode(dict(question.data)), MAX_DATA)

    def replied(self, asked_at: int, reply: JudgeReply, malformed: str | None = None) -> None:
        """There was a reply; `malformed` says what is wrong with it."""
        known = reply.input_tokens is not None and reply.output_tokens is not None
        usd = self._prices.usd(self._model, reply.input_tokens or 0, reply.output_tokens or 0) if known else None
        self._add(
            self._exchange(
                asked_at,
                reply=reply.text,
                problem=malformed,
                input_tokens=reply.input_tokens,
                output_tokens=reply.output_tokens,
                usd=usd,
                seconds=reply.seconds,
            ),
            error_type="malformed" if malformed is not None else None,
        )

    def failed(self, asked_at: int, seconds: float, error: JudgeError) -> None:
        """No reply came."""
        self._add(self._exchange(asked_at, problem=str(error), seconds=seconds), error_type=error.error_type)

    def repeated(self, reply: str) -> None:
        """An earlier reply to the same question was used again."""
        self._exchanges.append(
            self._exchange(
                self._clock.now(), reply=reply, input_tokens=0, output_tokens=0, usd=0.0, seconds=0.0, cached=True
            )
        )

    def _add(self, exchange: Exchange, error_type: str | None) -> None:
        self._exchanges.append(exchange)
        self._telemetry.asked(exchange, error_type)

    def _exchange(
        self,
        asked_at: int,
        *,
        reply: str | None = None,
        problem: str | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        usd: float | None = None,
        seconds: float,
        cached: bool = False,
    ) -> Exchange:
        return Exchange(
            question=self._question.name,
            version=self._question.version,
            model=self._model,
            asked_at=asked_at,
            instructions=self._question.instructions,
            data=self._data,
            reply=None if reply is None else _shortened(reply, MAX_REPLY),
            problem=None if problem is None else _shortened(problem, MAX_PROBLEM),
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            usd=usd,
            seconds=seconds,
            cached=cached,
        )


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters left out ...] {text[-half:]}"
