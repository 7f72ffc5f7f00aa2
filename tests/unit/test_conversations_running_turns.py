"""Results that are sent without their requests are joined to the calls of the turn so far."""

from dataclasses import replace

import pytest
from agenteval_collector.sessions.conversations import RunningTurns
from agenteval_collector.sessions.conversations.running_turns import MAX_CALLS, MAX_CHARACTERS, newest, told_of

from otel_agenteval.model import Json, ToolCall, Trace, Turn


def asked(call_id: str | None, name: str = "search", result: Json = None) -> ToolCall:
    return ToolCall(name=name, arguments={"q": "oslo"}, result=result, call_id=call_id, span_id="earlier")


def alone(call_id: str, result: Json, *, error: str | None = None, is_read: bool = False) -> ToolCall:
    return ToolCall(
        name="", result=result, error=error, is_error_read=is_read, call_id=call_id, agent="a", started_at=7
    )


DONE, FIRST, SECOND = asked("k0", result="none"), asked("k1"), asked("k2", "get_order")


@pytest.mark.parametrize(
    ("running", "results", "expected", "now"),
    [
        pytest.param([FIRST], [alone("k1", "r")], [("k1", "r", None)], 1, id="the only call"),
        pytest.param([DONE, FIRST], [alone("k1", "r")], [("k0", "none", None), ("k1", "r", None)], 1, id="the newest"),
        pytest.param(
            [DONE, FIRST, SECOND],
            [alone("k2", "r2"), alone("k1", "r1")],
            [("k0", "none", None), ("k1", "r1", None), ("k2", "r2", None)],
            2,
            id="calls of one reply, answered in another order",
        ),
        pytest.param(
            [FIRST, SECOND], [alone("k2", "r")], [("k1", None, None), ("k2", "r", None)], 1, id="one has no result"
        ),
        pytest.param(
            [FIRST], [alone("k1", "r"), alone("k1", "again")], [("k1", "r", None)], 1, id="a result is repeated"
        ),
        pytest.param([DONE], [alone("k0", "other")], [], 0, id="the call has a result"),
        pytest.param([FIRST], [alone("k9", "r")], [], 0, id="the call is not known"),
        pytest.param([asked(None)], [alone("k1", "r")], [], 0, id="the call has no id"),
        pytest.param(
            [FIRST], [alone("k1", "no", error="no")], [("k1", "no", "no")], 1, id="the result is marked as an error"
        ),
        pytest.param(
            [SECOND],
            [alone("k2", {"status": "failed"}, error="error", is_read=True)],
            [("k2", {"status": "failed"}, None)],
            1,
            id="a tool that reads was asked about a status",
        ),
    ],
)
def test_results_complete_the_calls_of_the_turn(
    running: list[ToolCall], results: list[ToolCall], expected: list[tuple[str, Json, str | None]], now: int
) -> None:
    told = told_of(running, results)
    assert [(each.call_id, each.result, each.error) for each in told.calls] == expected
    assert told.now == now
    assert {(each.span_id, each.agent) for each in told.calls} <= {(None, "a")}


def test_the_newest_calls_of_a_turn_are_kept() -> None:
    many = [asked(str(number)) for number in range(MAX_CALLS + 5)]
    assert newest(many) == tuple(many[5:])
    large = asked("large", result="x" * MAX_CHARACTERS)
    assert newest([DONE, large, FIRST]) == (FIRST,)
    assert newest([large]) == ()


def trace(answers: str, asks: str) -> Trace:
    """A model call that is sent the result of one call, and asks for another."""
    turn = Turn(span_id="1", input=None, output=None, tool_calls=(asked(asks),), started_at=9, ended_at=10)
    return Trace(
        trace_id=f"of {asks}", turns=(turn,), results_alone=(alone(answers, "none"),), turn_goes_on=True, started_at=9
    )


def test_a_turn_grows_from_trace_to_trace_of_its_session() -> None:
    turns = RunningTurns()
    traces = [trace("", "k0"), trace("k0", "k1"), trace("k1", "k2")]
    told = [turns.joined(each, "s") for each in traces]
    assert [[call.call_id for call in each.told] for each in told] == [[], ["k0"], ["k0", "k1"]]
    assert [each.told_now for each in told] == [0, 1, 1]
    assert turns.joined(traces[1], "s") == told[1], "a later revision is told the same"
    assert turns.joined(traces[1], "other") == traces[1]


def test_a_turn_that_begins_in_a_trace_has_no_calls_of_the_one_before() -> None:
    turns = RunningTurns()
    first = trace("", "k0")
    second = trace("k0", "k1")
    turns.joined(first, "s")
    turns.joined(replace(second, turns=(replace(second.turns[0], tool_calls=()), *second.turns)), "s")
    assert [call.call_id for call in turns.joined(trace("k1", "k2"), "s").told] == ["k1"]


@pytest.mark.parametrize(
    ("late", "expected"),
    [
        pytest.param(["k1", "k2"], ["k1", "k2"], id="both results at once"),
        pytest.param(["k2"], ["k1", "k2"], id="one result"),
        pytest.param(["k9", "k2"], ["k1", "k2"], id="the first is not known"),
    ],
)
def test_any_result_finds_the_calls_of_its_reply(late: list[str], expected: list[str]) -> None:
    turns = RunningTurns()
    first = trace("", "k1")
    both = replace(first.turns[0], tool_calls=(FIRST, SECOND))
    turns.joined(replace(first, turns=(both,)), "s")
    second = replace(trace("", "k3"), results_alone=tuple(alone(each, "r") for each in late))
    assert [call.call_id for call in turns.joined(second, "s").told] == expected
