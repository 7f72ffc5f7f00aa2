"""Calls of the user's tools: joined, counted once, with results and errors."""

from typing import Any

import pytest

from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.detectors.call_outcomes import outcome_of
from otel_agenteval.model import Json, ToolCall
from tests.support.spans import agent, answer, asks, chat, failed, span, told, tool, user


def calls(*spans: SpanRecord) -> tuple[ToolCall, ...]:
    return read_trace("t", spans).tool_calls


def test_a_request_and_its_execution_are_one_call() -> None:
    [call] = calls(
        agent("a", "bot"),
        chat("m", [user("?")], [asks("f", {"x": 1}, "c1")], "a", at=1),
        tool("t", "f", {"x": 1}, "ok", "a", at=20, call_id="c1"),
    )
    assert (call.name, call.arguments, call.result, call.call_id, call.span_id) == ("f", {"x": 1}, "ok", "c1", "t")


@pytest.mark.parametrize(
    ("recorded", "request_arguments", "expected"),
    [
        pytest.param("{'id': 1, 'who': 'Bob'}", None, {"id": 1, "who": "Bob"}, id="alone"),
        pytest.param(
            "{'id': 1, 'user': <User 1>}", {"id": 1}, {"id": 1}, id="of an object that only the program knows"
        ),
        pytest.param("{'id': 1, 'user': <User 1>}", None, "{'id': 1, 'user': <User 1>}", id="of such an object, alone"),
        pytest.param('{"id": 1, "na', {"id": 1, "name": "Bob"}, {"id": 1, "name": "Bob"}, id="JSON that was cut"),
        pytest.param("Bob", {"id": 1, "who": "Bob"}, "Bob", id="plain text"),
    ],
)
def test_arguments_in_the_notation_of_python_are_read(recorded: str, request_arguments: Json, expected: Json) -> None:
    record = span("t", at=20, attributes={"openinference.span.kind": "TOOL", "tool.name": "f", "input.value": recorded})
    asking = [] if request_arguments is None else [chat("m", [user("?")], [asks("f", request_arguments)], at=1)]
    assert [call.arguments for call in calls(*asking, record)] == [expected]


def test_without_ids_equal_calls_are_joined_in_order_and_unequal_ones_by_arguments() -> None:
    both = {"role": "assistant", "parts": asks("f", {"x": 1})["parts"] + asks("f", {"x": 2})["parts"]}
    found = calls(
        agent("a", "bot"),
        chat("m", [user("?")], [both], "a", at=1),
        tool("t2", "f", {"x": 2}, "two", "a", at=20),
        tool("t1", "f", {"x": 1}, "one", "a", at=21),
    )
    assert [(call.arguments, call.result) for call in found] == [({"x": 1}, "one"), ({"x": 2}, "two")]


def test_calls_say_which_reply_asked_for_them() -> None:
    both = {"role": "assistant", "parts": asks("f", {"x": 1})["parts"] + asks("g", {"x": 2})["parts"]}
    found = calls(
        agent("a", "bot"),
        chat("m1", [user("?")], [both], "a", at=1),
        tool("t1", "f", {"x": 1}, "one", "a", at=20),
        tool("t2", "f", {"x": 3}, "by the program", "a", at=21),
        chat("m2", [user("?"), both], [asks("h", {"x": 2})], "a", at=40),
    )
    assert [(call.name, call.asked_by) for call in found] == [("f", "m1"), ("g", "m1"), ("f", None), ("h", "m2")]


def test_an_output_with_results_holds_several_replies() -> None:
    steps = [asks("f", {"x": 1}, "c1"), told("one", "c1"), asks("f", {"x": 1}, "c2"), told("one", "c2")]
    found = calls(agent("a", "bot"), chat("m", [user("?")], steps, "a", at=1))
    assert [call.asked_by for call in found] == [None, None]


def test_requests_alone_count_and_take_results_from_what_the_model_was_told_next() -> None:
    request, response = asks("f", {"x": 1}, "c1"), told("Error: no such x", "c1")
    [call] = calls(
        chat("m1", [user("?")], [request], at=1),
        chat("m2", [user("?"), request, response], [answer("sorry")], at=20),
    )
    assert (call.arguments, call.result, call.error) == ({"x": 1}, "Error: no such x", "Error: no such x")


def test_requests_without_ids_take_results_in_order() -> None:
    requests = [asks("f", {"x": 1}), asks("f", {"x": 2})]
    found = calls(
        chat("m1", [user("?")], requests, at=1),
        chat("m2", [user("?"), *requests, told("one"), told("two")], [answer("done")], at=20),
    )
    assert [call.result for call in found] == ["one", "two"]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        pytest.param("c1", "c2", id="each has its id"),
        pytest.param(None, None, id="neither has an id"),
        pytest.param("c1", "c1", id="ids are counted anew in every trace"),
        pytest.param("c1", None, id="only the earlier one has an id"),
    ],
)
def test_a_call_takes_no_result_from_what_the_model_was_told_before_it_asked(
    earlier: str | None, later: str | None
) -> None:
    step = [user("?"), asks("f", {"x": 1}, earlier), told("Error: refused", earlier)]
    [call] = calls(chat("m1", step, [asks("g", {}, later)], at=1))
    assert (call.name, call.result, call.error) == ("g", None, None)
    after = [*step, asks("g", {}, later), told("ok", later)]
    if earlier != later or later is None:
        [call] = calls(
            chat("m1", step, [asks("g", {}, later)], at=1),
            chat("m2", after, [answer("done")], at=20),
        )
        assert (call.name, call.result, call.error) == ("g", "ok", None)


def test_calls_of_earlier_turns_in_the_history_are_not_calls_of_this_turn() -> None:
    history = [user("?"), asks("f", {"x": 1}, "c1"), told("1", "c1"), answer("1"), user("again")]
    assert calls(chat("m", history, [answer("2")])) == ()


def test_a_request_repeated_under_its_id_is_one_call() -> None:
    request = asks("f", {"x": 1}, "c1")
    assert len(calls(chat("m1", [user("?")], [request], at=1), chat("m2", [user("?")], [request], at=20))) == 1


def test_ids_made_up_from_names_recur_in_other_calls_and_join_nothing() -> None:
    first, second = asks("f", {"x": 1}, "f_1"), asks("f", {"x": 2}, "f_1")
    found = calls(
        chat("m1", [user("?")], [first], at=1),
        chat("m2", [user("?"), first, told("one", "f_0")], [second], at=20),
        chat("m3", [user("?"), first, told("one", "f_0"), second, told("two", "f_0")], [answer("done")], at=40),
    )
    assert [(call.arguments, call.result) for call in found] == [({"x": 1}, "one"), ({"x": 2}, "two")]


def test_the_same_call_asked_for_again_under_the_same_id_is_another_one() -> None:
    request, response = asks("f", {"x": 1}, "f_0"), told("nothing", "f_0")
    found = calls(
        chat("m1", [user("?")], [request], at=1),
        chat("m2", [user("?"), request, response], [request], at=20),
        chat("m3", [user("?"), request, response, request, told("found", "f_0")], [answer("done")], at=40),
    )
    assert [call.result for call in found] == ["nothing", "found"]


def test_an_id_that_an_earlier_turn_used_means_the_call_of_this_turn() -> None:
    before = [user("before"), asks("f", {"x": 1}, "f_0"), told("Error: old", "f_0"), answer("?")]
    request = asks("f", {"x": 2}, "f_0")
    [call] = calls(
        chat("m1", [*before, user("?")], [request], at=1),
        chat("m2", [*before, user("?"), request, told("new", "f_0")], [answer("done")], at=20),
    )
    assert (call.arguments, call.result) == ({"x": 2}, "new")


def test_a_response_under_an_id_of_its_own_answers_the_only_call() -> None:
    request = asks("f", {"x": 1}, "f_2")
    [call] = calls(
        chat("m1", [user("?")], [request], at=1),
        chat("m2", [user("?"), request, told("one", "f_0")], [answer("done")], at=20),
    )
    assert call.result == "one"


def test_parallel_calls_stand_in_the_order_of_their_requests() -> None:
    parts = asks("f", {}, "c1")["parts"] + asks("g", {}, "c2")["parts"]
    found = calls(
        agent("a", "bot"),
        chat("m", [user("?")], [{"role": "assistant", "parts": parts}], "a", at=1),
        tool("t2", "g", {}, "2", "a", at=20, call_id="c2"),
        tool("t1", "f", {}, "1", "a", at=21, call_id="c1"),
    )
    assert [call.name for call in found] == ["f", "g"]


@pytest.mark.parametrize(
    ("called", "named"),
    [
        pytest.param("f", {"gen_ai.tool.name": "f"}, id="the same name"),
        pytest.param("f", {}, id="its name stands in the name of the span"),
        pytest.param("files_f", {"gen_ai.tool.name": "f"}, id="the agent puts the server's name before the tool's"),
    ],
)
def test_an_mcp_span_inside_the_execution_is_the_same_call(called: str, named: dict[str, Json]) -> None:
    mcp = span("u", None, "t", at=21, name="tools/call f", attributes={"mcp.method.name": "tools/call", **named})
    [call] = calls(agent("a", "bot"), tool("t", called, {}, "1", "a", at=20), mcp)
    assert (call.name, call.span_id) == (called, "t")


def test_other_tools_that_a_tool_calls_are_calls_of_their_own() -> None:
    mcp = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "g"}
    found = calls(
        agent("a", "bot"),
        tool("t", "safe_f", {}, "1", "a", at=20),
        tool("u", "f", {}, "1", "t", at=21),
        span("v", None, "t", at=22, attributes=mcp),
    )
    assert [call.name for call in found] == ["safe_f", "f", "g"]


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("tools/call f", {"mcp.method.name": "tools/call"}),
        ("execute_tool f", {"gen_ai.operation.name": "execute_tool"}),
    ],
)
def test_the_name_of_a_span_names_the_tool_where_no_attribute_does(name: str, attributes: dict[str, Json]) -> None:
    trace = read_trace(
        "t",
        [
            chat("m", [user("?")], [asks("f", {"x": 1}, "c1")], at=1),
            span("t", at=20, name=name, attributes=attributes),
        ],
    )
    assert [(call.name, call.arguments, call.span_id) for call in trace.tool_calls] == [("f", {"x": 1}, "t")]
    assert [each.name for each in trace.available_tools] == ["f"]


@pytest.mark.parametrize(
    "request_message",
    [
        pytest.param(asks("transfer_to_booker", {}), id="the agent's name in the tool's"),
        pytest.param(asks("transfer_to_agent", {"agent_name": "booker"}), id="the agent's name in the arguments"),
        pytest.param(asks("handoff", {"to_agent": "booker", "reason": "a flight"}), id="LlamaIndex"),
        pytest.param(asks("final_answer", {"answer": "x"}), id="the answer as a call"),
    ],
)
def test_tools_of_the_framework_are_not_the_users(request_message: dict[str, Any]) -> None:
    spans = [agent("a", "desk"), chat("m", [user("?")], [request_message], "a", at=1), agent("b", "booker", at=20)]
    assert calls(*spans) == ()


def test_a_transfer_to_what_is_no_agent_is_a_tool_of_the_users() -> None:
    [call] = calls(agent("a", "desk"), chat("m", [user("?")], [asks("transfer_to_savings", {"eur": 5})], "a", at=1))
    assert call.name == "transfer_to_savings"


@pytest.mark.parametrize(
    ("record", "error"),
    [
        pytest.param(failed(tool("t", "f"), "no such city"), "no such city", id="the exception's message"),
        pytest.param(tool("t", "f", status=2, status_message="boom"), "boom", id="the status text"),
        pytest.param(
            tool("t", "f", result="Something broke.", status=2, status_message="Error details are redacted."),
            "Something broke.",
            id="what the model was told, where details were withheld",
        ),
        pytest.param(tool("t", "f", status=2, attributes={"error.type": "timeout"}), "timeout", id="the error's type"),
        pytest.param(tool("t", "f", status=2), "error", id="nothing but the status"),
        pytest.param(tool("t", "f", result='{"status": "error", "error_message": "no"}'), "no", id="an error returned"),
        pytest.param(
            tool("t", "get_it", result='{"status": "error", "error_message": "no"}'), "no", id="nothing was read"
        ),
        pytest.param(tool("t", "get_it", result='{"status": "error", "message": "no"}'), "no", id="nor was it here"),
        pytest.param(
            tool("t", "get_it", result='{"status": "failed", "message": "no"}'), None, id="a failure was read"
        ),
        pytest.param(
            tool("t", "get_it", result='{"id": 7, "status": "error", "error_message": "no"}'),
            None,
            id="a state was read",
        ),
        pytest.param(tool("t", "f", result="sunny"), None, id="no error"),
    ],
)
def test_the_error_of_a_call(record: SpanRecord, error: str | None) -> None:
    assert [call.error for call in calls(record)] == [error]


@pytest.mark.parametrize(
    ("result", "is_error"),
    [
        ("Error: unknown airport", True),
        ("Error executing tool f", True),
        ("ValueError: bad", True),
        ("error", True),
        ("An error occurred while running the tool.", True),
        ({"error": "no"}, True),
        ('{"status": "ERROR"}', True),
        ("Error handling in Python is done with try", False),
        ("No errors: all good", False),
        ({"error": None, "ok": 1}, False),
        ({"error": "none"}, False),
        ({"error": 0.02, "value": 3.1}, False),
        ({"error": 404}, True),
        ({"error": True}, True),
        ({"errors": [{"message": "no such field"}]}, True),
        ({"ok": False}, True),
        ({"status": "ok"}, False),
        ("[1, 2]", False),
        (None, False),
        (7, False),
    ],
)
def test_results_that_tell_of_an_error(result: Any, is_error: bool) -> None:
    assert (outcome_of("order", None, result).error is not None) is is_error


@pytest.mark.parametrize("tool", ["get_order_status", "getCIJob", "list_jobs", "read_job", "check_job"])
def test_a_status_of_what_was_asked_about_is_no_failure(tool: str) -> None:
    assert outcome_of(tool, None, {"status": "failed"}).error is None
    assert outcome_of(tool, None, {"status": "failed", "error": "no such order"}).error == "no such order"


@pytest.mark.parametrize("result", [{"errors": ["line 3: unused import"]}, {"ok": False, "reason": "no street"}])
@pytest.mark.parametrize("tool", ["lint", "validate_address", "checkForm"])
def test_the_verdict_of_a_tool_that_judges_is_no_failure(tool: str, result: Any) -> None:
    assert outcome_of(tool, None, result).error is None
    assert outcome_of(tool, None, {**result, "error": "timeout"}).error == "timeout"


def offered(**attributes: Any) -> list[str]:
    spans = [agent("a", "bot", attributes=attributes), tool("t", "used", {}, "1", "a", at=1)]
    return [each.name for each in read_trace("t", spans).available_tools]


def test_tools_on_offer_come_from_definitions_then_from_names_then_from_use() -> None:
    definition = {"type": "function", "name": "defined", "parameters": {"type": "object"}}
    names = {"gen_ai.agent.tools": '["named"]'}
    assert offered(**{"gen_ai.tool.definitions": [definition]}, **names) == ["defined"]
    assert offered(**names) == ["named"]
    assert offered() == ["used"]


def test_of_cut_definitions_the_complete_ones_are_known() -> None:
    text = '[{"name": "whole", "type": "function"}, {"name": "half", "parameters": {"ty'
    assert offered(**{"gen_ai.tool.definitions": text}) == ["whole"]


def test_an_id_that_calls_of_a_turn_share_gives_none_the_outcome_of_another() -> None:
    first, second = asks("book", {"seat": 1}, "c"), asks("think", {"of": "seats"}, "c")
    found = calls(
        agent("a", "bot"),
        chat("m1", [user("?")], [first], "a", at=1),
        tool("t1", "book", {"seat": 1}, "Error: taken", "a", at=10, call_id="c"),
        chat("m2", [user("?"), first, told("Error: taken", "c")], [second], "a", at=20),
        tool("t2", "think", {"of": "seats"}, None, "a", at=30, call_id="c"),
        chat("m3", [user("?"), first, told("Error: taken", "c"), second, told("", "c")], [answer("!")], "a", at=40),
    )
    assert [(call.name, call.result, call.error) for call in found] == [
        ("book", "Error: taken", "Error: taken"),
        ("think", None, None),
    ]


def test_an_execution_that_no_reply_asked_for_stands_at_its_start() -> None:
    found = calls(
        agent("a", "bot"),
        tool("t1", "lookup", {}, "1", "a", at=1),
        chat("m", [user("?")], [asks("f", {}, "c")], "a", at=20),
        tool("t2", "f", {}, "2", "a", at=40, call_id="c"),
    )
    assert [call.name for call in found] == ["lookup", "f"]


def test_where_a_tools_executions_are_recorded_they_count_and_not_its_requests() -> None:
    request = {"role": "assistant", "parts": asks("f", {})["parts"] * 2 + asks("hosted", {})["parts"]}
    found = calls(agent("a", "bot"), chat("m", [user("?")], [request], "a", at=1), tool("t", "f", {}, "1", "a", at=20))
    assert sorted(call.name for call in found) == ["f", "hosted"]


def test_a_tool_that_an_agent_inside_it_calls_again_is_called_twice() -> None:
    inner = [agent("b", "helper", "t1", at=2), tool("t2", "ask", {"level": 2}, "2", "b", at=3)]
    found = calls(agent("a", "bot"), tool("t1", "ask", {"level": 1}, "1", "a", at=1, until=20), *inner)
    assert [call.arguments for call in found] == [{"level": 1}, {"level": 2}]
