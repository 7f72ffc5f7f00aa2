"""Agreement with values that the authors' own code gave (tests/data/vectors; shown there with 4 decimals)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from otel_agenteval.metrics import (
    DEFAULT_WEIGHTS,
    MetricResult,
    agent_consistency,
    agent_reliability,
    coherence,
    jaccard_similarity,
    loop_detection,
)
from otel_agenteval.metrics.session import SessionScores
from otel_agenteval.metrics.similarity import STOP_WORDS, TokenSets
from otel_agenteval.metrics.tail import tail_size
from otel_agenteval.metrics.vectors import cosine_similarity, unit_vector

VECTORS = json.loads(
    (Path(__file__).parents[1] / "data" / "vectors" / "session_and_trace_metrics.json").read_text("utf-8")
)
FOUR_PLACES = 5.1e-5

TRIGRAM_CASES = ("stopwords_only_identical", "single_chars_identical", "json_values")
"""Texts that the published tokeniser cannot read: only the compatible mode agrees on them."""


def named(cases: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(case, id=f"{case.get('kind', 'pair')}-{i}") for i, case in enumerate(cases)]


def refused(session: Mapping[str, Any]) -> bool:
    """The inputs that the authors' code scores and ours refuses: values outside [0, 1], unknown weights."""
    weights = session["weights"] or {}
    signals = [value for trace in session["signals"] for value in (trace or {}).values()]
    return not set(weights) <= set(DEFAULT_WEIGHTS) or not all(0 <= x <= 1 for x in [*weights.values(), *signals])


def text_of(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


ACCEPTED = [session for session in VECTORS["sessions"] if not refused(session)]
REFUSED = [session for session in VECTORS["sessions"] if refused(session)]


@pytest.mark.parametrize("session", named(ACCEPTED))
def test_reliability_agrees_with_the_authors_code(session: dict[str, Any]) -> None:
    result, expected = agent_reliability(session["signals"], session["weights"]), session["expected"]["reliability"]
    assert result.score == pytest.approx(expected["score"], abs=FOUR_PLACES)
    if result.evaluated:
        assert result.metadata["flagged"] == expected["flagged"]
        assert result.metadata["evaluated_traces"] == expected["traces_evaluated"]
        for name in ("mean_top_k_risk", "max_risk"):
            assert result.metadata[name] == pytest.approx(expected[name], abs=FOUR_PLACES)
        assert result.metadata["risks"] == pytest.approx(expected["step_risk"], abs=FOUR_PLACES)


@pytest.mark.parametrize("session", named(ACCEPTED))
def test_consistency_agrees_with_the_authors_code(session: dict[str, Any]) -> None:
    result, expected = agent_consistency(session["signals"], session["weights"]), session["expected"]["consistency"]
    assert result.score == pytest.approx(expected["score"], abs=FOUR_PLACES)
    if result.evaluated:
        assert result.metadata["evaluated_traces"] == expected["traces_evaluated"]
        assert result.metadata["rms"] == pytest.approx(expected["rms_value"], abs=FOUR_PLACES)
        assert result.metadata["uncertainties"] == pytest.approx(expected["weighted_uncertainty"], abs=FOUR_PLACES)


@pytest.mark.parametrize("session", named(ACCEPTED))
def test_the_incremental_scores_are_the_plain_ones(session: dict[str, Any]) -> None:
    scores = SessionScores(session["weights"])
    for index, signals in enumerate(session["signals"]):
        scores.add(index, signals or {})
    assert scores.reliability().score == agent_reliability(session["signals"], session["weights"]).score
    assert scores.consistency().score == agent_consistency(session["signals"], session["weights"]).score


@pytest.mark.parametrize("session", named(REFUSED))
def test_values_outside_the_unit_interval_are_refused(session: dict[str, Any]) -> None:
    for metric in (agent_reliability, agent_consistency):
        with pytest.raises(ValueError, match=r"not a number in \[0, 1\]|unknown signal"):
            metric(session["signals"], session["weights"])


def test_the_constants_are_the_published_ones() -> None:
    assert VECTORS["meta"]["default_weights"] == DEFAULT_WEIGHTS
    assert set(VECTORS["meta"]["stop_words"]) == STOP_WORDS
    assert {n: tail_size(int(n)) for n in VECTORS["top_k_by_n"]} == VECTORS["top_k_by_n"]


@pytest.mark.parametrize("pair", named(VECTORS["jaccard"]))
def test_jaccard_agrees_exactly(pair: dict[str, Any]) -> None:
    assert sorted(TokenSets(pair["a"]).words) == pair["tokens_a"]
    assert sorted(TokenSets(pair["b"]).words) == pair["tokens_b"]
    assert jaccard_similarity(pair["a"], pair["b"], compatible=True) == pair["jaccard"]


@pytest.mark.parametrize("pair", named(VECTORS["cosine_distance"]))
def test_cosine_distance_agrees(pair: dict[str, Any]) -> None:
    def distance() -> float:
        return 1.0 - cosine_similarity(unit_vector(pair["a"], "a"), unit_vector(pair["b"], "b"))

    if "error" in pair:
        with pytest.raises(ValueError, match="numbers"):
            distance()
    else:
        assert distance() == pytest.approx(pair["distance"], abs=1e-12)


@pytest.mark.parametrize("case", named(VECTORS["coherence"]))
def test_coherence_agrees(case: dict[str, Any]) -> None:
    def score() -> MetricResult:
        return coherence(text_of(case["input"]), text_of(case["output"]), case["emb_input"], case["emb_output"])

    if "error" in case["expected"]:
        with pytest.raises(ValueError, match="numbers"):
            score()
        return
    assert score().score == pytest.approx(case["expected"]["score"], abs=FOUR_PLACES)
    assert score().evaluated == len(case["embed_calls"])
    expected_gap = case["expected"]["metadata"]["coherence_gap"]
    assert score().metadata["coherence_gap"] == pytest.approx(expected_gap, abs=FOUR_PLACES)


@pytest.mark.parametrize("case", named(VECTORS["loop_detection"]))
def test_loop_detection_agrees(case: dict[str, Any]) -> None:
    vectors = {entry["text"]: entry["vector"] for entry in case["embeddings"]}
    current = text_of(case["current_output"])
    previous = [text_of(output) for output in case["previous_outputs"] or []]
    result = loop_detection(
        current,
        previous,
        vectors.get(current),
        [vectors.get(text) for text in previous],
        compatible=case["kind"] in TRIGRAM_CASES,
    )
    expected = case["expected"]
    assert result.score == pytest.approx(expected["score"], abs=FOUR_PLACES)
    if not case["embed_calls"]:
        assert result.evaluated == 0
        return
    assert result.evaluated == result.metadata["window_size"] == expected["metadata"]["window_size"]
    comparisons: Any = result.metadata["comparisons"]
    for comparison, wanted in zip(comparisons, expected["metadata"]["comparisons"], strict=True):
        # Their index counts from the window's end as if no output had been empty; ours is the real one.
        assert {**comparison, "trace_index": None} == pytest.approx({**wanted, "trace_index": None}, abs=FOUR_PLACES)
        assert previous[comparison["trace_index"]]
