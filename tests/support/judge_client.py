"""A judge over real HTTP with its books, its clock, and pauses that are only noted."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from agenteval_collector.judge.client.openai_judge import OpenAIJudge
from agenteval_collector.judge.client.port import JudgeError, JudgeReply, JudgeRequest, JudgeUnavailable, Message
from agenteval_collector.judge.port import OverBudget
from agenteval_collector.runtime.clock import ManualClock

T = TypeVar("T")

REQUEST = JudgeRequest(
    name="verdict",
    model="judge-1",
    messages=(Message("system", "Judge."), Message("user", "A trace.")),
    schema={"type": "object", "properties": {"score": {"type": "number"}}, "required": ["score"]},
    temperature=0.0,
)
GOOD = '{"score": 0.8}'


class Books:
    """Spending without a bound, or with one of `most` requests; counts."""

    def __init__(self, most: int = 1000) -> None:
        self.most = most
        self.reserved = 0
        self.settled: list[JudgeReply | None] = []
        self.rejected = 0
        self.released = 0
        self.most_under_way = 0

    async def reserve(self, request: JudgeRequest) -> None:
        if self.reserved == self.most:
            raise OverBudget(f"{self.most} requests")
        self.reserved += 1
        self.most_under_way = max(self.most_under_way, self.reserved - self.ended)

    def settle(self, request: JudgeRequest, reply: JudgeReply | None) -> None:
        self.settled.append(reply)

    def reject(self, request: JudgeRequest) -> None:
        self.rejected += 1

    def release(self, request: JudgeRequest) -> None:
        self.released += 1

    @property
    def ended(self) -> int:
        """Those that left and came to their end."""
        return len(self.settled) + self.rejected


class Asking:
    """A judge with its books, its clock, and the pauses that it would have made between attempts."""

    def __init__(self, url: str, *, timeout: float = 5.0, concurrency: int = 8, api_key: str | None = None) -> None:
        self.books = Books()
        self.clock = ManualClock()
        self.pauses: list[float] = []
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.requested: list[str | None] = []
        self.judge = OpenAIJudge(
            base_url=url,
            api_key=api_key,
            timeout=timeout,
            concurrency=concurrency,
            spending=self.books,
            clock=self.clock,
            requested=lambda model, error_type: self.requested.append(error_type),
            sleep=self.pause,
            chance=lambda: 0.5,
        )

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await self.go_on.wait()

    async def ask(self, request: JudgeRequest = REQUEST) -> JudgeReply | JudgeError:
        try:
            return await self.judge.ask(request)
        except JudgeError as error:
            return error


def run(url: str, use: Callable[[Asking], Awaitable[T]], **options: Any) -> tuple[Asking, T]:
    async def within() -> tuple[Asking, T]:
        asking = Asking(url, **options)
        try:
            return asking, await use(asking)
        finally:
            await asking.judge.close()

    return asyncio.run(within())


def described(outcome: JudgeReply | JudgeError) -> str:
    """A reply's text; of an error its kind and type."""
    if isinstance(outcome, JudgeReply):
        return outcome.text
    kind = "unavailable" if isinstance(outcome, JudgeUnavailable) else "refused"
    return f"{kind}: {outcome.error_type}"
