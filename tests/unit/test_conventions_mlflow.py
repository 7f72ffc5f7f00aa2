"""MLflow Tracing: every attribute is JSON, arguments stand by name."""

import json
from dataclasses import replace
from typing import Any

import pytest

from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import Trace, Usage


def span(span_id: str, kind: str, name: str = "bot", **attributes: Any) -> SpanRecord:
    parent, at = attributes.pop("parent", None), attributes.pop("at", 0)
    given = {f"mlflow.{key.replace('__', '.')}": json.dumps(value) for key, value in attributes.items()}
    return SpanRecord(
        span_id=span_id,
        parent_id=parent,
        name=name,
        started_at=at,
        ended_at=at + 5,
        attributes={"mlflow.spanType": json.dumps(kind), **given},
    )


def read(*spans: SpanRecord) -> Trace:
    return read_trace("t", spans)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"user": "Hi"}, "Hi", id="the only argument"),
        pytest.param({"question": "Hi", "session": "s-1"}, "Hi", id="an argument that is named so"),
        pytest.param({"a": "x", "b": "y"}, None, id="one of several texts, and nothing says which"),
        pytest.param({"messages": [{"role": "user", "content": "Hi"}]}, "Hi", id="messages"),
        pytest.param({"messages": [{"type": "human", "content": "Hi"}]}, "Hi", id="LangChain's messages"),
        pytest.param("Hi", "Hi", id="text"),
    ],
)
def test_what_an_agent_was_asked(given: Any, expected: str | None) -> None:
    assert read(span("a", "AGENT", spanInputs=given)).input == expected


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        pytest.param("Hello", "Hello", id="text"),
        pytest.param({"response": "Hello"}, "Hello", id="a field that is named so"),
        pytest.param({"messages": [{"role": "assistant", "content": "Hello"}]}, "Hello", id="the last message"),
        pytest.param({"city": "Rome"}, None, id="some other object"),
    ],
)
def test_what_an_agent_answered(returned: Any, expected: str | None) -> None:
    assert read(span("a", "AGENT", spanOutputs=returned)).output == expected


@pytest.mark.parametrize(
    ("given", "returned"),
    [
        pytest.param(
            {"messages": [{"role": "user", "content": "Hi"}]},
            {"choices": [{"message": {"role": "assistant", "content": "Hello"}}]},
            id="chat completions",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": "Hi"}], "system": "Be brief."},
            {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]},
            id="Anthropic's messages",
        ),
        pytest.param(
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]},
            {"output": [{"type": "message", "role": "assistant",
                         "content": [{"type": "output_text", "text": "Hello"}]}]},
            id="the Responses API",
        ),
        pytest.param({"prompt": "Hi"}, "Hello", id="a completion"),
    ],
)  # fmt: skip
def test_what_a_model_was_sent_and_replied(given: Any, returned: Any) -> None:
    trace = read(span("m", "CHAT_MODEL", spanInputs=given, spanOutputs=returned))
    assert (trace.input, trace.output, trace.unread) == ("Hi", "Hello", {})


def test_calls_and_results_in_items_of_the_responses_api() -> None:
    request = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"x": 1}'}
    asked = [{"role": "user", "content": "Hi"}]
    told = {"type": "function_call_output", "call_id": "c1", "output": "Error: no such x"}
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    trace = read(
        span("m", "CHAT_MODEL", spanInputs={"input": asked}, spanOutputs={"output": [thought, request]}),
        span("n", "CHAT_MODEL", at=10, spanInputs={"input": [*asked, thought, request, told]}, spanOutputs="Hello"),
    )
    [call] = trace.tool_calls
    assert (call.name, call.arguments, call.error) == ("f", {"x": 1}, "Error: no such x")
    assert (trace.turns[0].reasoning, trace.output) == (("Hm.",), "Hello")


def test_a_models_name_tools_and_tokens() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    usage = {"input_tokens": 4, "output_tokens": 2, "total_tokens": 6}
    trace = read(span("m", "CHAT_MODEL", chat__tools=tools, chat__tokenUsage=usage, llm__model="m-1"))
    assert [(call.model, call.usage) for call in trace.model_calls] == [("m-1", Usage(input_tokens=4, output_tokens=2))]
    assert [tool.name for tool in trace.available_tools] == ["f"]


def test_names_that_are_not_an_agents_or_a_tools() -> None:
    trace = read(
        span("a", "AGENT", "Agent.run"),
        span("t", "TOOL", "f_2", parent="a", at=1, spanFunctionName="f"),
        span("u", "TOOL", "step_2", parent="a", at=2, spanFunctionName="step_2"),
    )
    assert (trace.agents, [call.name for call in trace.tool_calls]) == ((), ["f", "step_2"])


def test_a_langchain_tool_result_is_unwrapped_and_names_its_call() -> None:
    message = {"type": "tool", "content": "ok", "tool_call_id": "c1"}
    [call] = read(span("t", "TOOL", "f", spanInputs={"x": 1}, spanOutputs=message)).tool_calls
    assert (call.arguments, call.result, call.call_id) == ({"x": 1}, "ok", "c1")


_ASKED = {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Rome?"}]}
_CALLED = {
    "kind": "response",
    "parts": [{"part_kind": "tool-call", "tool_name": "forecast", "args": '{"city": "Rome"}', "tool_call_id": "c-1"}],
}
_REFUSED = {
    "kind": "request",
    "parts": [
        {"part_kind": "retry-prompt", "tool_name": "forecast", "tool_call_id": "c-1", "content": "Unknown tool name"}
    ],
}
_ANSWERED = {"kind": "response", "parts": [{"part_kind": "text", "content": "None for Rome."}]}


def test_pydantic_ai_s_messages_have_kinds_in_place_of_roles() -> None:
    trace = read(
        span("a", "AGENT", "Agent.run", spanInputs={"user_prompt": "Rome?"}, spanOutputs="{'_all_messages': []}"),
        span("b", "LLM", parent="a", at=1, spanInputs={"messages": [_ASKED]}, spanOutputs=_CALLED),
        span("c", "LLM", parent="a", at=2, spanInputs={"messages": [_ASKED, _CALLED, _REFUSED]}, spanOutputs=_ANSWERED),
    )
    assert (trace.input, trace.output) == ("Rome?", "None for Rome.")
    [call] = trace.tool_calls
    assert (call.name, call.arguments, call.error) == ("forecast", {"city": "Rome"}, "Unknown tool name")


def test_the_answer_of_autogen_s_agent_is_its_last_message() -> None:
    said = {"source": "user", "type": "TextMessage", "content": "Rome?"}
    answer = {"source": "bot", "type": "TextMessage", "content": "Sunny."}
    for returned in ({"messages": [said, answer], "stop_reason": None}, {"chat_message": answer, "inner_messages": []}):
        trace = read(span("a", "AGENT", spanInputs={"task": "Rome?"}, spanOutputs=returned))
        assert (trace.input, trace.output) == ("Rome?", "Sunny.")


def test_an_answer_stands_inside_the_end_of_llama_index_s_run() -> None:
    reply = {"role": "assistant", "blocks": [{"block_type": "text", "text": "Sunny."}]}
    assert read(span("a", "AGENT", spanOutputs={"result": {"response": reply}})).output == "Sunny."


@pytest.mark.parametrize(
    "text",
    [
        "<async_generator object chat.<locals>.wrap.<locals>.gen at 0x7fbc20af23e0>",
        "<coroutine object Flow._execute_method at 0x7f15e6e9a820>",
        "media_resolution=None code_execution_result=None text=''",
    ],
)
def test_an_object_is_no_answer(text: str) -> None:
    assert read(span("a", "AGENT", spanInputs={"task": "Rome?"}, spanOutputs=text)).output is None


def test_the_name_of_a_tool_is_that_of_its_object_where_the_span_is_named_after_a_method() -> None:
    tool = span("a", "TOOL", "FunctionTool.acall", spanInputs={"kwargs": {"city": "Rome"}}, spanOutputs={"_value": "5"})
    named = replace(tool, attributes={**tool.attributes, "name": '"get_weather"'})
    [call] = read(named).tool_calls
    assert (call.name, call.arguments, call.result) == ("get_weather", {"city": "Rome"}, "5")


def test_gemini_s_requests_and_responses_are_read() -> None:
    asked = {"parts": [{"text": "Rome?", "function_call": None}], "role": "user"}
    call = {
        "parts": [{"text": None, "function_call": {"id": None, "name": "f", "args": {"city": "Rome"}}}],
        "role": "model",
    }
    told = {"parts": [{"text": None, "function_response": {"name": "f", "response": {"result": "5"}}}], "role": "user"}
    answer = {"parts": [{"text": "Five.", "function_call": None}], "role": "model"}
    config = {"system_instruction": "Be brief."}
    trace = read(
        span("a", "CHAIN", "chat"),
        span("b", "LLM", parent="a", at=1, spanInputs={"contents": [asked], "config": config},
             spanOutputs={"candidates": [{"content": call}]}),
        span("c", "LLM", parent="a", at=9, spanInputs={"contents": [asked, call, told], "config": config},
             spanOutputs={"candidates": [{"content": answer}]}),
    )  # fmt: skip
    assert (trace.input, trace.output) == ("Rome?", "Five.")
    assert [(each.name, each.arguments) for each in trace.tool_calls] == [("f", {"city": "Rome"})]
