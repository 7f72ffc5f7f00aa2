"""The ledger of the judge: what it may use up, and what it has.

Everything is reserved before it leaves and corrected when the reply is there, so that a crash in between counts too
much and never too little. Without a usage the estimate stands, as the request may have been billed. What is only
reserved keeps nobody out for good: others wait until it is settled. Room for all the requests of a trace is kept from
its first one on (of requests, not tokens or money), so that a burst of traces does not end at first questions.

Several processes may have a ledger over one store: looking and reserving are one transaction, so all of them together
stay within each bound. What another process has reserved counts as used up until it settles, and room is kept against
the own traces only: near a bound, a trace may get no further question though another process's estimate was too high.
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
from typing import Final, TypeAlias

from agenteval_collector.config import BudgetConfig, PriceConfig
from agenteval_collector.judge.ports import JudgeRequest, LedgerStore, OverBudget
from agenteval_collector.judge.prompt.encoding import tokens
from agenteval_collector.model.judge_jobs import BudgetLevel, Spend
from agenteval_collector.runtime.clock import Clock

logger = logging.getLogger(__name__)

_NANOSECONDS_PER_HOUR: Final = 3_600_000_000_000
_SECONDS_PER_HOUR: Final = 3600
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


class Prices:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """One line of the budget; `hours` is the length of its period."""

    key: str
    measure: str
    hours: int
    limit: float


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """A request that is accounted for by an estimate, until it is settled."""

    ledger: "Ledger"
    model: str
    hour: int
    estimate: Spend

    def settle(self, requests: int = 1, input_tokens: int | None = None, output_tokens: int | None = None) -> None:
        """Put what was used up in the place of the estimate, in its hour; None: the estimate stands."""
        estimate = self.estimate
        used = self.ledger.priced(
            self.model,
            requests,
            estimate.input_tokens if input_tokens is None else input_tokens,
            estimate.output_tokens if output_tokens is None else output_tokens,
        )
        correction = Spend(
            requests=used.requests - estimate.requests,
            input_tokens=used.input_tokens - estimate.input_tokens,
            output_tokens=used.output_tokens - estimate.output_tokens,
            usd=used.usd - estimate.usd,
        )
        self.ledger.correct(self, correction)


@dataclass(slots=True, eq=False)
class Room:
    """The `Spending` of one trace: requests that are kept for it, and have not been made."""

    ledger: "Ledger"
    left: int

    async def reserve(self, request: JudgeRequest) -> Reservation:
        """Account for a request that is about to leave; beyond what is kept, if there is room."""
        return await self.ledger.reserve(request, self)


class Ledger:
    """The ledger of a judge under a budget of whole hours and days of UTC; belongs to the judge's event loop.

    `models` are all that can be asked. Where one of them has no price, the bounds on money do not apply, which is
    logged once. Each call of the store holds the loop up for a millisecond or two, at most three for a request.
    """

    def __init__(
        self, budget: BudgetConfig, prices: Prices, store: LedgerStore, clock: Clock, models: Collection[str]
    ) -> None:
        self._prices = prices
        self._store = store
        self._clock = clock
        self._bounds = _bounds(budget, prices.unknown(models))
        self._reserved: set[Reservation] = set()
        self._rooms: set[Room] = set()
        self._settled = asyncio.Event()

    @asynccontextmanager
    async def room(self, requests: int) -> AsyncIterator[Room]:
        """Keep room for that many requests; what is not used is free again at the end.

        Waits for room beside what is under way and kept. Raises OverBudget where what is used up leaves none.
        """
        while not self._fits(Spend(requests=requests), self._store.spent_since):
            await self._settled.wait()
        room = Room(self, requests)
        self._rooms.add(room)
        try:
            yield room
        finally:
            self._rooms.remove(room)
            # What was kept and not used is free: whoever waits looks again.
            room.left = 0
            self._wake()

    async def reserve(self, request: JudgeRequest, room: Room) -> Reservation:
        """Account for a request that is about to leave, once there is room beside those under way: these end within
        their timeout. Raises OverBudget where what is used up, or kept for other traces, leaves no room."""
        estimate = self.priced(request.model, 1, estimated_tokens(request), _OUTPUT_TOKENS)
        while True:
            reservation = Reservation(self, request.model, self._hour(), estimate)
            # Room that is kept for other traces counts as used up here: a trace that needs more than its own room fails
            # where there is none beside. Were it to wait for the others, they could be waiting for the place it holds.
            needed = replace(estimate, requests=0 if room.left else 1)
            fits = partial(self._fits, needed, gone=self._kept)
            if self._store.spend_if(reservation.hour, request.model, estimate, fits):
                break
            await self._settled.wait()
        room.left = max(room.left - 1, 0)
        self._reserved.add(reservation)
        return reservation

    def correct(self, reservation: Reservation, correction: Spend) -> None:
        """Settle a reservation, and add what it differs by."""
        # Waking first is safe: those who wait run only when this has returned, as nothing is awaited in between.
        self._wake()
        self._reserved.remove(reservation)
        if correction != Spend():
            self._store.spend(reservation.hour, reservation.model, correction)

    def priced(self, model: str, requests: int, input_tokens: int, output_tokens: int) -> Spend:
        """Add the money to requests and tokens; none where the model has no price."""
        usd = self._prices.usd(model, input_tokens, output_tokens) or 0.0
        return Spend(requests=requests, input_tokens=input_tokens, output_tokens=output_tokens, usd=usd)

    def levels(self) -> list[BudgetLevel]:
        """Return how much of each bound is used up, what is under way included. From any thread. Raises Unavailable."""
        spent = self._spent(self._store.spent_since)
        return [BudgetLevel(each.key, _MEASURES[each.measure](spent[each.hours]), each.limit) for each in self._bounds]

    def _spent(self, spent_since: SpentSince) -> dict[int, Spend]:
        """Return what was spent in the periods that are bounded, by their hours."""
        return {hours: spent_since(self._start(hours)) for hours in {each.hours for each in self._bounds}}

    @property
    def _kept(self) -> int:
        return sum(room.left for room in self._rooms)

    def _fits(self, estimate: Spend, spent_since: SpentSince, *, gone: int = 0) -> bool:
        """Tell whether there is room now, where `gone` requests count as used up. False: there may be later.

        Raises OverBudget where there will be none.
        """
        spent = self._spent(spent_since)
        fits = True
        for bound in self._bounds:
            measure, start = _MEASURES[bound.measure], self._start(bound.hours)
            taken = measure(spent[bound.hours])
            reserved = sum(measure(each.estimate) for each in self._reserved if each.hour >= start)
            kept = measure(Spend(requests=self._kept))
            used = taken - reserved + measure(Spend(requests=gone))
            _hold(bound, used, measure(estimate), free_at=start + bound.hours)
            fits = fits and taken + kept + measure(estimate) <= bound.limit
        return fits

    def _start(self, hours: int) -> int:
        """Return the hour in which the present period of so many hours began."""
        # The epoch began at midnight of UTC, so days begin at its multiples of 24 hours.
        hour = self._hour()
        return hour - hour % hours

    def _hour(self) -> int:
        return self._clock.now() // _NANOSECONDS_PER_HOUR

    def _wake(self) -> None:
        # A new event for those who wait from now on: a set one would not let them wait.
        self._settled.set()
        self._settled = asyncio.Event()


def _hold(bound: _Bound, used: float, needed: float, *, free_at: int) -> None:
    """Raise OverBudget where the estimate does not fit; `free_at` is the hour in which the next period begins."""
    if used + needed <= bound.limit:
        return
    says = f"judge.budget.{bound.key} is {bound.limit:.10g}"
    if needed > bound.limit:
        what = f"the {needed:.10g} requests of a trace"
        if bound.measure != "requests":
            what = f"a single request of about {needed:.10g}"
        raise OverBudget(f"{says}, too little for {what}")
    free = datetime.fromtimestamp(free_at * _SECONDS_PER_HOUR, UTC).isoformat().replace("+00:00", "Z")
    raise OverBudget(f"{says}, {used:.10g} of it used up; free again at {free}")


def estimated_tokens(request: JudgeRequest) -> int:
    """Estimate the tokens of a request, without the model's tokenizer."""
    texts = [*(message.text for message in request.messages), json.dumps(request.schema)]
    return sum(tokens(text) + _TOKENS_PER_MESSAGE for text in texts)


def _bounds(budget: BudgetConfig, unpriced: list[str]) -> list[_Bound]:
    bounds = [
        _Bound(key=key, measure=measure, hours=hours, limit=limit)
        for measure, (period, hours) in product(_MEASURES, _PERIODS.items())
        if (limit := getattr(budget, key := f"{measure}_per_{period}")) is not None
    ]
    void = [bound for bound in bounds if bound.measure == "usd" and unpriced]
    for bound in void:
        names = ", ".join(unpriced)
        logger.warning("judge.budget.%s bounds nothing: judge.prices has no price for %s", bound.key, names)
    return [bound for bound in bounds if bound not in void]
