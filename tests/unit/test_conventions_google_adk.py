"""Google ADK's own attributes: requests and responses of Gemini's API, and what stands there without content."""

import json
from typing import Any

from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from tests.support.spans import agent, span

PREFIX = "gcp.vertex.agent."


def model(span_id: str, request: Any, response: Any, at: int = 1) -> SpanRecord:
    content = {PREFIX + "llm_request": json.dumps(request), PREFIX + "llm_response": json.dumps(response)}
    attributes = {"gen_ai.request.model": "gemini", **content}
    return span(span_id, parent="a", at=at, attributes=attributes)


def tool(arguments: str, result: str, name: str = "f") -> SpanRecord:
    content = {PREFIX + "tool_call_args": arguments, PREFIX + "tool_response": result, PREFIX + "llm_request": "{}"}
    return span("t", "execute_tool", "m", at=5, attributes={"gen_ai.tool.name": name, **content})


ASKED = {"role": "user", "parts": [{"text": "Hi"}]}
CALL = {
    "role": "model",
    "parts": [{"text": "Hm.", "thought": True}, {"function_call": {"name": "f", "args": {"x": 1}}}],
}
TOLD = {"role": "user", "parts": [{"function_response": {"name": "f", "response": {"result": "7"}}}]}
REQUEST = {
    "config": {
        "system_instruction": "Be kind.",
        "tools": [{"function_declarations": [{"name": "f", "parameters": {"type": "OBJECT"}}, {"name": "g"}]}],
    },
    "contents": [ASKED],
}


def test_a_turn_of_two_calls() -> None:
    trace = read_trace(
        "t",
        [
            agent("a", "bot"),
            model("m", REQUEST, {"content": CALL}),
            model("n", {**REQUEST, "contents": [ASKED, CALL, TOLD]}, {"content": {"parts": [{"text": "7"}]}}, at=50),
        ],
    )
    assert (trace.input, trace.output, trace.system_instructions) == ("Hi", "7", "Be kind.")
    assert [tool.name for tool in trace.available_tools] == ["f", "g"]
    assert trace.turns[0].reasoning == ("Hm.",)
    assert [(call.name, call.arguments, call.result) for call in trace.tool_calls] == [("f", {"x": 1}, {"result": "7"})]


def test_an_execution_within_the_call_that_asked_for_it_is_that_call() -> None:
    spans = [agent("a", "bot"), model("m", REQUEST, {"content": CALL}), tool('{"x": 1}', '{"status": "error"}')]
    [call] = read_trace("t", spans).tool_calls
    assert (call.span_id, call.arguments, call.error) == ("t", {"x": 1}, "error")


def test_joined_responses_of_parallel_calls_are_no_call() -> None:
    assert read_trace("t", [agent("a", "bot"), tool("N/A", "<not serializable>", "(merged tools)")]).tool_calls == ()


def test_without_content_calls_are_counted_and_nothing_is_said() -> None:
    marks = {"gen_ai.request.model": "gemini", PREFIX + "invocation_id": "i", "gen_ai.usage.input_tokens": 3}
    spans = [agent("a", "bot"), span("m", parent="a", at=1, attributes=marks), tool("{}", "{}")]
    trace = read_trace("t", spans)
    assert (trace.input, trace.output, len(trace.model_calls)) == (None, None, 1)
    assert [(call.name, call.result) for call in trace.tool_calls] == [("f", None)]


def test_runs_of_agents_in_the_first_versions_have_nothing_but_a_name() -> None:
    run = SpanRecord(span_id="a", name="agent_run [bot]", ended_at=90)
    trace = read_trace("t", [run, model("m", REQUEST, {"content": {"parts": [{"text": "Hello"}]}})])
    assert (trace.agents, trace.input, trace.output) == (("bot",), "Hi", "Hello")


def test_a_response_that_is_an_error_says_nothing() -> None:
    trace = read_trace("t", [agent("a", "bot"), model("m", REQUEST, {"error_code": "SAFETY"})])
    assert (trace.input, trace.output, trace.unread) == ("Hi", None, {})


def test_a_request_that_was_cut_is_no_question() -> None:
    record = model("m", REQUEST, {})
    record.attributes = {**record.attributes, PREFIX + "llm_request": json.dumps(REQUEST)[:-20]}
    trace = read_trace("t", [agent("a", "bot"), record])
    assert (trace.input, trace.partial, [tool.name for tool in trace.available_tools]) == (None, True, ["f", "g"])


def test_a_transfer_whose_arguments_were_not_recorded_is_no_tool_of_the_users() -> None:
    trace = read_trace("t", [agent("m", "bot"), tool("{}", "{}", "transfer_to_agent")])
    assert trace.tool_calls == ()
