"""Calls of embedding models and tokens of other modalities are read from the spans of all dialects, and priced."""

from dataclasses import replace
from typing import Any

import pytest
from agenteval_collector.evaluation.findings.effort import AgentEfforts
from agenteval_collector.model.agent_work import work_of
from agenteval_collector.model.prices import TokenPrices
from agenteval_collector.model.usage import usage_of

from otel_agenteval.conventions.api_bodies import usage
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import ModelCall, Usage
from tests.support.spans import agent, answer, chat, span, user

PRICES = TokenPrices({})
EFFORTS = AgentEfforts(PRICES)
MODEL, TOKENS = "text-embedding-3-small", 50_000
USD = TOKENS * 0.02 / 1e6
FORMS: dict[str, dict[str, Any]] = {
    "the conventions": {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": MODEL,
        "gen_ai.usage.input_tokens": TOKENS,
    },
    "the conventions of 2024": {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.system": "openai",
        "gen_ai.request.model": MODEL,
        "gen_ai.usage.prompt_tokens": TOKENS,
    },
    "OpenInference": {
        "openinference.span.kind": "EMBEDDING",
        "embedding.model_name": MODEL,
        "llm.token_count.prompt": TOKENS,
        "llm.token_count.total": TOKENS,
    },
    "Vercel": {
        "ai.operationId": "ai.embed.doEmbed",
        "ai.model.id": MODEL,
        "ai.model.provider": "openai.embedding",
        "ai.usage.tokens": TOKENS,
    },
    "Traceloop": {
        "llm.request.type": "embedding",
        "gen_ai.system": "OpenAI",
        "gen_ai.request.model": MODEL,
        "gen_ai.usage.input_tokens": TOKENS,
        "llm.usage.total_tokens": TOKENS,
    },
}


def turn_with(*embedded: dict[str, Any]) -> Any:
    spans = [
        agent("a", "guide"),
        chat("c", [user("Where?")], [answer("There.")], parent="a", at=1),
        *(span(f"e{number}", parent="a", at=2 + number, attributes=each) for number, each in enumerate(embedded)),
    ]
    return read_trace("1" * 32, spans)


@pytest.mark.parametrize("form", FORMS)
def test_an_embedding_of_any_dialect_counts_its_tokens_and_costs_what_the_list_says(form: str) -> None:
    trace = turn_with(FORMS[form], FORMS[form])
    spent = EFFORTS.of(trace).usage
    assert (spent.embedding, spent.input) == (2 * TOKENS, None)
    assert spent.priced_usd == pytest.approx(2 * USD, rel=0.01)
    assert len(trace.model_calls) == 1, "an embedding is no step of the agent"


@pytest.mark.parametrize("form", FORMS)
def test_an_embedding_counts_for_its_agent_in_the_series(form: str) -> None:
    work = work_of(turn_with(FORMS[form]), PRICES.of_call, embedding_usd=PRICES.of_embedding_usd)
    [embedded] = [each for each in work.models if each.operation == "embeddings"]
    assert (embedded.agent, embedded.tokens, embedded.usd) == ("guide", {"embedding": TOKENS}, pytest.approx(USD))


def test_an_embedding_that_two_instrumentations_record_counts_once() -> None:
    outer = span("e", parent="a", at=2, attributes=FORMS["OpenInference"])
    inner = span("f", parent="e", at=2, attributes=FORMS["the conventions"])
    trace = read_trace("1" * 32, [agent("a", "guide"), outer, inner])
    assert [each.span_id for each in trace.embeddings] == [outer.span_id]


@pytest.mark.parametrize("unknown", ["gen_ai.usage.input_tokens", "gen_ai.request.model"])
def test_an_embedding_whose_tokens_or_model_are_unknown_makes_the_cost_a_lower_bound(unknown: str) -> None:
    form = {key: value for key, value in FORMS["the conventions"].items() if key != unknown}
    effort = EFFORTS.of(turn_with(form))
    assert effort.usd is None
    assert effort.usage.is_lower_bound


def test_what_sessions_add_and_take_away_has_embeddings_and_modalities() -> None:
    one = replace(EFFORTS.of(turn_with(FORMS["Vercel"])).usage, other={"input_audio": 5, "output_audio": 1})
    other = replace(one, other={"input_audio": 2})
    both = one + other
    assert (both.embedding, both.other) == (2 * TOKENS, {"input_audio": 7, "output_audio": 1})
    assert (both - other).other == one.other


@pytest.mark.parametrize(
    ("body", "other"),
    [
        ({"prompt_tokens_details": {"audio_tokens": 400}}, {"input_audio": 400}),
        ({"completion_tokens_details": {"audio_tokens": 30}}, {"output_audio": 30}),
        ({"input_tokens_details": {"image_tokens": 9, "audio_tokens": 0}}, {"input_image": 9}),
        ({"input_audio_tokens": 7, "output_audio_tokens": 8}, {"input_audio": 7, "output_audio": 8}),
        ({}, {}),
    ],
)
def test_tokens_of_other_modalities_in_a_body(body: dict[str, Any], other: dict[str, int]) -> None:
    counted = usage({"prompt_tokens": 1000, "completion_tokens": 100, **body})
    assert counted is not None
    assert counted.other == other


@pytest.mark.parametrize(
    ("model", "provider", "usd", "is_lower_bound"),
    [
        pytest.param("gpt-realtime", "openai", (600 * 4 + 400 * 32) / 1e6, False, id="audio has its own price"),
        pytest.param("gemini-2.5-flash", "gcp.gemini", (600 * 0.3 + 400 * 1.0) / 1e6, False, id="of another provider"),
        pytest.param("gpt-4o", "openai", 1000 * 2.5 / 1e6, True, id="no price of audio is known"),
    ],
)
def test_audio_costs_its_own_price(model: str, provider: str, usd: float, is_lower_bound: bool) -> None:
    used = Usage(input_tokens=1000, output_tokens=0, other={"input_audio": 400})
    call = ModelCall(span_id="c", model=model, provider=provider, usage=used, started_at=0, ended_at=1)
    totals = usage_of([call], PRICES.cost_of)
    assert totals.priced_usd == pytest.approx(usd, rel=0.01)
    assert (totals.is_lower_bound, totals.other) == (is_lower_bound, {"input_audio": 400})


def test_a_kind_that_is_no_text_is_no_embedding() -> None:
    strange = span("1", attributes={"gen_ai.operation.name": ["embeddings"]})
    assert read_trace("t", [strange], []).embeddings == ()
