"""Which findings of a trace are one event."""

from itertools import permutations
from typing import Any

import pytest
from agenteval_collector.model.problem_events import FOLLOWS, causes_of, is_one_error


def finding(kind: str, *, turn: int | None = 0, span: str = "a", tool: str | None = None, shape: str = "") -> Any:
    return {"kind": kind, "turn": turn, "span_id": span, "tool": tool, "shape": shape}


FAILED = finding("tool_failed", tool="get", shape="TimeoutError: no answer")
MODEL = finding("model_failed", span="m", shape="SampleError: no answer within … s")


@pytest.mark.parametrize(
    ("cause", "finding"),
    [
        pytest.param(MODEL, finding("turn_failed", shape="no answer within … s"), id="the turn fails by the model"),
        pytest.param(FAILED, finding("turn_failed", shape="TimeoutError: no answer"), id="the turn fails by a tool"),
        pytest.param(FAILED, finding("error_storm", span="c", tool="get"), id="the tool fails again and again"),
        pytest.param(FAILED, finding("identical_call", tool="get"), id="the same call fails again and again"),
        pytest.param(finding("invalid_arguments", tool="get", shape="x"), FAILED, id="a call that does not fit fails"),
        pytest.param(finding("unknown_tool", tool="get"), FAILED, id="a call of an unknown tool fails"),
        pytest.param(
            finding("cycle", tool="get"), finding("repeated_call", span="z", tool="get"), id="a loop is repeated calls"
        ),
    ],
)
def test_what_follows_from_a_failure_is_one_event_with_it(cause: Any, finding: Any) -> None:
    assert causes_of([cause, finding]) == [0, 0]
    assert causes_of([finding, cause]) == [1, 1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(FAILED, finding("turn_failed", shape="budget is spent"), id="another error"),
        pytest.param(FAILED, finding("turn_failed", turn=1, shape="no answer"), id="another turn"),
        pytest.param(FAILED, finding("error_storm", tool="put"), id="another tool"),
        pytest.param(FAILED, finding("identical_call", span="b", tool="get"), id="calls that worked are a loop"),
        pytest.param(FAILED, finding("turn_failed"), id="the turn says no error"),
        pytest.param(finding("invalid_arguments", span="b", tool="get"), FAILED, id="another call"),
        pytest.param(FAILED, finding("no_answer", shape="no answer"), id="nothing says so"),
        pytest.param(FAILED, {**FAILED, "shape": "KeyError: …"}, id="two errors of a tool"),
    ],
)
def test_what_does_not_follow_is_an_event_of_its_own(one: Any, other: Any) -> None:
    assert causes_of([one, other]) == [0, 1]


def test_the_first_of_a_chain_is_the_cause_of_all() -> None:
    misfit = finding("invalid_arguments", tool="get", shape="x")
    chain = [misfit, FAILED, finding("error_storm", tool="get"), finding("repeated_call", tool="get")]
    for order in permutations(chain):
        assert {order[index]["kind"] for index in causes_of(order)} == {"invalid_arguments"}


def test_no_row_leads_back_to_itself() -> None:
    leads = {(kind, cause) for row in FOLLOWS for kind in row.kinds for cause in row.causes}
    for _ in range(len(leads)):
        leads |= {(one, far) for one, near in leads for start, far in leads if near == start}
    assert not [kind for kind, cause in leads if kind == cause]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("TimeoutError: no answer", "no answer", True),
        ("TimeoutError: no answer", "KeyError: no answer", False),
        ("no answer", "no answer", True),
        ("there is no answer", "no answer", False),
        ("", "", False),
    ],
)
def test_one_of_two_texts_of_an_error_may_leave_out_its_type(one: str, other: str, same: bool) -> None:
    assert is_one_error(one, other) is same
    assert is_one_error(other, one) is same
