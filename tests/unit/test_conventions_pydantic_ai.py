"""Pydantic AI and Logfire: whole conversations on runs, events as one attribute, replies reported later."""

import json
from typing import Any

import pytest

from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import Trace
from tests.support.spans import agent, answer, asks, chat, span, user

MODEL = {"gen_ai.request.model": "m-1"}


def read(*spans: SpanRecord) -> Trace:
    return read_trace("t", spans)


def run(messages: list[Any], index: int | None = None, **attributes: Any) -> SpanRecord:
    said = {"pydantic_ai.all_messages": json.dumps(messages), "agent_name": "bot", **attributes}
    return agent("a", "bot", attributes=said if index is None else {**said, "pydantic_ai.new_message_index": index})


@pytest.mark.parametrize(
    ("messages", "index", "expected"),
    [
        pytest.param([user("Hi"), answer("Hello")], None, "Hi", id="the first turn"),
        pytest.param([user("Hi"), answer("Hello"), user("And?"), answer("Well")], 2, "And?", id="a later turn"),
        pytest.param([user("Hi"), answer("Hello"), user("And?")], None, None, id="nothing says where the turn begins"),
        pytest.param(
            [user("Hi"), answer("Hello"), user("And?"), answer("Well"), user("Fix the errors and try again.")],
            2,
            "And?",
            id="what the library says to the model afterwards is not the user's",
        ),
    ],
)
def test_what_a_run_was_asked(messages: list[Any], index: int | None, expected: str | None) -> None:
    assert read(run(messages, index)).input == expected


def test_the_result_of_a_run_is_its_answer_even_as_json() -> None:
    assert read(run([user("Hi")], final_result='{"n":1}')).output == '{"n":1}'


def test_tools_by_which_a_model_answers_are_not_the_users() -> None:
    offered = {"function_tools": [{"name": "f", "parameters_json_schema": {"type": "object"}}]}
    parameters = json.dumps({**offered, "output_tools": [{"name": "final_result"}]})
    both = {"role": "assistant", "parts": asks("f", {})["parts"] + asks("final_result", {"n": 1})["parts"]}
    call = chat("m", [user("Hi")], [both], "a", at=1, attributes={"model_request_parameters": parameters})
    trace = read(run([user("Hi")], final_result='{"n":1}'), call)
    assert [call.name for call in trace.tool_calls] == ["f"]
    assert [(tool.name, tool.parameters) for tool in trace.available_tools] == [("f", {"type": "object"})]


def test_a_users_tool_that_is_named_like_one_is_the_users() -> None:
    trace = read(run([user("Hi")]), chat("m", [user("Hi")], [asks("final_result", {})], "a", at=1))
    assert [call.name for call in trace.tool_calls] == ["final_result"]


def test_runs_and_tools_of_versions_without_operation_names() -> None:
    before = span("a", attributes={"agent_name": "bot", "gen_ai.agent.name": "bot", "final_result": "Hello"})
    tool = span(
        "t", parent="a", at=1,
        attributes={"gen_ai.tool.name": "f", "tool_arguments": '{"x": 1}', "tool_response": "ok"},
    )  # fmt: skip
    trace = read(before, tool)
    [call] = trace.tool_calls
    assert (trace.agents, trace.output) == (("bot",), "Hello")
    assert (call.name, call.arguments, call.result) == ("f", {"x": 1}, "ok")


def test_events_as_one_attribute() -> None:
    events = [
        {"event.name": "gen_ai.system.message", "content": "Be brief.", "role": "system"},
        {"event.name": "gen_ai.user.message", "content": "Hi", "role": "user"},
        {"event.name": "gen_ai.assistant.message", "role": "assistant", "content": "Which?"},
        {"event.name": "gen_ai.user.message", "content": "This", "role": "user"},
        {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "content": "Hello"}},
        {"event.name": "unheard of", "content": "?"},
    ]
    trace = read(span("m", attributes={**MODEL, "events": json.dumps(events)}))
    assert (trace.system_instructions, trace.input, trace.output) == ("Be brief.", "This", "Hello")


def test_an_attribute_of_that_name_may_be_somebody_elses() -> None:
    assert read(span("m", attributes={**MODEL, "events": '["click"]'})).dialects == ()


def client(span_id: str, at: int, **attributes: Any) -> SpanRecord:
    request = {"messages": [{"role": "user", "content": "Hi"}], "tools": [{"function": {"name": "f"}}]}
    return span(span_id, at=at, attributes={**MODEL, "request_data": json.dumps(request), **attributes})


def test_request_and_response_of_a_client() -> None:
    response = {"message": {"role": "assistant", "content": "Hello"}, "usage": {"prompt_tokens": 4}}
    trace = read(client("m", 0, response_data=json.dumps(response)))
    [call] = trace.model_calls
    assert (trace.input, trace.output, [tool.name for tool in trace.available_tools]) == ("Hi", "Hello", ["f"])
    assert call.usage
    assert call.usage.input_tokens == 4


def test_a_streamed_reply_that_is_reported_later_completes_its_call() -> None:
    response = json.dumps({"message": {"role": "assistant", "content": "Hello"}})
    report = client("l", 20, response_data=response, **{"logfire.span_type": "log", "duration": 0.5})
    trace = read(client("m", 0), report)
    assert [(call.span_id, call.output) for call in trace.model_calls] == [("m", "Hello")]
    assert [(call.span_id, call.output) for call in read(report).model_calls] == [("l", "Hello")]


def test_scrubbed_values_are_unknown() -> None:
    scrubbed = "[Scrubbed due to 'session']"
    trace = read(run([user(scrubbed)], final_result=scrubbed, **dict[str, Any]({"session.id": scrubbed})))
    assert (trace.session_id, trace.input, trace.output) == (None, None, None)
