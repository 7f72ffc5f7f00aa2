"""OpenLIT: what it adds to the GenAI conventions, and what is not to be taken for more than it is."""

import json
from typing import Any

import pytest

from otel_agenteval.conventions.spans import STATUS_ERROR, LogRecord, SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from tests.support.spans import agent, answer, asks, chat, failed, span, tool, user


def test_reasoning_stands_beside_the_messages() -> None:
    record = chat("m", [user("Hi")], [answer("Hello")])
    record.attributes = {**record.attributes, "gen_ai.content.reasoning": "Hm.", "gen_ai.client.token.usage": 9}
    trace = read_trace("t", [record])
    assert (trace.output, trace.turns[0].reasoning) == ("Hello", ("Hm.",))
    assert trace.dialects == ("otel_genai", "openlit")


def test_tool_names_on_a_model_call_are_requests_that_count_once() -> None:
    record = chat("m", [user("Hi")], [asks("f", {"a": 1}, "c1"), asks("g", {}, "c2")])
    record.attributes = {
        **record.attributes, "gen_ai.client.token.usage": 9,
        "gen_ai.tool.name": "f, g", "gen_ai.tool.args": '{"a": 1}, {}', "gen_ai.tool.call.id": "c1, c2",
    }  # fmt: skip
    assert [call.name for call in read_trace("t", [record]).tool_calls] == ["f", "g"]


def test_a_decorated_function_is_neither_a_turn_nor_a_tool() -> None:
    function = SpanRecord(
        span_id="f", name="look_up",
        attributes={"function.args": "('Rome',)", "function.kwargs": "{}", "gen_ai.output.messages": "sunny"},
    )  # fmt: skip
    assert read_trace("t", [function]).turns == ()
    inside = chat("m", [user("Hi")], [answer("Hello")], parent="f", at=1)
    trace = read_trace("t", [function, inside])
    assert [(turn.input, turn.output, turn.tool_calls) for turn in trace.turns] == [("Hi", "Hello", ())]


def test_the_user_of_the_request_is_the_user() -> None:
    record = chat("m", [user("Hi")], [answer("Hello")])
    record.attributes = {**record.attributes, "gen_ai.request.user": "u-7"}
    assert read_trace("t", [record]).user_id == "u-7"
    record.attributes = {**record.attributes, "gen_ai.request.user": "", "user.id": "u-8"}
    assert read_trace("t", [record]).user_id == "u-8"


@pytest.mark.parametrize(
    ("names", "arguments", "ids", "expected"),
    [
        pytest.param("f", '{"a": 1}', "c1", [("f", {"a": 1}, "c1")], id="one request"),
        pytest.param("f, g", '{"a": 1}, {}', "c1, c2", [("f", {"a": 1}, "c1"), ("g", {}, "c2")], id="two requests"),
        pytest.param("f, g", '{"a": 1}', "c1", [("f", None, None), ("g", None, None)], id="not one for each"),
        pytest.param("f", '{"a": ', "c1", [("f", None, "c1")], id="cut arguments"),
        pytest.param("f", None, "c1", [], id="no arguments, so no request"),
        pytest.param("", "{}", "", [], id="no name"),
    ],
)
def test_requests_are_read_where_messages_were_not_recorded(
    names: str, arguments: str | None, ids: str, expected: list[tuple[str, Any, str | None]]
) -> None:
    record = SpanRecord(
        span_id="m",
        attributes={
            "gen_ai.operation.name": "chat", "gen_ai.client.token.usage": 9,
            "gen_ai.tool.name": names, "gen_ai.tool.args": arguments, "gen_ai.tool.call.id": ids,
        },
    )  # fmt: skip
    calls = read_trace("t", [record]).tool_calls
    assert [(call.name, call.arguments, call.call_id) for call in calls] == expected


def test_the_joined_chunks_of_a_streamed_graph_are_no_answer() -> None:
    graph = SpanRecord(
        span_id="g",
        name="invoke_workflow bot stream",
        ended_at=9,
        attributes={
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.graph.total_chunks": 24,
            "gen_ai.output.messages": json.dumps([answer("HiHiHello")]),
        },
    )
    trace = read_trace("t", [graph, chat("m", [user("Hi")], [answer("Hello")], parent="g", at=1)])
    assert (trace.input, trace.output) == ("Hi", "Hello")


def test_what_a_graph_was_given_is_the_question_if_its_model_failed() -> None:
    given = {"messages": [{"role": "user", "content": "Rome?"}]}
    run = SpanRecord(
        span_id="a",
        status=STATUS_ERROR,
        attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.workflow.input": json.dumps(given)},
    )
    trace = read_trace("t", [run])
    assert (trace.input, trace.output) == ("Rome?", None)


def test_empty_lists_of_a_log_record_hide_nothing_that_the_span_says() -> None:
    record = SpanRecord(
        span_id="m",
        attributes={
            "gen_ai.operation.name": "chat", "gen_ai.client.token.usage": 9,
            "gen_ai.tool.name": "f", "gen_ai.tool.args": '{"a": 1}', "gen_ai.tool.call.id": "c1",
        },
    )  # fmt: skip
    details = LogRecord(
        span_id="m",
        event_name="gen_ai.client.inference.operation.details",
        attributes={"gen_ai.input.messages": [], "gen_ai.output.messages": []},
    )
    [call] = read_trace("t", [record], [details]).tool_calls
    assert (call.name, call.arguments) == ("f", {"a": 1})


def test_a_tool_that_fails_before_its_attributes_are_written_is_known_by_its_name() -> None:
    call = failed(SpanRecord(span_id="x", name="execute_tool refund", parent_id="m"), "gateway unreachable")
    trace = read_trace("t", [chat("m", [user("Pay")], [asks("refund", {"sum": 3}, "c1")]), call])
    assert [(call.name, call.arguments, call.error) for call in trace.tool_calls] == [
        ("refund", {"sum": 3}, "gateway unreachable")
    ]


def test_the_question_which_tools_a_server_has_is_no_call_of_a_tool() -> None:
    listing = tool("x", "mcp_list_tools", None, '["track"]', parent="a")
    trace = read_trace("t", [agent("a", "bot"), listing, chat("m", [user("Hi")], [answer("Hello")], parent="a", at=1)])
    assert trace.tool_calls == ()


def test_a_graph_names_the_agent_and_its_nodes_do_not() -> None:
    graph = span(
        "g", "invoke_workflow", attributes={"gen_ai.provider.name": "langgraph", "gen_ai.workflow.name": "bot"}
    )
    node = agent("n", "model", parent="g")
    trace = read_trace("t", [graph, node, chat("m", [user("Hi")], [answer("Hello")], parent="n", at=1)])
    assert trace.agents == ("bot",)
    graph.attributes = {**graph.attributes, "gen_ai.workflow.name": "LangGraph"}
    assert read_trace("t", [graph, node]).agents == ()
