"""session_trend and conversation_correctness: what is said of a conversation as a whole."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.metrics import conversation_correctness, session_trend
from tests.support.vectors import vectors

CONVERSATIONS = [case for case in vectors("pass_at_k_and_tools.json")["end_to_end"] if case["sessions"]]


@pytest.mark.parametrize(
    ("scores", "stalled", "regressed"),
    [
        pytest.param([], None, None, id="nothing can be said of no trace"),
        pytest.param([None, None], None, None, id="nor of traces without a score"),
        pytest.param([0.3], None, None, id="one score has no course"),
        pytest.param([0.3] * 5, None, False, id="five are too few for a stall"),
        pytest.param([0.3] * 6, True, False, id="five traces without a gain are a stall"),
        pytest.param([0.5] * 6, False, False, id="unless the best is good enough"),
        pytest.param([0.1, 0.1, 0.1, 0.1, 0.1, 0.12], False, False, id="a gain of exactly 0.02 is one"),
        pytest.param([0.1, 0.1, 0.1, 0.1, 0.1, 0.119], True, False, id="a smaller one is not"),
        pytest.param([0.3, 0.305, 0.31, 0.315, 0.32, 0.325], False, False, id="small gains add up"),
        pytest.param([0.1, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3], True, False, id="an early gain is soon forgotten"),
        pytest.param([0.3, None, 0.3, None, 0.3, 0.3, 0.3], None, False, id="traces without a score do not count"),
        pytest.param([0.9, 0.75], None, False, id="a drop of exactly 0.15 is none"),
        pytest.param([0.9, 0.74], None, True, id="a larger drop is a regression"),
        pytest.param([0.9, 0.2, 0.88], None, False, id="one that was made good is over"),
        pytest.param([0.2, 0.9, 0.8, 0.7], None, True, id="drops are measured from the best"),
    ],
)
def test_stall_and_regression(scores: list[float | None], stalled: bool | None, regressed: bool | None) -> None:
    trend = session_trend(scores)
    assert (trend.stalled, trend.regressed) == (stalled, regressed)
    assert trend.evaluated + trend.skipped == len(scores)


def test_a_trend_says_what_it_saw() -> None:
    trend = session_trend([0.4, None, 0.45, 0.2, 0.2, 0.2, 0.2, 0.2])
    assert (trend.best, trend.last, trend.evaluated, trend.skipped) == (0.45, 0.2, 7, 1)
    assert trend.reason == (
        "7 scored traces, best 0.4500, last 0.2000; gained 0.0000 over the last 5; fell 0.2500 below its best"
    )
    assert session_trend([None]).reason == "no scored trace"


@given(scores=st.lists(st.floats(0, 1) | st.none(), max_size=12))
def test_a_trend_is_the_rule_as_it_is_said(scores: list[float | None]) -> None:
    trend, values = session_trend(scores), [score for score in scores if score is not None]
    if len(values) >= 6:
        gain = max(values) - max(values[:-5])
        assert trend.stalled == (max(values) < 0.5 and gain < 0.02) or gain == pytest.approx(0.02)
    if len(values) >= 2:
        drop = max(values) - values[-1]
        assert trend.regressed == (drop > 0.15) or drop == pytest.approx(0.15)


@pytest.mark.parametrize("case", CONVERSATIONS, ids=lambda case: case["id"])
def test_conversations_agree_with_the_authors_code(case: dict[str, Any]) -> None:
    for expected in case["expected"]:
        result = conversation_correctness(expected["correctness_scores"], case["threshold"])
        assert result.evaluated == expected["total_interactions"]
        assert result.metadata["correct_indices"] == expected["correct_indices"]
        assert result.metadata["correct_interactions"] == expected["correct_interactions"]
        # The authors call a conversation without interactions correct.
        assert result.score == (float(expected["is_fully_correct"]) if expected["correctness_scores"] else None)


def test_a_score_at_the_threshold_is_correct() -> None:
    assert conversation_correctness([0.7, 1.0]).score == 1.0
    assert conversation_correctness([0.7, 0.6999]).score == 0.0
    assert conversation_correctness([0.7], threshold=0.8).score == 0.0
    empty = conversation_correctness([])
    assert (empty.score, empty.evaluated, empty.reason) == (None, 0, "the conversation has no interactions")


@pytest.mark.parametrize("score", [-0.1, 1.1, math.nan, "good"])
def test_scores_outside_the_unit_interval_are_refused(score: Any) -> None:
    with pytest.raises(ValueError, match=r"score of trace 1 is .*, not a number in \[0, 1\]"):
        session_trend([0.5, score])
    with pytest.raises(ValueError, match="score of interaction 1 is"):
        conversation_correctness([0.5, score])
    with pytest.raises(ValueError, match="threshold is"):
        conversation_correctness([0.5], threshold=score)
