"""coherence and loop_detection: what they look at, what they refuse, what they say of it."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.metrics import coherence, loop_detection
from otel_agenteval.metrics.loops import LoopText, loop_score

EAST, NORTH, WEST = [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]
NORTH_EAST = [1.0, 1.0]

vectors = st.lists(
    st.floats(allow_nan=False, allow_infinity=False, width=32) | st.sampled_from([0.0, 1.0, -1.0]),
    min_size=3,
    max_size=3,
)


def comparisons(metadata: Any) -> list[dict[str, float]]:
    found: list[dict[str, float]] = metadata["comparisons"]
    return found


@pytest.mark.parametrize(
    ("a", "b", "score"),
    [
        pytest.param(EAST, EAST, 1.0, id="same direction"),
        pytest.param(EAST, [250.0, 0.0], 1.0, id="length does not matter"),
        pytest.param(EAST, NORTH_EAST, math.sqrt(0.5), id="45 degrees"),
        pytest.param(EAST, NORTH, 0.0, id="right angle"),
        pytest.param(EAST, WEST, 0.0, id="opposite is as far as it goes"),
        pytest.param(EAST, [0.0, 0.0], 0.0, id="no direction is far from everything"),
        pytest.param([0.0, 0.0], [0.0, 0.0], 0.0, id="even from itself"),
        pytest.param([1e300, 1e300], NORTH_EAST, 1.0, id="squares beyond the largest double"),
        pytest.param([5e-324, 5e-324], NORTH_EAST, 1.0, id="squares below the smallest double"),
        pytest.param((1, 0), np.array([1, 0], dtype=np.float32), 1.0, id="any sequence of numbers"),
    ],
)
def test_coherence_is_the_cosine(a: Any, b: Any, score: float) -> None:
    result = coherence("question", "answer", a, b)
    assert result.score == pytest.approx(score)
    assert result.metadata["coherence_gap"] == pytest.approx(1.0 - score)
    assert result.evaluated == 1
    assert result.coverage is None


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        pytest.param(("", "answer"), "the input is empty", id="no input"),
        pytest.param(("question", ""), "the output is empty", id="no output"),
    ],
)
def test_an_empty_text_leaves_nothing_to_evaluate(texts: tuple[str, str], reason: str) -> None:
    result = coherence(*texts, None, None)
    assert (result.score, result.evaluated, result.reason) == (1.0, 0, reason)


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        pytest.param([1.0, 0.0, 0.0], "2 and 3 numbers", id="other length"),
        pytest.param([], r"shape \(0,\)", id="empty"),
        pytest.param([[1.0, 0.0]], r"shape \(1, 2\)", id="two dimensions"),
        pytest.param(None, r"shape \(\)", id="none"),
        pytest.param([1.0, math.nan], "NaN or infinity at index 1", id="not a number"),
        pytest.param([-math.inf, 1.0], "NaN or infinity at index 0", id="infinite"),
        pytest.param(["north", "east"], "not a sequence of numbers", id="words"),
    ],
)
def test_bad_vectors_are_refused(vector: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        coherence("question", "answer", EAST, vector)
    with pytest.raises(ValueError, match=message):
        loop_detection("again", ["before", "again"], EAST, [EAST, vector])


def test_an_error_names_the_vector() -> None:
    with pytest.raises(ValueError, match="output_vector has"):
        coherence("question", "answer", EAST, [])
    with pytest.raises(ValueError, match=r"previous_vectors\[1\] has"):
        loop_detection("again", ["before", "again"], EAST, [EAST, []])
    with pytest.raises(ValueError, match="current_vector has"):
        loop_detection("again", ["again"], [math.nan], [EAST])


def test_a_repetition_scores_zero_and_says_where() -> None:
    result = loop_detection("No seats left", ["Hello", "No seats left"], NORTH_EAST, [EAST, NORTH_EAST])
    assert result.score == pytest.approx(0.0, abs=1e-12)
    assert "index 1" in result.reason
    assert [comparison["trace_index"] for comparison in comparisons(result.metadata)] == [0, 1]


def test_both_meaning_and_words_make_a_repetition() -> None:
    same_words = loop_detection("seats left", ["seats left"], EAST, [NORTH])
    same_meaning = loop_detection("seats left", ["places remain"], EAST, [EAST])
    half = loop_detection("seats left", ["seats gone left"], EAST, [NORTH_EAST])
    assert (same_words.score, same_meaning.score) == (1.0, 1.0)
    assert half.score == pytest.approx(1.0 - math.sqrt(0.5) * 2 / 3)


def test_the_window_is_taken_before_empty_outputs_are_dropped() -> None:
    previous = ["again", "one", "", "other"]
    result = loop_detection("again", previous, EAST, [EAST] * 4, window=3)
    assert [comparison["trace_index"] for comparison in comparisons(result.metadata)] == [1, 3]
    assert result.evaluated == result.metadata["window_size"] == 2
    assert result.score == 1.0
    assert loop_detection("again", previous, EAST, [EAST] * 4, window=4).score == 0.0


def test_only_vectors_that_are_compared_are_looked_at() -> None:
    unreadable = [math.nan]
    result = loop_detection("c", ["x", "", "b"], EAST, [unreadable, None, EAST], window=2)
    assert result.evaluated == 1
    assert loop_detection("", ["b"], None, [EAST]).evaluated == 0


@pytest.mark.parametrize(
    ("current", "previous", "reason"),
    [
        pytest.param("", ["before"], "the output is empty", id="empty answer"),
        pytest.param("answer", [], "no previous output to compare with", id="first trace"),
        pytest.param("answer", ["", ""], "no previous output to compare with", id="silence before"),
    ],
)
def test_nothing_to_compare(current: str, previous: list[str], reason: str) -> None:
    result = loop_detection(current, previous, EAST, [EAST] * len(previous))
    assert (result.score, result.evaluated, result.reason) == (1.0, 0, reason)
    assert result.metadata == {"window_size": 0, "max_hybrid": 0.0, "comparisons": []}


def test_compatible_reaches_the_tokeniser() -> None:
    assert loop_detection("हिन्दी", ["हिन्दी"], EAST, [EAST]).score == 0.0
    assert loop_detection("हिन्दी", ["हिन्दी"], EAST, [EAST], compatible=True).score == 1.0


def test_vectors_and_texts_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="2 previous texts, but 1 previous_vectors"):
        loop_detection("c", ["a", "b"], EAST, [EAST])


@pytest.mark.parametrize("window", [0, -1, 1.5, None])
def test_a_window_is_a_positive_whole_number(window: Any) -> None:
    with pytest.raises(ValueError, match="window is"):
        loop_detection("c", ["a"], EAST, [EAST], window=window)
    with pytest.raises(ValueError, match="window is"):
        loop_score(None, [], window=window)


@given(
    outputs=st.lists(
        st.tuples(st.sampled_from(["", "seats left", "seats gone", "今天天气很好我想出去玩但是没有时间"]), vectors)
    ),
    window=st.integers(1, 6),
)
def test_prepared_texts_give_the_same_result(outputs: list[tuple[str, list[float]]], window: int) -> None:
    texts = [text for text, _ in outputs]
    embedded = [vector for _, vector in outputs]
    current = LoopText.of("seats left", [0.5, 0.25, 1.0])
    prepared = [LoopText.of(text, vector) for text, vector in outputs]
    expected = loop_detection("seats left", texts, [0.5, 0.25, 1.0], embedded, window)
    assert loop_score(current, prepared, window=window) == expected
    # A caller that kept the last few only says where they stand.
    kept = prepared[-window:]
    assert loop_score(current, kept, window=window, first_index=len(prepared) - len(kept)) == expected


@given(a=vectors, b=vectors)
def test_scores_stay_in_the_unit_interval(a: list[float], b: list[float]) -> None:
    for result in (coherence("q", "a", a, b), loop_detection("seats left", ["seats left"], a, [b])):
        assert result.score is not None
        assert 0.0 <= result.score <= 1.0
