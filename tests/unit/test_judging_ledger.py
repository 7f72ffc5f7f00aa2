import asyncio
import logging
from collections import defaultdict
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest
from agenteval_collector.config.judge import BudgetConfig
from agenteval_collector.config.values import PriceConfig
from agenteval_collector.judge.budget import Ledger, PriceList, estimated_tokens
from agenteval_collector.judge.ports import JudgeRequest, Message, OverBudget, Reserve, Settle
from agenteval_collector.model.judge_jobs import Spend
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import ManualClock
from tests.support.ledger import Table, added

HALF_PAST_TEN = 1_699_957_800_000_000_000
"""2023-11-14T10:30:00Z."""
PRICES = PriceList({"m": PriceConfig(input=1.0, output=10.0)})


def request(text: str = "x" * 300, model: str = "m") -> JudgeRequest:
    return JudgeRequest(name="q", model=model, messages=[Message("user", text)], schema={}, temperature=0.0)


INPUT, OUTPUT = estimated_tokens(request()), 1024
"""What is estimated for a request."""
USD = (INPUT * 1.0 + OUTPUT * 10.0) / 1_000_000
USAGE = Spend(requests=1, input_tokens=100, output_tokens=20)
ESTIMATE = Spend(requests=1, input_tokens=INPUT, output_tokens=OUTPUT, usd=USD)


def ledger(table: Table, clock: ManualClock, prices: PriceList = PRICES, **budget: Any) -> Ledger:
    return Ledger(BudgetConfig(**budget), prices, table, clock, ["m"])


async def reserve(spending: Ledger, asked: JudgeRequest | None = None) -> Settle:
    """A request beyond any room that is kept."""
    async with spending.room(0) as beyond:
        return await beyond(asked or request())


def used(spending: Ledger) -> None:
    """A request that comes back without a usage."""
    asyncio.run(reserve(spending))(None)


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        pytest.param(
            {"requests_per_hour": 1},
            "judge.budget.requests_per_hour is 1, 1 of it used up; free again at 2023-11-14T11:00:00Z",
            id="requests of the hour",
        ),
        pytest.param({"requests_per_day": 1}, "free again at 2023-11-15T00:00:00Z", id="requests of the day"),
        pytest.param({"tokens_per_hour": 1500}, f"_hour is 1500, {INPUT + OUTPUT} of", id="tokens of the hour"),
        pytest.param({"tokens_per_day": 1500}, "judge.budget.tokens_per_day", id="tokens of the day"),
        pytest.param({"usd_per_hour": 0.015}, f"usd_per_hour is 0.015, {USD:.10g} of", id="money of the hour"),
        pytest.param({"usd_per_day": 0.015}, "judge.budget.usd_per_day", id="money of the day"),
    ],
)
def test_the_request_that_would_break_a_bound_may_not_leave(budget: dict[str, Any], message: str) -> None:
    table = Table()
    spending = ledger(table, ManualClock(HALF_PAST_TEN), **budget)
    used(spending)
    before = table.spent_since(0)
    with pytest.raises(OverBudget) as raised:
        used(spending)
    assert message in str(raised.value)
    assert table.spent_since(0) == before


def test_a_bound_that_holds_no_request_at_all_says_so() -> None:
    spending = ledger(Table(), ManualClock(), tokens_per_day=1000)
    with pytest.raises(OverBudget, match=f"too little for a single request of about {INPUT + OUTPUT}"):
        used(spending)


@pytest.mark.parametrize(
    ("budget", "hours"),
    [
        pytest.param({"requests_per_hour": 1}, 0.5, id="an hour of UTC"),
        pytest.param({"requests_per_day": 1}, 13.5, id="a day of UTC"),
    ],
)
def test_the_next_period_is_free_again(budget: dict[str, Any], hours: float) -> None:
    clock = ManualClock(HALF_PAST_TEN)
    spending = ledger(Table(), clock, **budget)
    used(spending)
    clock.advance(hours * 3600 - 1)
    with pytest.raises(OverBudget):
        used(spending)
    clock.advance(1)
    used(spending)


@pytest.mark.parametrize(
    ("usage", "kept"),
    [
        pytest.param(USAGE, Spend(requests=1, input_tokens=100, output_tokens=20, usd=0.0003), id="a usage"),
        pytest.param(None, ESTIMATE, id="no usage"),
        pytest.param(Spend(requests=1), Spend(requests=1), id="an error status"),
        pytest.param(Spend(), Spend(), id="it has never left"),
    ],
)
def test_only_a_known_usage_takes_the_place_of_the_estimate(usage: Spend | None, kept: Spend) -> None:
    table = Table()
    asyncio.run(reserve(ledger(table, ManualClock())))(usage)
    assert table.spent_since(0).usd == pytest.approx(kept.usd)
    assert added(table.spent_since(0), Spend(usd=-table.spent_since(0).usd)) == added(kept, Spend(usd=-kept.usd))


def test_a_correction_belongs_to_the_hour_of_the_reservation() -> None:
    clock, table = ManualClock(HALF_PAST_TEN), Table()
    settle = asyncio.run(reserve(ledger(table, clock)))
    clock.advance(3600)
    settle(USAGE)
    assert list(table.hours) == [HALF_PAST_TEN // 3_600_000_000_000]


def test_what_was_reserved_counts_after_a_crash() -> None:
    clock, table = ManualClock(), Table()
    asyncio.run(reserve(ledger(table, clock, requests_per_day=1)))
    with pytest.raises(OverBudget):
        used(ledger(table, clock, requests_per_day=1))


async def begun(reserving: Coroutine[Any, Any, Settle]) -> "asyncio.Task[Settle]":
    """Under way, as far as it gets."""
    task = asyncio.create_task(reserving)
    for _ in range(3):
        await asyncio.sleep(0)
    return task


@pytest.mark.parametrize("settled", ["as little as it took", "as much as was reserved", "not at all"])
def test_what_is_only_reserved_makes_others_wait_and_not_fail(settled: str) -> None:
    async def scenario() -> None:
        spending = ledger(Table(), ManualClock(), tokens_per_day=INPUT + OUTPUT + 500)
        first = await reserve(spending)
        waiting = await begun(reserve(spending))
        assert not waiting.done()
        match settled:
            case "as little as it took":
                first(USAGE)
                await waiting
            case "as much as was reserved":
                first(None)
                with pytest.raises(OverBudget):
                    await waiting
            case _:
                first(Spend())
                await waiting

    asyncio.run(scenario())


def test_who_gives_up_waiting_has_reserved_nothing() -> None:
    async def scenario() -> None:
        table = Table()
        spending = ledger(table, ManualClock(), requests_per_day=1)
        first = await reserve(spending)
        waiting = await begun(reserve(spending))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        first(Spend())
        assert table.spent_since(0) == Spend()

    asyncio.run(scenario())


def test_one_at_a_time_many_go_through_a_narrow_budget() -> None:
    async def scenario() -> None:
        spending = ledger(Table(), ManualClock(), tokens_per_day=6000)
        under_way = 0

        async def go() -> None:
            nonlocal under_way
            settle = await reserve(spending)
            under_way += 1
            assert under_way * (INPUT + OUTPUT) <= 6000
            await asyncio.sleep(0)
            under_way -= 1
            settle(USAGE)

        await asyncio.gather(*(go() for _ in range(24)))

    asyncio.run(scenario())


def whole_traces(limit: int, traces: int, questions: int, most: int) -> tuple[list[int], int]:
    """Traces at once that ask so many questions, and may ask `most`: how many requests each got, and all of them."""

    async def scenario() -> tuple[list[int], int]:
        table = Table()
        spending = ledger(table, ManualClock(), requests_per_hour=limit)
        got = [0] * traces

        async def ask(trace: int, room: Reserve) -> None:
            settle = await room(request())
            await asyncio.sleep(0)
            settle(USAGE)
            got[trace] += 1

        async def judge(trace: int) -> None:
            with suppress(OverBudget):
                async with spending.room(most) as room:
                    await asyncio.gather(*(ask(trace, room) for _ in range(min(2, questions))))
                    for _ in range(questions - 2):
                        await ask(trace, room)

        async with asyncio.timeout(10):
            await asyncio.gather(*(judge(trace) for trace in range(traces)))
        return got, table.spent_since(0).requests

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("limit", "most", "judged"),
    [
        pytest.param(30, 4, 7, id="a burst"),
        pytest.param(30, 5, 7, id="what is kept and not used is free again"),
        pytest.param(100, 5, 16, id="room for all"),
        pytest.param(3, 4, 0, id="too little for one"),
    ],
)
def test_traces_of_a_burst_are_asked_all_or_nothing(limit: int, most: int, judged: int) -> None:
    got, spent = whole_traces(limit, traces=16, questions=4, most=most)
    assert sorted(got) == [0] * (16 - judged) + [4] * judged
    assert spent == 4 * judged


@given(limit=st.integers(0, 40), traces=st.integers(1, 12), questions=st.integers(1, 6), more=st.integers(0, 3))
def test_no_trace_is_asked_in_part_and_no_bound_is_broken(limit: int, traces: int, questions: int, more: int) -> None:
    got, spent = whole_traces(limit, traces, questions, questions + more)
    assert set(got) <= {0, questions}
    assert spent <= limit
    assert 0 not in got or spent + questions + more > limit


def test_who_asks_for_more_than_is_kept_does_not_take_what_is_kept_for_others() -> None:
    async def scenario() -> None:
        spending = ledger(Table(), ManualClock(), requests_per_hour=2)
        async with spending.room(1) as mine, spending.room(1) as of_other:
            (await mine(request()))(USAGE)
            with pytest.raises(OverBudget):
                await mine(request())
            await of_other(request())

    asyncio.run(scenario())


def test_a_model_without_a_price_makes_the_bound_on_money_none(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        spending = Ledger(BudgetConfig(usd_per_day=0.0), PRICES, Table(), ManualClock(), ["m", "new", "b"])
    assert [record.getMessage() for record in caplog.records] == [
        "judge.budget.usd_per_day bounds nothing: judge.prices has no price for b, new"
    ]
    used(spending)


def test_unknown_prices_do_not_matter_where_money_has_no_bound(caplog: pytest.LogCaptureFixture) -> None:
    Ledger(BudgetConfig(requests_per_day=1), PRICES, Table(), ManualClock(), ["new"])
    assert not caplog.records


@pytest.mark.parametrize(
    ("model", "usd"),
    [
        pytest.param("m", 12.0, id="by its name"),
        pytest.param("openai/m", 12.0, id="by its name without the vendor"),
        pytest.param("vendor/m2", 4.0, id="by its full name first"),
        pytest.param("m2", None, id="another vendor's is not known"),
        pytest.param("free", 0.0, id="for nothing"),
    ],
)
def test_a_price_is_found(model: str, usd: float | None) -> None:
    prices = PriceList(
        {
            "m": PriceConfig(input=2.0, output=10.0),
            "vendor/m2": PriceConfig(input=4.0, output=0.0),
            "free": PriceConfig(input=0.0, output=0.0),
        }
    )
    assert prices.usd(model, 1_000_000, 1_000_000) == usd


def test_the_estimate_holds_for_text_of_any_script() -> None:
    assert estimated_tokens(request("的" * 300)) >= 300
    assert estimated_tokens(request("word " * 300)) >= 300
    assert estimated_tokens(request("\ud800")) > 0


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("ask"), st.integers(0, 3000)),
            st.tuples(st.just("settle"), st.integers(0, 1024)),
            st.tuples(st.just("release"), st.just(0)),
            st.tuples(st.just("crash"), st.just(0)),
            st.tuples(st.just("wait"), st.integers(0, 8000)),
        ),
        max_size=40,
    ),
    limit=st.integers(2000, 9000),
)
def test_no_hour_holds_more_than_its_bound_and_none_less_than_was_used(
    steps: list[tuple[str, int]], limit: int
) -> None:
    async def scenario() -> None:
        clock, table = ManualClock(HALF_PAST_TEN), Table()
        spending = ledger(table, clock, tokens_per_hour=limit)
        under_way: list[tuple[Settle, JudgeRequest, int]] = []
        took: defaultdict[int, int] = defaultdict(int)
        for step, size in steps:
            hour = clock.now() // 3_600_000_000_000
            match step:
                case "ask":
                    asked = request("x" * size)
                    reserving = await begun(reserve(spending, asked))
                    if not reserving.done():
                        assert under_way, "it waits for nobody"
                        reserving.cancel()
                    elif reserving.exception() is None:
                        under_way.append((reserving.result(), asked, hour))
                    else:
                        assert isinstance(reserving.exception(), OverBudget)
                case "settle" if under_way:
                    settle, asked, reserved_in = under_way.pop(0)
                    settle(Spend(requests=1, input_tokens=estimated_tokens(asked), output_tokens=size))
                    took[reserved_in] += estimated_tokens(asked) + size
                case "release" if under_way:
                    under_way.pop()[0](Spend())
                case "crash":
                    under_way.clear()
                    spending = ledger(table, clock, tokens_per_hour=limit)
                case "wait":
                    clock.advance(size)
        for hour, spend in table.hours.items():
            assert took[hour] <= spend.input_tokens + spend.output_tokens <= limit

    asyncio.run(scenario())


def test_the_levels_of_the_budget_are_of_the_present_hour_and_day() -> None:
    table, clock = Table(), ManualClock(HALF_PAST_TEN)
    hour = HALF_PAST_TEN // 3_600_000_000_000
    table.spend(hour - 1, "m", Spend(requests=4, usd=0.5))
    table.spend(hour, "m", Spend(requests=3, input_tokens=10, output_tokens=5, usd=0.25))
    spending = ledger(table, clock, requests_per_hour=10, tokens_per_day=100, usd_per_day=2.0)
    assert sorted(spending.levels()) == [
        ("requests_per_hour", 3, 10), ("tokens_per_day", 15, 100), ("usd_per_day", 0.75, 2.0),
    ]  # fmt: skip
    assert ledger(table, clock).levels() == []
