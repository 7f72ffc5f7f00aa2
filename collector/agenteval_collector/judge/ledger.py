"""What the judge may use up, and what it has.

Everything is reserved before it leaves and corrected when the reply is there, so that a crash in between counts too
much and never too little. A request that came back without a usage keeps its estimate: it may have been billed; not so
one with an error status. What is only reserved keeps nobody out for good: a request that has no room beside it waits
until it is settled. Room for all the requests of a trace is kept from its first one on, so that a burst of traces does
not spend a budget on first questions. Of tokens and money none is kept: estimates are several times what is used.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from agenteval_collector.config import BudgetConfig, PriceConfig
from agenteval_collector.judge.client.port import JudgeReply, JudgeRequest
from agenteval_collector.judge.encoding import tokens
from agenteval_collector.judge.port import LedgerStore, OverBudget, Spend
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


class Prices:
    """`judge.prices`. A model `vendor/name` that has no price of its own has that of `name`."""

    def __init__(self, prices: Mapping[str, PriceConfig]) -> None:
        self._prices = prices

    def usd(self, model: str, input_tokens: int, output_tokens: int) -> float | None:
        """What that costs in US dollars; None where the model has no price."""
        price = self._prices.get(model) or self._prices.get(model.partition("/")[2])
        if price is None:
            return None
        return (input_tokens * price.input + output_tokens * price.output) / 1_000_000

    def unknown(self, models: Collection[str]) -> list[str]:
        """Those of the models that have no price."""
        return sorted(model for model in set(models) if self.usd(model, 0, 0) is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """One line of the budget; `hours` is the length of its period."""

    key: str
    measure: str
    hours: int
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reservation:
    request: JudgeRequest
    hour: int
    estimate: Spend


@dataclass(slots=True, eq=False)
class _Room:
    """Requests that are kept for one trace, and have not been made."""

    left: int


_room: ContextVar[_Room | None] = ContextVar("agenteval_judge_room", default=None)


class Ledger:
    """The `Spending` of a judge under a budget of whole hours and days of UTC.

    `models` are all that can be asked. Where one of them has no price, the bounds on money would be met by requests
    that cost nobody knows what: they are no bounds then, which is logged once as a warning.

    Belongs to the judge's event loop. Its calls of the store hold the loop up for a millisecond or two
    each, at most four for a request that takes seconds. A request object is under way once at a time.
    """

    def __init__(
        self, budget: BudgetConfig, prices: Prices, store: LedgerStore, clock: Clock, models: Collection[str]
    ) -> None:
        self._prices = prices
        self._store = store
        self._clock = clock
        self._bounds = _bounds(budget, prices.unknown(models))
        self._reserved: dict[int, _Reservation] = {}
        self._rooms: set[_Room] = set()
        self._settled = asyncio.Event()

    @asynccontextmanager
    async def room(self, requests: int) -> AsyncIterator[None]:
        """Keep room for that many requests, for whoever asks inside; what is not used is free again at the end.

        Waits for room beside what is under way and kept. Raises OverBudget where what is used up leaves none.
        """
        while not self._fits(Spend(requests=requests)):
            await self._settled.wait()
        room = _Room(requests)
        self._rooms.add(room)
        token = _room.set(room)
        try:
            yield
        finally:
            _room.reset(token)
            self._rooms.remove(room)
            # A request that others wait for, too, may go on.
            room.left = 0
            self._wake()

    async def reserve(self, request: JudgeRequest) -> None:
        """Account for a request that is about to leave, once there is room beside those under way: these end within
        their timeout. Raises OverBudget where what is used up, or kept for other traces, leaves no room."""
        input_tokens = estimated_tokens(request)
        estimate = Spend(
            requests=1,
            input_tokens=input_tokens,
            output_tokens=_OUTPUT_TOKENS,
            usd=self._prices.usd(request.model, input_tokens, _OUTPUT_TOKENS) or 0.0,
        )
        room = _room.get() or _Room(0)
        # Whoever asks beyond the own room holds a place that those may need for whom room is kept: no waiting for them.
        while not self._fits(replace(estimate, requests=0 if room.left else 1), gone=self._kept):
            await self._settled.wait()
        room.left = max(room.left - 1, 0)
        hour = self._hour()
        self._store.spend(hour, request.model, estimate)
        self._reserved[id(request)] = _Reservation(request=request, hour=hour, estimate=estimate)

    @property
    def _kept(self) -> int:
        return sum(room.left for room in self._rooms)

    def _fits(self, estimate: Spend, *, gone: int = 0) -> bool:
        """Whether there is room now; there may be later where it does not raise OverBudget. `gone` are requests that
        are as good as used up."""
        hour = self._hour()
        starts = {hours: hour - hour % hours for hours in {bound.hours for bound in self._bounds}}
        spent = {hours: self._store.spent_since(start) for hours, start in starts.items()}
        fits = True
        for bound in self._bounds:
            measure, start = _MEASURES[bound.measure], starts[bound.hours]
            taken = measure(spent[bound.hours])
            reserved = sum(measure(each.estimate) for each in self._reserved.values() if each.hour >= start)
            kept = measure(Spend(requests=self._kept))
            used = taken - reserved + measure(Spend(requests=gone))
            _hold(bound, used, measure(estimate), free_at=start + bound.hours)
            fits = fits and taken + kept + measure(estimate) <= bound.limit
        return fits

    def _hour(self) -> int:
        return self._clock.now() // _NANOSECONDS_PER_HOUR

    def settle(self, request: JudgeRequest, reply: JudgeReply | None) -> None:
        """The request came back: the real usage takes the place of the estimate, in the hour of the reservation."""
        estimate = self._reserved[id(request)].estimate
        input_tokens = _known(reply.input_tokens if reply else None, estimate.input_tokens)
        output_tokens = _known(reply.output_tokens if reply else None, estimate.output_tokens)
        self._correct(request, 1, input_tokens, output_tokens)

    def reject(self, request: JudgeRequest) -> None:
        """The request came back with an error status: nobody bills tokens for that."""
        self._correct(request, 1, 0, 0)

    def release(self, request: JudgeRequest) -> None:
        """Nothing of the request has left: it used up nothing."""
        self._correct(request, 0, 0, 0)

    def _correct(self, request: JudgeRequest, requests: int, input_tokens: int, output_tokens: int) -> None:
        """What was used up takes the place of the reservation."""
        # Whoever waits runs only after the correction is made: there is nothing to wait for in between.
        self._wake()
        reservation = self._reserved.pop(id(request))
        estimate = reservation.estimate
        correction = Spend(
            requests=requests - estimate.requests,
            input_tokens=input_tokens - estimate.input_tokens,
            output_tokens=output_tokens - estimate.output_tokens,
            usd=(self._prices.usd(request.model, input_tokens, output_tokens) or 0.0) - estimate.usd,
        )
        if correction != Spend():
            self._store.spend(reservation.hour, request.model, correction)

    def _wake(self) -> None:
        self._settled.set()
        self._settled = asyncio.Event()


def _hold(bound: _Bound, used: float, needed: float, *, free_at: int) -> None:
    """Raises OverBudget where the estimate does not fit; `free_at` is the hour in which the next period begins."""
    if used + needed <= bound.limit:
        return
    says = f"judge.budget.{bound.key} is {bound.limit:.10g}"
    if needed > bound.limit:
        if bound.measure == "requests":
            raise OverBudget(f"{says}, too little for the {needed:.10g} requests of a trace")
        raise OverBudget(f"{says}, too little for a single request of about {needed:.10g}")
    free = datetime.fromtimestamp(free_at * _SECONDS_PER_HOUR, UTC).isoformat().replace("+00:00", "Z")
    raise OverBudget(f"{says}, {used:.10g} of it used up; free again at {free}")


def estimated_tokens(request: JudgeRequest) -> int:
    """How many tokens a request may have, without the model's tokenizer."""
    texts = [*(message.text for message in request.messages), json.dumps(request.schema)]
    return sum(tokens(text) + _TOKENS_PER_MESSAGE for text in texts)


def _bounds(budget: BudgetConfig, unpriced: list[str]) -> list[_Bound]:
    bounds: list[_Bound] = []
    for measure in _MEASURES:
        for period, hours in _PERIODS.items():
            key = f"{measure}_per_{period}"
            limit: float | None = getattr(budget, key)
            if limit is None:
                continue
            if measure == "usd" and unpriced:
                logger.warning(
                    "judge.budget.%s bounds nothing: judge.prices has no price for %s", key, ", ".join(unpriced)
                )
                continue
            bounds.append(_Bound(key=key, measure=measure, hours=hours, limit=limit))
    return bounds


def _known(tokens: int | None, estimate: int) -> int:
    return estimate if tokens is None else tokens
