"""Several processes judge under one budget, which they have in the store together."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.config.judge import BudgetConfig
from agenteval_collector.judge.budget import Ledger, PriceList, estimated_tokens
from agenteval_collector.judge.ports import JudgeRequest, Message, OverBudget
from agenteval_collector.model.news import no_events
from agenteval_collector.stores.store import Store

from tests.support.clock import ManualClock
from tests.support.databases import database_in, stores_on
from tests.support.postgres import Server

pytestmark = pytest.mark.distributed

REQUEST = JudgeRequest(name="q", model="m", messages=[Message("user", "x" * 300)], schema={}, temperature=0.0)
TOKENS = estimated_tokens(REQUEST) + 1024
"""What a request is reserved with."""


@pytest.mark.parametrize(
    ("budget", "fit"),
    [
        pytest.param({"requests_per_hour": 30}, 30, id="requests"),
        pytest.param({"tokens_per_day": 20 * TOKENS + 5}, 20, id="tokens"),
    ],
)
def test_two_processes_stay_within_a_bound_together(
    tmp_path: Path, postgresql: Server, budget: dict[str, Any], fit: int
) -> None:
    clock = ManualClock()
    made: list[int] = []
    with stores_on(postgresql):
        stores = [Store(database_in(tmp_path), clock, events_of=no_events) for _ in range(3)]
        ledgers = [Ledger(BudgetConfig(**budget), PriceList({}), store.ledger, clock, ["m"]) for store in stores]
        together = threading.Barrier(len(ledgers))

        async def ask(ledger: Ledger) -> int:
            together.wait(30)
            for number in range(40):
                try:
                    async with ledger.room(0) as reserve:
                        (await reserve(REQUEST))(None)
                except OverBudget:
                    return number
            return 40

        threads = [threading.Thread(target=lambda each=each: made.append(asyncio.run(ask(each)))) for each in ledgers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        spent = stores[0].ledger.spent_since(0)
        for store in stores:
            store.shutdown()
    assert (sum(made), spent.requests, len(made)) == (fit, fit, 3)


def test_what_another_process_keeps_for_a_trace_does_not_break_the_bound(tmp_path: Path, postgresql: Server) -> None:
    clock = ManualClock()

    async def ask(first: Ledger, second: Ledger) -> list[int]:
        made = [0, 0]
        async with first.room(3) as one, second.room(3) as other:
            for _ in range(3):
                for at, room in enumerate((one, other)):
                    try:
                        (await room(REQUEST))(None)
                        made[at] += 1
                    except OverBudget:
                        continue
        return made

    with stores_on(postgresql):
        stores = [Store(database_in(tmp_path), clock, events_of=no_events) for _ in range(2)]
        first, second = (
            Ledger(BudgetConfig(requests_per_hour=4), PriceList({}), store.ledger, clock, ["m"]) for store in stores
        )
        made = asyncio.run(ask(first, second))
        spent = stores[0].ledger.spent_since(0)
        for store in stores:
            store.shutdown()
    assert spent.requests == sum(made) <= 4
