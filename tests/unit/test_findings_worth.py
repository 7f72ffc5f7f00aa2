"""The figures on what findings are worth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from benchmarks.findings_worth import Share, look, table
from benchmarks.workload.conversation import Call, Conversation, Step, Turn


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_is_wilsons(counted: tuple[int, int]) -> None:
    count, of = counted
    expected = binomtest(count, of).proportion_ci(method="wilson")
    assert Share(count, of).interval == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_of_none_nothing_is_known() -> None:
    assert Share(0, 0).interval == (0.0, 1.0)
    assert str(Share(0, 0)) == "–"


def conversation(number: int, result: str, *, success: bool) -> Conversation:
    asks = Step(text=None, calls=(Call(call_id="1", name="get_order", arguments="{}", result=result),))
    return Conversation(
        session_id=f"s-{number}",
        task_id=str(number),
        run_id="0",
        success=success,
        turns=(Turn(question="Where is it?", steps=(asks, Step(text="Here."))),),
    )


def test_conversations_with_a_finding_are_compared_with_those_without() -> None:
    conversations = [conversation(number, "Error: not found", success=number > 2) for number in range(4)]
    conversations += [conversation(number, "found", success=number > 4) for number in range(4, 10)]
    lines = {line.split("|")[1].strip(): line for line in table([*look(conversations)])}
    assert lines["`tool_failed`"] == (
        "| `tool_failed` | warning | 4 of 10 | 75% (30% to 95%) of 4 | 17% (3% to 56%) of 6 |"
    )
    assert "| 0 of 10 | – |" in lines["`no_answer`"]
    assert "| 0 of 0 |" in lines["`unusual_effort`"]
