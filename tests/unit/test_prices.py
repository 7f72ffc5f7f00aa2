"""What tokens cost: the settings first, then what is published."""

import pytest
from agenteval_collector.config.values import PriceConfig
from agenteval_collector.model.prices import ONE_TIER, TokenPrices
from genai_prices import Usage as PublishedUsage
from genai_prices import calc_price

from otel_agenteval.model import ModelCall, Usage

OWN = {"gpt-4o": PriceConfig(input=2.0, output=10.0), "local": PriceConfig(input=0.0, output=0.0)}


@pytest.fixture(scope="module")
def prices() -> TokenPrices:
    return TokenPrices(OWN)


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4o-2024-08-06", "openai/gpt-4o"])
def test_the_settings_price_a_model_with_its_date_and_its_vendor(prices: TokenPrices, model: str) -> None:
    assert prices.usd(model, 1_000_000, 100_000) == 3.0


@pytest.mark.parametrize("model", ["gpt-4o-mini", "claude-3-5-sonnet-20241022", "gemini-1.5-pro"])
@pytest.mark.parametrize("tokens", [(1, 1), (1234, 567), (ONE_TIER, 9), (ONE_TIER + 1, 9), (1_500_000, 10)])
def test_other_models_cost_what_is_published(prices: TokenPrices, model: str, tokens: tuple[int, int]) -> None:
    published = calc_price(PublishedUsage(input_tokens=tokens[0], output_tokens=tokens[1]), model_ref=model)
    assert prices.usd(model, *tokens) == pytest.approx(float(published.total_price), rel=1e-9)


def test_a_published_model_may_be_named_with_a_vendor(prices: TokenPrices) -> None:
    assert prices.usd("openai/gpt-4o-mini", 1000, 10) == prices.usd("gpt-4o-mini", 1000, 10)


@pytest.mark.parametrize("model", [None, "", "a model of nobody", "\ud800"])
def test_what_has_no_price_has_no_cost(prices: TokenPrices, model: str | None) -> None:
    assert prices.usd(model, 1000, 10) is None


def test_a_free_model_costs_nothing_and_is_not_unknown(prices: TokenPrices) -> None:
    assert prices.usd("local", 1000, 10) == 0.0


def test_calls_cost_their_sum_unless_one_has_no_price_or_no_tokens(prices: TokenPrices) -> None:
    used = Usage(input_tokens=1_000_000, output_tokens=0)
    known, unknown, silent = (
        ModelCall(span_id="c", model=model, usage=usage, started_at=0, ended_at=1)
        for model, usage in (("gpt-4o", used), ("a model of nobody", used), ("gpt-4o", None))
    )
    assert prices.of_calls([]) == 0.0
    assert prices.of_calls([known, known]) == 4.0
    assert prices.of_calls([known, unknown]) is None
    assert prices.of_calls([known, silent]) is None
