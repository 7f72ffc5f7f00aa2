"""tool_use_correctness against calls that are known to be right."""

import math
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.metrics import TOOL_USE_WEIGHTS, MetricResult, ToolUse, tool_use_correctness
from tests.support.vectors import vectors

CASES = vectors("pass_at_k_and_tools.json")["tool_correctness"]
ASPECTS = {
    "selection": "tool_selection_correct",
    "parameters": "parameter_accuracy",
    "sequence": "sequence_correct",
    "utilization": "result_utilization",
}
SEARCH, BOOK, PAY = ToolUse("search"), ToolUse("book"), ToolUse("pay")


def calls(listed: list[dict[str, Any]]) -> list[ToolUse]:
    return [ToolUse(call["tool_name"], call.get("parameters") or {}, call.get("step")) for call in listed]


def aspects(result: MetricResult) -> Any:
    return result.metadata["aspects"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_compatible_mode_agrees_with_the_authors_code(case: dict[str, Any]) -> None:
    truth, weights, expected = case["ground_truth_agentic"], case["weights"], case["expected"]
    used, wanted = calls(case["agentic"]["tools_used"]), calls(truth["expected_tools"])

    def score() -> MetricResult:
        return tool_use_correctness(
            used,
            wanted,
            weights,
            order_matters=truth.get("tool_sequence_matters", True),
            answer_uses_tools=case["agentic"].get("final_answer_uses_tools", False),
            compatible=True,
            threshold=case["tool_threshold"],
        )

    if weights and not math.isclose(sum(weights.values()), 1.0):
        with pytest.raises(ValueError, match="not to 1"):
            score()
        return
    if wanted and not used:
        assert (score().score, score().metadata["is_correct"]) == (None, None)
        return
    assert score().score == pytest.approx(expected["overall_correctness"], abs=1e-12)
    assert aspects(score()) == pytest.approx({name: expected[theirs] for name, theirs in ASPECTS.items()}, abs=1e-12)
    # Theirs fails a perfect use where the weights are 1 but for a rounding error.
    rounding = expected["overall_correctness"] == pytest.approx(case["tool_threshold"])
    assert score().metadata["is_correct"] == (expected["is_correct"] or rounding)


@pytest.mark.parametrize(
    ("used", "expected", "found"),
    [
        pytest.param([SEARCH, BOOK], [SEARCH, BOOK], (1, 1, 1), id="as expected"),
        pytest.param([BOOK, SEARCH], [SEARCH, BOOK], (1, 1, 1 / 2), id="the other way round"),
        pytest.param([SEARCH], [SEARCH, BOOK], (1 / 2, 1 / 2, 1 / 2), id="one is missing"),
        pytest.param([SEARCH, PAY], [SEARCH], (1 / 2, 1, 1), id="one is too many"),
        pytest.param([SEARCH, PAY, BOOK], [SEARCH, BOOK], (2 / 3, 1, 1), id="something in between"),
        pytest.param([SEARCH] * 4, [SEARCH], (1, 1, 1), id="repetition is no fault of selection"),
        pytest.param([SEARCH], [SEARCH] * 4, (1, 1 / 4, 1 / 4), id="each use answers one expectation"),
        pytest.param([ToolUse("Search")], [SEARCH], (0, 0, 0), id="names are case-sensitive"),
        pytest.param([ToolUse("pay", {"sum": "5"})], [ToolUse("pay", {"sum": 5})], (1, 0, 1), id="text is no number"),
        pytest.param([ToolUse("pay")], [ToolUse("pay", {"note": None})], (1, 1, 1), id="absent is null"),
        pytest.param(
            [ToolUse("pay", {"sum": 5, "tip": 1})], [ToolUse("pay", {"sum": 5})], (1, 1 / 2, 1), id="one parameter more"
        ),
        pytest.param(
            [ToolUse("pay", {"sum": 1}), ToolUse("pay", {"sum": 2})],
            [ToolUse("pay", {"sum": 2}), ToolUse("pay", {"sum": 1})],
            (1, 1, 1 / 2),
            id="the best match is the partner, not the first",
        ),
        pytest.param(
            [ToolUse("book", step=2), ToolUse("search", step=1)], [SEARCH, BOOK], (1, 1, 1), id="steps outrank places"
        ),
        pytest.param([ToolUse("book", step=2), SEARCH], [SEARCH, BOOK], (1, 1, 1 / 2), id="unless one has no step"),
        pytest.param(
            [BOOK, SEARCH], [ToolUse("search", step=7), ToolUse("book", step=7)], (1, 1, 1), id="expected side by side"
        ),
        pytest.param(
            [ToolUse("search", step=1), ToolUse("book", step=1)],
            [SEARCH, BOOK],
            (1, 1, 1 / 2),
            id="made side by side where one should follow the other",
        ),
    ],
)
def test_three_aspects(used: list[ToolUse], expected: list[ToolUse], found: tuple[float, ...]) -> None:
    result = tool_use_correctness(used, expected)
    assert aspects(result) == pytest.approx(dict(zip(TOOL_USE_WEIGHTS, (*found, 0.0), strict=True)))
    assert result.score == pytest.approx(sum(found) / 4)
    assert result.evaluated == len(expected)
    assert tool_use_correctness(used, expected, order_matters=False).score == pytest.approx((sum(found[:2]) + 1) / 4)
    assert tool_use_correctness(used, expected, answer_uses_tools=True).score == pytest.approx((sum(found) + 1) / 4)


@pytest.mark.parametrize(
    ("used", "expected", "score"),
    [
        pytest.param([], [], 1.0, id="none expected, none used"),
        pytest.param([SEARCH], [], 0.0, id="used, though none was expected"),
        pytest.param([], [SEARCH], 0.0, id="expected, but none used"),
    ],
)
def test_where_there_is_nothing_to_pair(used: list[ToolUse], expected: list[ToolUse], score: float) -> None:
    for answer_uses_tools in (False, True):
        result = tool_use_correctness(used, expected, order_matters=False, answer_uses_tools=answer_uses_tools)
        assert result.score == score
        assert set(aspects(result).values()) == {None}


def test_the_published_package_says_nothing_where_no_tool_was_used() -> None:
    result = tool_use_correctness([], [SEARCH], compatible=True)
    assert (result.score, result.metadata["is_correct"], result.reason) == (None, None, "no call, 1 expected")


def test_weights_that_are_one_but_for_rounding_let_a_perfect_use_pass() -> None:
    weights = {"selection": 0.7, "parameters": 0.1, "sequence": 0.1, "utilization": 0.1}
    result = tool_use_correctness([SEARCH], [SEARCH], weights, answer_uses_tools=True)
    assert result.metadata["is_correct"] is True
    assert tool_use_correctness([SEARCH], [SEARCH], weights).metadata["is_correct"] is False
    assert tool_use_correctness([SEARCH], [SEARCH], weights, threshold=0.9).metadata["is_correct"] is True


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param({"weights": {"selection": 1.0}}, r"weights are of \['selection'\]", id="three are missing"),
        pytest.param({"weights": {**TOOL_USE_WEIGHTS, "style": 0.0}}, "'style'", id="one is unknown"),
        pytest.param({"weights": {**TOOL_USE_WEIGHTS, "sequence": 0.2}}, r"sum to 0\.95", id="they are not 1"),
        pytest.param({"weights": {**TOOL_USE_WEIGHTS, "sequence": -1.0}}, r"sequence is -1\.0", id="one is below 0"),
        pytest.param({"weights": {**TOOL_USE_WEIGHTS, "sequence": math.nan}}, "sequence is nan", id="one is no number"),
        pytest.param({"weights": {}}, r"weights are of \[\]", id="none at all"),
        pytest.param({"threshold": 1.5}, r"threshold is 1\.5", id="a threshold above 1"),
    ],
)
def test_bad_arguments_are_refused(changed: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tool_use_correctness([], [], **changed)


def test_parameters_have_names() -> None:
    with pytest.raises(ValueError, match="parameters of pay are '5'"):
        ToolUse("pay", "5")  # type: ignore[arg-type]


json_values: st.SearchStrategy[Any] = st.sampled_from([None, 0, 1, "1", [1, 2], {"z": 1}])
made_calls = st.lists(
    st.builds(
        ToolUse,
        name=st.sampled_from("abc"),
        parameters=st.dictionaries(st.sampled_from("xyz"), json_values, max_size=3),
        step=st.none() | st.integers(1, 4),
    ),
    max_size=6,
)


@given(used=made_calls, expected=made_calls, order=st.booleans(), answer=st.booleans(), compatible=st.booleans())
def test_scores_stay_in_the_unit_interval(
    used: list[ToolUse], expected: list[ToolUse], order: bool, answer: bool, compatible: bool
) -> None:
    result = tool_use_correctness(used, expected, order_matters=order, answer_uses_tools=answer, compatible=compatible)
    for value in (result.score, *aspects(result).values()):
        assert value is None or 0.0 <= value <= 1.0
    assert (result.score is None) == (compatible and bool(expected) and not used)


@given(calls=made_calls.filter(bool))
def test_doing_what_was_expected_is_perfect(calls: list[ToolUse]) -> None:
    result = tool_use_correctness(calls, calls, answer_uses_tools=True, order_matters=False)
    assert result.score == pytest.approx(1.0)


@given(order=st.permutations("abcdef"))
def test_the_sequence_is_the_longest_that_stands_in_order(order: list[str]) -> None:
    result = tool_use_correctness([ToolUse(name) for name in order], [ToolUse(name) for name in "abcdef"])
    longest = max(size for size in range(1, 7) for some in combinations(order, size) if list(some) == sorted(some))
    assert aspects(result)["sequence"] == pytest.approx(longest / 6)
