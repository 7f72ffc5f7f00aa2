"""Tool calls of a trace beside those that were expected."""

from collections.abc import Sequence

import pytest
from agenteval_collector.evaluation.evaluators import EvaluationContext
from agenteval_collector.evaluation.evaluators.tool_use_correctness import ToolUseCorrectness

from otel_agenteval.model import ExpectedTool, ToolCall, Trace, Turn
from otel_agenteval.outcome import Score, Status, Unscored

FIND, PAY = ExpectedTool(name="find"), ExpectedTool(name="pay", arguments={"order": 7})


def evaluated(calls: Sequence[ToolCall], expected: Sequence[ExpectedTool] | None) -> Score | Unscored:
    turn = Turn(span_id="a", input="", output="", tool_calls=tuple(calls), started_at=0, ended_at=1)
    trace = Trace(trace_id="t", turns=(turn,), expected_tools=None if expected is None else tuple(expected))

    def embed(_text: str) -> None:
        raise AssertionError("nothing is embedded")

    outcome = ToolUseCorrectness().evaluate(EvaluationContext(trace, (), embed))  # type: ignore[arg-type]
    assert isinstance(outcome, Score | Unscored)
    return outcome


@pytest.mark.parametrize(
    ("calls", "expected", "score"),
    [
        pytest.param([ToolCall(name="find")], [FIND], 1.0, id="as expected"),
        pytest.param([ToolCall(name="find", arguments={"x": 1})], [FIND], 1.0, id="any arguments, where none are said"),
        pytest.param([], [FIND], 0.0, id="no call"),
        pytest.param([], [], 1.0, id="none expected, none made"),
        pytest.param([ToolCall(name="find")], [], 0.0, id="none expected, one made"),
        pytest.param([ToolCall(name="find"), ToolCall(name="look")], [FIND], 0.75, id="one too many"),
        pytest.param(
            [ToolCall(name="find"), ToolCall(name="pay", arguments={"order": 7})], [FIND, PAY], 1.0, id="with arguments"
        ),
        pytest.param(
            [ToolCall(name="find", arguments={"x": 1}), ToolCall(name="pay", arguments={"order": 8})],
            [FIND, PAY],
            (1 + 0.5 + 1) / 3,
            id="a wrong argument, and one that nobody asked about",
        ),
        pytest.param(
            [ToolCall(name="pay", arguments={"order": 7}), ToolCall(name="find")],
            [FIND, PAY],
            (1 + 1 + 0.5) / 3,
            id="in another order",
        ),
        pytest.param(
            [ToolCall(name="pay", arguments="order 7")],
            [PAY],
            2 / 3,
            id="arguments that are no object",
        ),
    ],
)
def test_calls_are_compared_with_those_expected(
    calls: Sequence[ToolCall], expected: Sequence[ExpectedTool], score: float
) -> None:
    outcome = evaluated(calls, expected)
    assert isinstance(outcome, Score)
    assert outcome.value == pytest.approx(score)


def test_without_ground_truth_there_is_nothing_to_compare_with() -> None:
    outcome = evaluated([ToolCall(name="find")], None)
    assert outcome.status is Status.NOT_APPLICABLE


def test_ground_truth_that_cannot_be_read_is_said() -> None:
    outcome = ToolUseCorrectness().evaluate(
        EvaluationContext(Trace(trace_id="t", unread={"expected_tools": 1}), (), lambda _: None)  # type: ignore[arg-type,return-value]
    )
    assert outcome.status is Status.NO_CONTENT
    assert "agenteval.expected_tools is not the JSON" in outcome.reason
