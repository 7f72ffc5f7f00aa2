import logging
from collections import defaultdict
from typing import Any

import pytest
from agenteval_collector.clock import ManualClock
from agenteval_collector.config import BudgetConfig, PriceConfig
from agenteval_collector.judges.port import JudgeReply, JudgeRequest, Message
from agenteval_collector.judging.ledger import Ledger, Prices, estimated_tokens
from agenteval_collector.judging.port import OverBudget, Spend
from hypothesis import given
from hypothesis import strategies as st

HALF_PAST_TEN = 1_699_957_800_000_000_000
"""2023-11-14T10:30:00Z."""
PRICES = Prices({"m": PriceConfig(input=1.0, output=10.0)})


class Table:
    """A LedgerStore in memory."""

    def __init__(self) -> None:
        self.hours: defaultdict[int, Spend] = defaultdict(Spend)

    def spend(self, hour: int, model: str, spend: Spend) -> None:
        self.hours[hour] = added(self.hours[hour], spend)

    def spent_since(self, hour: int) -> Spend:
        total = Spend()
        for each, spend in self.hours.items():
            if each >= hour:
                total = added(total, spend)
        return total


def added(a: Spend, b: Spend) -> Spend:
    return Spend(
        requests=a.requests + b.requests,
        input_tokens=a.input_tokens + b.input_tokens,
        output_tokens=a.output_tokens + b.output_tokens,
        usd=a.usd + b.usd,
    )


def request(text: str = "x" * 300, model: str = "m") -> JudgeRequest:
    return JudgeRequest(name="q", model=model, messages=[Message("user", text)], schema={}, temperature=0.0)


def reply(input_tokens: int | None = 100, output_tokens: int | None = 20) -> JudgeReply:
    return JudgeReply(
        text="{}",
        model="m-2026",
        temperature=0.0,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        seconds=1.0,
    )


INPUT, OUTPUT = estimated_tokens(request()), 1024
"""What is estimated for a request."""
USD = (INPUT * 1.0 + OUTPUT * 10.0) / 1_000_000
ESTIMATE = Spend(requests=1, input_tokens=INPUT, output_tokens=OUTPUT, usd=USD)


def ledger(table: Table, clock: ManualClock, prices: Prices = PRICES, **budget: Any) -> Ledger:
    return Ledger(BudgetConfig(**budget), prices, table, clock, ["m"])


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        pytest.param(
            {"requests_per_hour": 1},
            "judge.budget.requests_per_hour is 1, 1 of it used up or reserved; free again at 2023-11-14T11:00:00Z",
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
    spending.reserve(request())
    before = table.spent_since(0)
    with pytest.raises(OverBudget) as raised:
        spending.reserve(request())
    assert message in str(raised.value)
    assert table.spent_since(0) == before


def test_a_bound_that_holds_no_request_at_all_says_so() -> None:
    spending = ledger(Table(), ManualClock(), tokens_per_day=1000)
    with pytest.raises(OverBudget, match=f"too little for a single request of about {INPUT + OUTPUT}"):
        spending.reserve(request())


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
    spending.reserve(request())
    clock.advance(hours * 3600 - 1)
    with pytest.raises(OverBudget):
        spending.reserve(request())
    clock.advance(1)
    spending.reserve(request())


@pytest.mark.parametrize(
    ("came", "kept"),
    [
        pytest.param(reply(), Spend(requests=1, input_tokens=100, output_tokens=20, usd=0.0003), id="a usage"),
        pytest.param(reply(None, None), ESTIMATE, id="no usage"),
        pytest.param(None, ESTIMATE, id="no reply"),
    ],
)
def test_only_a_known_usage_takes_the_place_of_the_estimate(came: JudgeReply | None, kept: Spend) -> None:
    table = Table()
    spending = ledger(table, ManualClock())
    asked = request()
    spending.reserve(asked)
    spending.settle(asked, came)
    assert table.spent_since(0).usd == pytest.approx(kept.usd)
    assert added(table.spent_since(0), Spend(usd=-table.spent_since(0).usd)) == added(kept, Spend(usd=-kept.usd))


def test_a_correction_belongs_to_the_hour_of_the_reservation() -> None:
    clock, table = ManualClock(HALF_PAST_TEN), Table()
    spending = ledger(table, clock)
    asked = request()
    spending.reserve(asked)
    clock.advance(3600)
    spending.settle(asked, reply())
    assert list(table.hours) == [HALF_PAST_TEN // 3_600_000_000_000]


def test_what_was_reserved_counts_after_a_crash() -> None:
    clock, table = ManualClock(), Table()
    ledger(table, clock, requests_per_day=1).reserve(request())
    with pytest.raises(OverBudget):
        ledger(table, clock, requests_per_day=1).reserve(request())


def test_a_model_without_a_price_makes_the_bound_on_money_none(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        spending = Ledger(BudgetConfig(usd_per_day=0.0), PRICES, Table(), ManualClock(), ["m", "new", "b"])
    assert [record.getMessage() for record in caplog.records] == [
        "judge.budget.usd_per_day bounds nothing: judge.prices has no price for b, new"
    ]
    spending.reserve(request())


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
    prices = Prices(
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
    clock, table = ManualClock(HALF_PAST_TEN), Table()
    spending = ledger(table, clock, tokens_per_hour=limit)
    under_way: list[tuple[JudgeRequest, int]] = []
    used: defaultdict[int, int] = defaultdict(int)
    for step, size in steps:
        hour = clock.now() // 3_600_000_000_000
        match step:
            case "ask":
                asked = request("x" * size)
                try:
                    spending.reserve(asked)
                except OverBudget:
                    continue
                under_way.append((asked, hour))
            case "settle" if under_way:
                asked, reserved_in = under_way.pop(0)
                answer = reply(estimated_tokens(asked), size)
                spending.settle(asked, answer)
                used[reserved_in] += estimated_tokens(asked) + size
            case "crash":
                under_way.clear()
                spending = ledger(table, clock, tokens_per_hour=limit)
            case "wait":
                clock.advance(size)
    for hour, spend in table.hours.items():
        assert used[hour] <= spend.input_tokens + spend.output_tokens <= limit
