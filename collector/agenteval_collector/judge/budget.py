"""Account for what the judge uses up, and hold it to the budget.

Everything is reserved in the store before it leaves, and corrected when the reply is there. So a crash in between
counts too much and never too little. Without a usage the estimate stands, as the request may have been billed. While
requests of this process are under way, others wait for what these really take instead of failing. Room for all requests
of a trace is kept from its first one on (of requests, not tokens or money), so that a burst of traces does not end at
first questions.

Several processes may have a ledger over one store. Looking and reserving are one transaction, so all of them together
stay within each bound. What another process has reserved counts as used up until it settles, and it does not see the
room that is kept here.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import product
from typing import Final, NamedTuple, TypeAlias

from agenteval_collector.config import BudgetConfig, PriceConfig
from agenteval_collector.judge.ports import JudgeRequest, LedgerStore, OverBudget, Reserve, Settle
from agenteval_collector.judge.prompt.encoding import tokens
from agenteval_collector.model.judge_jobs import BudgetLevel, Spend
from agenteval_collector.runtime.clock import Clock

logger = logging.getLogger(__name__)

_NANOSECONDS_PER_HOUR: Final = 3_600_000_000_000
_TOKENS_PER_MESSAGE: Final = 8
_OUTPUT_TOKENS: Final = 1024
"""More than a reply to our questions takes, short of one that reasons at length."""
_MEASURES: Final[dict[str, Callable[[Spend], float]]] = {
    "requests": lambda spend: spend.requests,
    "tokens": lambda spend: spend.input_tokens + spend.output_tokens,
    "usd": lambda spend: spend.usd,
}
_PERIODS: Final = {"hour": 1, "day": 24}
SpentSince: TypeAlias = Callable[[int], Spend]
"""Sums up what was spent since an hour."""


class PriceList:
    """`judge.prices`. A model `vendor/name` that has no price of its own has that of `name`."""

    def __init__(self, prices: Mapping[str, PriceConfig]) -> None:
        self._prices = prices

    def usd(self, model: str, input_tokens: int | None, output_tokens: int | None) -> float | None:
        """Work out the cost in US dollars; None where the model has no price, or the tokens are unknown."""
        price = self._prices.get(model) or self._prices.get(model.partition("/")[2])
        if price is None or input_tokens is None or output_tokens is None:
            return None
        return (input_tokens * price.input + output_tokens * price.output) / 1_000_000

    def unknown(self, models: Collection[str]) -> list[str]:
        """List the models among these that have no price."""
        return sorted(model for model in set(models) if self.usd(model, 0, 0) is None)


class _Bound(NamedTuple):
    """One line of the budget; `hours` is the length of its period."""

    key: str
    measure: str
    hours: int
    limit: float

    def of(self, spend: Spend) -> float:
        """Return what this bound counts of a spend."""
        return _MEASURES[self.measure](spend)


@dataclass(slots=True, eq=False)
class _Room:
    """Requests that are kept for one trace, and were not made yet."""

    left: int


class Ledger:
    """The ledger of a judge under a budget of whole hours and days of UTC; belongs to the judge's event loop.

    `models` are all that can be asked. Where one of them has no price, the bounds on money do not apply, which is
    logged once. Each call of the store holds the loop up for a millisecond or two, at most three for a request.
    """

    def __init__(
        self, budget: BudgetConfig, prices: PriceList, store: LedgerStore, clock: Clock, models: Collection[str]
    ) -> None:
        self._prices = prices
        self._store = store
        self._clock = clock
        self._bounds = _bounds(budget, prices.unknown(models))
        self._under_way = 0
        self._rooms: set[_Room] = set()
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def room(self, requests: int) -> AsyncIterator[Reserve]:
        """Keep room for that many requests of one trace, and give what reserves each of them.

        Waits while other traces may leave more room than they keep. Raises OverBudget where there is none.
        """
        while not self._fits(Spend(requests=requests), self._store.spent_since, may_wait=bool(self._rooms)):
            await self._freed.wait()
        room = _Room(requests)
        self._rooms.add(room)
        try:
            yield partial(self._reserve, room)
        finally:
            self._rooms.remove(room)
            self._wake()

    async def _reserve(self, room: _Room, request: JudgeRequest) -> Settle:
        """Account for a request, of the room's while there is one left."""
        estimate = self._priced(request.model, 1, estimated_tokens(request), _OUTPUT_TOKENS)
        while True:
            # A trace that needs more than its own room fails where there is none beside the rooms of others. Were it to
            # wait for these, they could be waiting for the place that it holds. Requests under way end by themselves.
            needed = replace(estimate, requests=0) if room.left else estimate
            hour, may_wait = self._hour(), self._under_way > 0
            if self._store.spend_if(hour, request.model, estimate, partial(self._fits, needed, may_wait=may_wait)):
                break
            await self._freed.wait()
        room.left = max(room.left - 1, 0)
        self._under_way += 1

        def settle(used: Spend | None) -> None:
            # Waking first is safe: those who wait run only when this has returned, as nothing is awaited in between.
            self._under_way -= 1
            self._wake()
            if used is not None:
                priced = self._priced(request.model, used.requests, used.input_tokens, used.output_tokens)
                self._store.spend(hour, request.model, priced - estimate)

        return settle

    def levels(self) -> list[BudgetLevel]:
        """Return how much of each bound is used up, what is under way included. From any thread. Raises Unavailable."""
        spent = self._spent(self._store.spent_since)
        return [BudgetLevel(each.key, each.of(spent[each.hours]), each.limit) for each in self._bounds]

    def _priced(self, model: str, requests: int, input_tokens: int, output_tokens: int) -> Spend:
        """Add the money to requests and tokens; none where the model has no price."""
        usd = self._prices.usd(model, input_tokens, output_tokens) or 0.0
        return Spend(requests=requests, input_tokens=input_tokens, output_tokens=output_tokens, usd=usd)

    def _spent(self, spent_since: SpentSince) -> dict[int, Spend]:
        """Return what was spent in the periods that are bounded, by their hours."""
        return {hours: spent_since(self._start(hours)) for hours in {each.hours for each in self._bounds}}

    def _fits(self, needed: Spend, spent_since: SpentSince, *, may_wait: bool) -> bool:
        """Tell whether there is room beside what was spent and what is kept for traces.

        Raises OverBudget where there is none, unless it `may_wait`: then there may be some later.
        """
        spent = self._spent(spent_since)
        kept = Spend(requests=sum(room.left for room in self._rooms))
        for bound in self._bounds:
            used = bound.of(spent[bound.hours]) + bound.of(kept)
            if used + bound.of(needed) <= bound.limit:
                continue
            if may_wait and bound.of(needed) <= bound.limit:
                return False
            raise OverBudget(_why_not(bound, used, bound.of(needed), self._start(bound.hours) + bound.hours))
        return True

    def _start(self, hours: int) -> int:
        """Return the hour in which the present period of so many hours began."""
        # The epoch began at midnight of UTC, so days begin at its multiples of 24 hours.
        hour = self._hour()
        return hour - hour % hours

    def _hour(self) -> int:
        return self._clock.now() // _NANOSECONDS_PER_HOUR

    def _wake(self) -> None:
        # A new event for those who wait from now on: a set one would not let them wait.
        self._freed.set()
        self._freed = asyncio.Event()


def _why_not(bound: _Bound, used: float, needed: float, free_at: int) -> str:
    """Say which bound leaves no room; `free_at` is the hour in which its next period begins."""
    says = f"judge.budget.{bound.key} is {bound.limit:.10g}"
    if needed > bound.limit:
        what = f"the {needed:.10g} requests of a trace"
        if bound.measure != "requests":
            what = f"a single request of about {needed:.10g}"
        return f"{says}, too little for {what}"
    free = datetime.fromtimestamp(free_at * 3600, UTC).isoformat().replace("+00:00", "Z")
    return f"{says}, {used:.10g} of it used up; free again at {free}"


def estimated_tokens(request: JudgeRequest) -> int:
    """Estimate the tokens of a request, without the model's tokenizer."""
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
