"""Tokens and money are known part by part; what was not recorded is never 0."""

from collections.abc import Mapping
from itertools import permutations
from typing import Any

import pytest
from agenteval_collector.model.prices import TokenPrices
from agenteval_collector.model.usage import NO_USAGE, UsageTotals, usage_of

from otel_agenteval.conventions.api_bodies import usage, usage_in
from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import ModelCall, Usage
from tests.support.spans import answer, asks, chat, tool, user

INPUT, OUTPUT = ("gen_ai.usage.input_tokens",), ("gen_ai.usage.output_tokens",)
PRICES = TokenPrices({})


def call(used: Usage | None, model: str = "claude-sonnet-4-5", **fields: Any) -> ModelCall:
    return ModelCall(span_id="c", model=model, usage=used, started_at=0, ended_at=1, **fields)


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        pytest.param(
            {INPUT[0]: 130_213, OUTPUT[0]: 100, "gen_ai.usage.cache_read.input_tokens": 128_955},
            Usage(input_tokens=130_213, output_tokens=100, cache_read_tokens=128_955),
            id="the conventions: the input has the cached tokens in it",
        ),
        pytest.param(
            {INPUT[0]: 3, OUTPUT[0]: 100, "gen_ai.usage.cache_read.input_tokens": 5_758},
            Usage(input_tokens=5_761, output_tokens=100, cache_read_tokens=5_758),
            id="an input that is too small to have them in it",
        ),
        pytest.param(
            {INPUT[0]: 5, OUTPUT[0]: 9, "gen_ai.usage.reasoning.output_tokens": 4},
            Usage(input_tokens=5, output_tokens=9, reasoning_tokens=4),
            id="reasoning is in the output",
        ),
        pytest.param({INPUT[0]: 5, OUTPUT[0]: -83}, Usage(input_tokens=5), id="a number below 0 is none"),
    ],
)
def test_the_parts_of_usage_on_a_span(recorded: Mapping[str, Any], expected: Usage) -> None:
    assert usage_in(recorded, INPUT, OUTPUT) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            '{"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 64},'
            ' "completion_tokens_details": {"reasoning_tokens": 8}}',
            Usage(input_tokens=100, output_tokens=20, cache_read_tokens=64, reasoning_tokens=8),
            id="OpenAI's chat completions",
        ),
        pytest.param(
            '{"input_tokens": 100, "output_tokens": 20, "input_tokens_details": {"cached_tokens": 64}}',
            Usage(input_tokens=100, output_tokens=20, cache_read_tokens=64),
            id="OpenAI's Responses",
        ),
        pytest.param(
            '{"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 64,'
            ' "cache_creation_input_tokens": 10}',
            Usage(input_tokens=174, output_tokens=20, cache_read_tokens=64, cache_write_tokens=10),
            id="Anthropic's messages count them beside the input",
        ),
        pytest.param(
            '{"input_tokens": 100, "output_tokens": 20, "cache_creation_input_tokens": 25,'
            ' "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 15}}',
            Usage(input_tokens=125, output_tokens=20, cache_write_tokens=25, other={"cache_write_1h": 15}),
            id="Anthropic's caches of five minutes and of an hour",
        ),
        pytest.param(
            '{"input_tokens": 200, "output_tokens": 20, "input_token_details": {"cache_creation": 0,'
            ' "ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 15}}',
            Usage(input_tokens=200, output_tokens=20, cache_write_tokens=25, other={"cache_write_1h": 15}),
            id="LangChain counts what was written only by its time",
        ),
        pytest.param(
            '{"input_tokens": 9, "output_tokens": 2, "cache_creation": {"ephemeral_1h_input_tokens": 0}}',
            Usage(input_tokens=9, output_tokens=2),
            id="nothing was written",
        ),
    ],
)
def test_the_parts_of_usage_in_a_body(body: str, expected: Usage) -> None:
    assert usage(body) == expected


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", "aws.bedrock"),
        ("amazon.nova-pro-v1:0", "aws.bedrock"),
        ("llama-3.3-70b-versatile", "groq"),
        ("gpt-4o", "openai.responses"),
        ("gemini-2.5-pro", "gcp.vertex_ai"),
        ("gpt-4o", "a gateway of our own"),
    ],
)
def test_a_model_has_the_price_of_its_provider(model: str, provider: str) -> None:
    cost = PRICES.cost_of(call(Usage(input_tokens=1000, output_tokens=1000), model, provider=provider))
    assert cost is not None
    assert cost.usd > 0
    assert (cost.source, cost.is_lower_bound) == ("priced", False)


def test_cached_tokens_cost_what_the_price_list_says() -> None:
    used = Usage(input_tokens=130_213, output_tokens=100, cache_read_tokens=128_955, cache_write_tokens=1_253)
    # 3, 0.30, 3.75 and 15 US dollars a million for fresh, read, written and output.
    expected = (5 * 3 + 128_955 * 0.3 + 1_253 * 3.75 + 100 * 15) / 1e6
    assert PRICES.of_call(call(used, provider="anthropic")) == pytest.approx(expected, rel=0.01)
    small = Usage(input_tokens=1_000, output_tokens=10, cache_read_tokens=900)
    expected = (100 * 3 + 900 * 0.3 + 10 * 15) / 1e6
    assert PRICES.of_call(call(small, provider="anthropic")) == pytest.approx(expected, rel=0.01)


def test_tokens_that_a_cache_keeps_for_an_hour_cost_more() -> None:
    used = Usage(input_tokens=1_000, output_tokens=10, cache_write_tokens=800, other={"cache_write_1h": 600})
    expected = (200 * 3 + 200 * 3.75 + 600 * 6 + 10 * 15) / 1e6
    assert PRICES.of_call(call(used, provider="anthropic", model="claude-sonnet-4-5")) == pytest.approx(expected)


def test_a_second_span_of_a_call_adds_how_long_a_cache_keeps_its_tokens() -> None:
    """Anthropic's SDK has a span of its own inside that of an instrumentation."""
    counts = {
        "gen_ai.usage.input_tokens": 90,
        "gen_ai.usage.output_tokens": 9,
        "gen_ai.response.id": "r",
        "gen_ai.usage.cache_creation.input_tokens": 25,
    }
    outer = chat("m", [user("Hi")], [answer("Hello")])
    outer.attributes = {**outer.attributes, **counts}
    kept = {"gen_ai.operation.name": "chat", "anthropic.usage.cache_creation.ephemeral_1h_input_tokens": 15}
    inner = SpanRecord(span_id="i", parent_id="m", scope="com.anthropic.sdk.python", attributes={**counts, **kept})
    [model] = read_trace("t", [outer, inner]).turns[0].model_calls
    assert model.usage is not None
    assert (model.usage.cache_write_tokens, model.usage.other) == (25, {"cache_write_1h": 15})


def test_the_bill_of_a_provider_goes_before_a_price_and_any_figure_before_none() -> None:
    used = Usage(input_tokens=1000, output_tokens=10)
    billed = PRICES.cost_of(call(used, provider="openrouter", billed_usd=0.5))
    assert billed is not None
    assert (billed.usd, billed.source) == (0.5, "billed")
    estimated = PRICES.cost_of(call(used, provider="openai", model="gpt-4o", billed_usd=0.5))
    assert estimated is not None
    assert estimated.source == "priced"
    unknown = PRICES.cost_of(call(None, model="nobody-knows", billed_usd=0.5))
    assert unknown is not None
    assert unknown.source == "billed"


def test_what_is_not_known_makes_a_lower_bound_and_is_never_zero() -> None:
    totals = usage_of([call(Usage(input_tokens=10, output_tokens=2)), call(None)], PRICES.cost_of)
    assert (totals.input, totals.output, totals.cache_read, totals.reasoning) == (10, 2, None, None)
    assert totals.cost_usd is not None
    assert totals.is_lower_bound
    assert (NO_USAGE.input, NO_USAGE.cost_usd, NO_USAGE.cost_source, NO_USAGE.is_lower_bound) == (
        None,
        None,
        None,
        False,
    )


def test_an_attempt_that_was_refused_costs_nothing() -> None:
    used = call(Usage(input_tokens=10, output_tokens=2))
    refused = call(None, error="RateLimitError: 429")
    assert usage_of([refused, used], PRICES.cost_of) == usage_of([used], PRICES.cost_of)
    assert PRICES.of_calls([refused, used]) == PRICES.of_call(used)


def test_sums_do_not_depend_on_the_order_and_go_back() -> None:
    parts = [
        UsageTotals(input=1, output=2, priced_usd=0.5),
        UsageTotals(cache_read=3, unknown_calls=1),
        UsageTotals(input=4, reasoning=5, billed_usd=0.25),
    ]
    sums = set()
    for order in permutations(parts):
        total = NO_USAGE
        for each in order:
            total += each
        sums.add((total.input, total.cache_read, total.output, total.reasoning, total.cost_usd, total.unknown_calls))
        assert (total - parts[1]).is_lower_bound is False
    assert sums == {(5, 3, 2, 5, 0.75, 1)}


@pytest.mark.parametrize(
    ("name", "text", "is_partial"),
    [("invoke_agent a", "Done", True), ("invoke_agent a", None, False), ("call_llm", "Done", False)],
)
def test_calls_written_over_one_another_on_the_span_of_a_run_are_a_lower_bound(
    name: str, text: str | None, is_partial: bool
) -> None:
    """As OpenInference does with Google ADK: without an answer, the call that asked for the tool is the only one."""
    run = chat("m", [user("Hi")], [asks("look", {}, "1", text)])
    run.name = name
    run.attributes = {**run.attributes, INPUT[0]: 90, OUTPUT[0]: 9}
    [model] = read_trace("t", [run, tool("t", "look", {}, "found", parent="m")]).turns[0].model_calls
    assert model.usage is not None
    assert model.usage.is_partial is is_partial
    cost = PRICES.cost_of(call(model.usage))
    assert cost is not None
    assert cost.is_lower_bound is is_partial
