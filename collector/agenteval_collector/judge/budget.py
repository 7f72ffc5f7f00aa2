"""Account for what the judge uses, and keep it within the budget.

Every request is reserved in the store before it leaves, and corrected when its reply is there. So a crash in between
counts too much, never too little. If a reply reports no usage, or one that cannot be right, the estimate stands, as the
request may have been billed.

While requests of this process are under way, other requests wait to see what these really use, instead of failing.
From the first request of a trace on, room for all its requests is kept. This room is one of requests, not of tokens or
money. Without it, a burst of traces could use up the budget on first questions.

Several processes may have a ledger over one store. Looking and reserving are one transaction, so all processes
together stay within each bound. A reservation of another process counts as used up until that process settles it.
Other processes do not see the room that is kept here.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import product
from typing import Final, NamedTuple

from agenteval_collector.config.judge import BudgetConfig
from agenteval_collector.config.values import PriceConfig
from agenteval_collector.judge.ports import JudgeRequest, OverBudget, Reserve, Settle
from agenteval_collector.judge.prompt.encoding import tokens
from agenteval_collector.model.judge_jobs import BudgetLevel, Exceeded, Measure, Spend, SpendLimit, exceeded
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.stores.judge_ledger import JudgeLedgerStore

logger = logging.getLogger(__name__)

_NANOSECONDS_PER_HOUR: Final = 3_600_000_000_000
_TOKENS_PER_MESSAGE: Final = 8
_OUTPUT_TOKENS: Final = 1024
"""More tokens than a reply to our questions takes, unless the model reasons at length."""
_MEASURES: Final[tuple[Measure, ...]] = ("requests", "tokens", "usd")
_PERIODS: Final = {"hour": 1, "day": 24}


class PriceList:
    """`judge.prices`. A model `vendor/name` without a price of its own has the price of `name`."""

    def __init__(self, prices: Mapping[str, PriceConfig]) -> None:
        self._prices = prices

    def usd(self, model: str, input_tokens: int | None, output_tokens: int | None) -> float | None:
        """Return the cost in US dollars. Return None if the model has no price, or a token count is unknown."""
        price = self._prices.get(model) or self._prices.get(model.partition("/")[2])
        if price is None or input_tokens is None or output_tokens is None:
            return None
        return (input_tokens * price.input + output_tokens * price.output) / 1_000_000

    def unknown(self, models: Collection[str]) -> list[str]:
        """List those of `models` that have no price."""
        return sorted(model for model in set(models) if self.usd(model, 0, 0) is None)


class _Bound(NamedTuple):
    """One line of the budget. `hours` is the length of its period."""

    key: str
    measure: Measure
    hours: int
    limit: float


class Ledger:
    """The ledger of a judge, under a budget per whole hour and whole day of UTC. Belongs to the judge's event loop.

    `models` are all models that can be asked. If one of them has no price, the bounds on money do not apply; this
    is logged once. Each call of the store holds the loop up for a millisecond or two. One request makes at most three
    calls.
    """

    def __init__(
        self, budget: BudgetConfig, prices: PriceList, store: JudgeLedgerStore, clock: Clock, models: Collection[str]
    ) -> None:
        self.prices = prices
        self._store = store
        self._clock = clock
        self._bounds = _bounds(budget, prices.unknown(models))
        self._under_way = 0
        self._left: dict[object, int] = {}
        """By room: the requests that are kept for its trace and were not made yet."""
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def room(self, requests: int) -> AsyncIterator[Reserve]:
        """Keep room for that many requests of one trace, and give the function that reserves each of them.

        Waits while other traces may leave unused room. Raises OverBudget if there is no room.
        """
        needed = Spend(requests=requests)
        while (over := exceeded(self._limits(needed), self._store.spent_since)) is not None:
            await self._room_freed(over, needed, may_wait=bool(self._left))
        room = object()
        self._left[room] = requests
        try:
            yield partial(self._reserve, room)
        finally:
            del self._left[room]
            self._wake()

    async def _reserve(self, room: object, request: JudgeRequest) -> Settle:
        """Reserve a request, from the trace's own room while this has any left."""
        expected = Spend(requests=1, input_tokens=estimated_tokens(request), output_tokens=_OUTPUT_TOKENS)
        estimate = self._priced(request.model, expected)
        while True:
            # A trace that needs more than its own room does not wait for the rooms of other traces: those traces could
            # be waiting for the place that this one holds. It waits only for requests under way, which always end.
            needed = replace(estimate, requests=0) if self._left[room] else estimate
            hour = self._hour()
            over = self._store.spend(hour, request.model, estimate, self._limits(needed))
            if over is None:
                break
            await self._room_freed(over, needed, may_wait=self._under_way > 0)
        self._left[room] = max(self._left[room] - 1, 0)
        self._under_way += 1

        def settle(used: Spend | None) -> None:
            # Waking first is safe. Nothing is awaited here, so the waiting tasks run only after this has returned.
            self._under_way -= 1
            self._wake()
            if used is not None:
                self._store.spend(hour, request.model, self._priced(request.model, used) - estimate)

        return settle

    def levels(self) -> list[BudgetLevel]:
        """Return how much of each bound is used up, including requests under way.

        From any thread. Raises Unavailable.
        """
        spent_since = self._store.spent_since
        return [
            BudgetLevel(bound.key, spent_since(self._start(bound.hours)).of(bound.measure), bound.limit)
            for bound in self._bounds
        ]

    def _priced(self, model: str, spend: Spend) -> Spend:
        """Return a spend with its cost, which is 0 if the model has no price."""
        return replace(spend, usd=self.prices.usd(model, spend.input_tokens, spend.output_tokens) or 0.0)

    def _limits(self, needed: Spend) -> list[SpendLimit]:
        """Return the limit of each bound, beside what is needed and what is kept for other traces."""
        return [
            SpendLimit(
                self._start(bound.hours),
                bound.measure,
                beside=self._kept.of(bound.measure) + needed.of(bound.measure),
                most=bound.limit,
            )
            for bound in self._bounds
        ]

    @property
    def _kept(self) -> Spend:
        """The spend that is kept for requests that traces have not made yet."""
        return Spend(requests=sum(self._left.values()))

    async def _room_freed(self, over: Exceeded, needed: Spend, *, may_wait: bool) -> None:
        """Wait until room may be free. Raises OverBudget, with the bound that leaves none, if nothing can free it."""
        if may_wait:
            await self._freed.wait()
            return
        bound = self._bounds[over.place]
        used = over.spent + self._kept.of(bound.measure)
        raise OverBudget(_why_not(bound, used, needed.of(bound.measure), self._start(bound.hours) + bound.hours))

    def _start(self, hours: int) -> int:
        """Return the hour in which the present period of this length began."""
        # The Unix epoch began at midnight UTC, so each day begins at a multiple of 24 hours.
        hour = self._hour()
        return hour - hour % hours

    def _hour(self) -> int:
        return self._clock.now() // _NANOSECONDS_PER_HOUR

    def _wake(self) -> None:
        # Tasks that wait from now on need a new event, as an event that is set would not make them wait.
        self._freed.set()
        self._freed = asyncio.Event()


def _why_not(bound: _Bound, used: float, needed: float, free_at: int) -> str:
    """Say which bound leaves no room. `free_at` is the hour in which its next period begins."""
    says = f"judge.budget.{bound.key} is {bound.limit:.10g}"
    if needed > bound.limit:
        what = f"the {needed:.10g} requests of a trace"
        if bound.measure != "requests":
            what = f"a single request of about {needed:.10g}"
        return f"{says}, too little for {what}"
    free = datetime.fromtimestamp(free_at * 3600, UTC).isoformat().replace("+00:00", "Z")
    return f"{says}, {used:.10g} of it used up; free again at {free}"


def estimated_tokens(request: JudgeRequest) -> int:
    """Estimate the tokens of a request without the model's tokenizer."""
    texts = [*(message.text for message in request.messages), json.dumps(request.schema)]
    return sum(tokens(text) + _TOKENS_PER_MESSAGE for text in texts)


def _bounds(budget: BudgetConfig, unpriced: list[str]) -> list[_Bound]:
    bounds = [
        _Bound(key, measure, hours, limit)
        for measure, (period, hours) in product(_MEASURES, _PERIODS.items())
        if (limit := getattr(budget, key := f"{measure}_per_{period}")) is not None
    ]
    void = [bound for bound in bounds if bound.measure == "usd" and unpriced]
    for bound in void:
        names = ", ".join(unpriced)
        logger.warning("judge.budget.%s bounds nothing: judge.prices has no price for %s", bound.key, names)
    return [bound for bound in bounds if bound not in void]
