"""Results that are sent without their requests are joined to the calls of the turn so far."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from agenteval_collector.evaluation.conversations.running_turns import (
    MAX_CALLS,
    MAX_CHARACTERS,
    TurnPart,
    newest,
    part_in,
    running_turn,
    told_of,
)
from agenteval_collector.model.trace_view import view_of
from agenteval_collector.stores.trace_json import view_from, view_json

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


def part(*calls: ToolCall, answers: Sequence[str] = (), begins: bool = False, result: Json = "none") -> TurnPart:
    results = tuple(alone(each, result) for each in answers)
    waiting = frozenset(each.call_id for each in calls if each.call_id and each.result is None)
    return TurnPart(calls, results, waiting, begins or not results)


A, B, C = asked("a"), asked("b"), asked("c")


@pytest.mark.parametrize(
    ("earlier", "answers", "expected"),
    [
        pytest.param([part(B, answers=["a"]), part(A)], ["b"], ["a", "b"], id="from trace to trace"),
        pytest.param([part(B, answers=["a"])], ["b"], ["b"], id="a trace is not known"),
        pytest.param([part(C), part(B, answers=["a"]), part(A)], ["b"], ["a", "b"], id="another turn is between"),
        pytest.param([part(B, answers=["a"], begins=True), part(A)], ["b"], ["b"], id="the turn begins in a trace"),
        pytest.param([part(A, B)], ["x", "b"], ["a", "b"], id="any result finds the calls of its reply"),
        pytest.param([part(A), part(A, B)], ["a"], ["a"], id="an id that recurs is that of the newest call"),
        pytest.param([part(A)], ["b"], [], id="no trace asked for the call"),
        pytest.param([part(DONE)], ["k0"], [], id="the call has a result"),
    ],
)
def test_a_turn_is_put_together_from_its_parts(
    earlier: list[TurnPart], answers: list[str], expected: list[str]
) -> None:
    running = running_turn(earlier, [alone(each, "r") for each in answers])
    assert [each.call_id for each in running] == expected
    assert [each.result for each in running[:-1]] == ["none"] * (len(expected) - 1) or len(earlier) == 1


def test_no_more_parts_are_read_than_a_turn_keeps_calls() -> None:
    count = 3 * MAX_CALLS
    parts = (part(asked(str(at)), answers=[str(at - 1)]) for at in range(count, 0, -1))
    running = running_turn(parts, [alone(str(count), "r")])
    assert [each.call_id for each in running] == [str(at) for at in range(count - MAX_CALLS + 1, count + 1)]
    assert next(parts).calls[0].call_id == str(count - MAX_CALLS)


def test_a_kept_view_shows_the_part_of_its_trace() -> None:
    turn = Turn(span_id="1", input=None, output=None, tool_calls=(DONE, FIRST), started_at=9, ended_at=10)
    trace = Trace(
        trace_id="t", turns=(turn,), results_alone=(alone("k9", "no", error="no"),), turn_goes_on=True, started_at=9
    )

    def shown(trace: Trace) -> TurnPart:
        return part_in(view_from(view_json(view_of(trace, revision=1, complete=True))))

    found = shown(trace)
    assert [(each.name, each.arguments, each.result, each.call_id) for each in found.calls] == [
        (each.name, each.arguments, each.result, each.call_id) for each in turn.tool_calls
    ]
    assert [(each.call_id, each.result, each.error) for each in found.results] == [("k9", "no", "error")]
    assert (found.waiting, found.begins) == ({"k1"}, False)
    assert shown(replace(trace, turns=(turn, turn))).begins
    assert shown(replace(trace, turn_goes_on=False)).waiting == set()
