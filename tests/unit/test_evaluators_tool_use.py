"""tool_correctness and step_efficiency without a judge."""

import pytest
from agenteval_collector.evaluators.step_efficiency import StepEfficiency
from agenteval_collector.evaluators.tool_correctness import ToolCorrectness
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.model import Tool, ToolCall
from otel_agenteval.outcome import Status
from tests.support.evaluating import call, evaluate, status, trace, turn, value

A = call("look_up", {"id": 1}, "one")
FAILED = call("look_up", {"id": 1}, error="timed out")
TOOLS = (Tool(name="look_up"), Tool(name="book"))


@pytest.mark.parametrize(
    ("calls", "correctness", "efficiency", "evidence"),
    [
        pytest.param([A], 1.0, 1.0, "1 call, each known and working", id="a call that works is right"),
        pytest.param([FAILED], 0.0, 1.0, "call 1, look_up, failed", id="a failed call is wrong, but no waste yet"),
        pytest.param([FAILED, A], 0.5, 1.0, "call 1", id="a retry that works is no waste"),
        pytest.param([FAILED, FAILED], 0.0, 0.5, "call 1", id="a retry that fails again is waste"),
        pytest.param([A, A], 0.5, 0.5, "call 2, look_up, repeats", id="the same call with the same result is waste"),
        pytest.param([A, call("look_up", {"id": 1}, "two")], 1.0, 1.0, "none", id="a poll with news is no waste"),
        pytest.param([A, call("look_up", {"id": 2}, "one")], 1.0, 1.0, "none", id="other arguments, another call"),
        pytest.param([A, call("book", {"id": 1}, "one")], 1.0, 1.0, "none", id="another tool, another call"),
        pytest.param([call("look_up", {"id": 1}, None)] * 2, 1.0, 1.0, "none", id="unknown results are not the same"),
        pytest.param([call("fly", {})], 0.0, 1.0, "call 1, fly, is not among", id="a tool that nobody offered"),
        pytest.param(
            [call("look_up", {"a": 1, "b": 2}), call("look_up", {"b": 2, "a": 1})],
            *(0.5, 0.5, "call 2"),
            id="the order of arguments makes no difference",
        ),
    ],
)
def test_calls_are_judged_by_what_is_known_of_them(
    calls: list[ToolCall], correctness: float, efficiency: float, evidence: str
) -> None:
    subject = trace(turn("q", "a", *calls), tools=TOOLS)
    found = evaluate(ToolCorrectness, subject)
    assert value(found) == correctness
    assert evidence in found.reason
    assert value(evaluate(StepEfficiency, subject)) == efficiency


def test_no_tool_is_unknown_where_the_offer_was_cut() -> None:
    subject = trace(turn("q", "a", call("fly", {})), tools=TOOLS, partial=True)
    assert value(evaluate(ToolCorrectness, subject)) == 1.0


@pytest.mark.parametrize("kind", [ToolCorrectness, StepEfficiency])
def test_traces_without_calls_are_not_scored(kind: type[ToolCorrectness | StepEfficiency]) -> None:
    assert evaluate(kind, trace(turn())).reason == "no tools"
    assert "takes a judge" in evaluate(kind, trace(turn(), tools=TOOLS)).reason
    assert evaluate(kind, trace()).reason == "there is no turn of an agent in this trace"
    assert status(evaluate(kind, trace(turn()))) is Status.NOT_APPLICABLE


def test_waste_is_unknown_where_no_arguments_were_recorded() -> None:
    assert status(evaluate(StepEfficiency, trace(turn("q", "a", call(), call())))) is Status.NO_CONTENT


CALLS = st.lists(
    st.builds(
        call,
        st.sampled_from(["look_up", "book", "fly"]),
        st.sampled_from([None, {}, {"id": 1}, {"id": 2}]),
        st.sampled_from([None, "one", {"n": 2}]),
        st.sampled_from([None, None, "failed"]),
    ),
    min_size=1,
    max_size=12,
)


@given(calls=CALLS)
def test_waste_is_what_a_slow_search_for_the_same_call_finds(calls: list[ToolCall]) -> None:
    wasted = 0
    for index, each in enumerate(calls):
        same = [c for c in calls[:index] if (c.name, c.arguments) == (each.name, each.arguments)]
        if each.arguments is None or not same:
            continue
        before = same[-1]
        retried = before.error is not None and each.error is not None
        repeated = before.error is None and before.result is not None and before.result == each.result
        wasted += retried or repeated
    outcome = evaluate(StepEfficiency, trace(turn("q", "a", *calls)))
    if all(each.arguments is None for each in calls):
        assert status(outcome) is Status.NO_CONTENT
    else:
        assert value(outcome) == pytest.approx(1 - wasted / len(calls))
