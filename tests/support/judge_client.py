"""A judge over real HTTP with its books and its clock."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from agenteval_collector.judge.client.openai_judge import RETRIES, OpenAIJudge
from agenteval_collector.judge.ports import (
    JudgeError,
    JudgeReply,
    JudgeRequest,
    JudgeUnavailable,
    Message,
    OverBudget,
    Settle,
)
from agenteval_collector.model.judge_jobs import Spend

from tests.support.clock import ManualClock

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
        self.settled: list[Spend | None] = []
        self.most_under_way = 0

    async def reserve(self, request: JudgeRequest) -> Settle:
        if self.reserved == self.most:
            raise OverBudget(f"{self.most} requests")
        self.reserved += 1
        self.most_under_way = max(self.most_under_way, self.reserved - len(self.settled))
        return self.settled.append

    @property
    def ended(self) -> int:
        """Requests that left and came to their end."""
        return sum(1 if spend is None else spend.requests for spend in self.settled)


UNKNOWN = None
"""Settled without a usage."""
REJECTED = Spend(requests=1)
RELEASED = Spend()


class Asking:
    """A judge with its books and its clock."""

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 5.0,
        concurrency: int = 8,
        api_key: str | None = None,
        retries: int = RETRIES,
    ) -> None:
        self.books = Books()
        self.clock = ManualClock()
        self.requested: list[str | None] = []
        self.judge = OpenAIJudge(
            base_url=url,
            api_key=api_key,
            timeout=timeout,
            concurrency=concurrency,
            clock=self.clock,
            requested=lambda model, error_type: self.requested.append(error_type),
            retries=retries,
        )

    async def ask(self, request: JudgeRequest = REQUEST) -> JudgeReply | JudgeError:
        try:
            return await self.judge.ask(request, self.books.reserve)
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
