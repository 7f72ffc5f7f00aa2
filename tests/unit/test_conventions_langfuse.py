"""Langfuse: observations of functions and of generations."""

import json
from typing import Any

import pytest

from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import Trace, Usage


def span(
    span_id: str,
    kind: str,
    given: Any = None,
    returned: Any = None,
    parent: str | None = None,
    at: int = 0,
    **more: Any,
) -> SpanRecord:
    attributes: dict[str, Any] = {"langfuse.observation.type": kind}
    for key, value in (("input", given), ("output", returned)):
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value)
            attributes[f"langfuse.observation.{key}"] = text
    attributes |= {f"langfuse.{key.replace('__', '.')}": value for key, value in more.items()}
    return SpanRecord(
        span_id=span_id, parent_id=parent, name="bot", started_at=at, ended_at=at + 5, attributes=attributes
    )


def read(*spans: SpanRecord) -> Trace:
    return read_trace("t", spans)


def called(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"args": list(args), "kwargs": kwargs}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(called("Hi"), "Hi", id="the only argument"),
        pytest.param(called(question="Hi"), "Hi", id="an argument that is named so"),
        pytest.param(called("s-1", "Hi"), None, id="one of several texts, and nothing says which"),
        pytest.param(called([{"role": "user", "content": "Hi"}]), "Hi", id="messages"),
        pytest.param("Hi", "Hi", id="text that was set as the input"),
        pytest.param(called(), None, id="no argument"),
        pytest.param('{"args": ["H', None, id="cut in the middle"),
    ],
)
def test_what_an_agent_was_asked(given: Any, expected: str | None) -> None:
    assert read(span("a", "agent", given)).input == expected


def test_a_traces_own_input_and_output_come_before_those_of_a_function() -> None:
    trace = read(span("a", "agent", called("s-1", "x"), {"ok": 1}, trace__input="Hi", trace__output="Hello"))
    assert (trace.input, trace.output, trace.agents) == ("Hi", "Hello", ("bot",))


@pytest.mark.parametrize(
    ("given", "returned"),
    [
        pytest.param([{"role": "user", "content": "Hi"}], {"role": "assistant", "content": "Hello"}, id="messages"),
        pytest.param({"tools": [], "messages": [{"role": "user", "content": "Hi"}]}, "Hello", id="with tools"),
        pytest.param(
            {"input": "Hi", "instructions": "Be brief."},
            [{"type": "reasoning", "summary": []},
             {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}],
            id="items of the Responses API",
        ),
        pytest.param("Hi", "Hello", id="plain text"),
    ],
)  # fmt: skip
def test_what_a_generation_was_sent_and_replied(given: Any, returned: Any) -> None:
    trace = read(span("m", "generation", given, returned))
    assert (trace.input, trace.output) == ("Hi", "Hello")


def test_a_generations_model_tokens_tools_and_failure() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    trace = read(
        span(
            "m",
            "generation",
            {"tools": tools, "messages": [{"role": "user", "content": "Hi"}]},
            observation__model__name="m-1",
            observation__usage_details='{"input": 4, "output": 2, "total": 6}',
        )
    )
    [call] = trace.model_calls
    assert (call.model, call.usage) == ("m-1", Usage(input_tokens=4, output_tokens=2))
    assert [tool.name for tool in trace.available_tools] == ["f"]


def test_a_tool_fails_by_its_level_alone() -> None:
    tool = span("t", "tool", called(x=1), observation__level="ERROR", observation__status_message="no such x")
    [call] = read(tool).tool_calls
    assert (call.arguments, call.error) == ({"x": 1}, "no such x")


def test_a_helper_that_takes_and_returns_text_is_no_turn() -> None:
    trace = read(
        span("r", "span", called(1, 2), {"n": 1}),
        span("h", "span", called("Lisbon"), "a city", "r", at=1),
        span("m", "generation", [{"role": "user", "content": "Hi"}], "Hello", "r", at=10),
    )
    assert [(turn.input, turn.output) for turn in trace.turns] == [("Hi", "Hello")]


def test_a_cut_request_says_nothing_of_the_users_words() -> None:
    trace = read(span("m", "generation", '{"messages": [{"role": "user", "content": "Hi"}, {"role": "us', "Hello"))
    assert (trace.input, trace.output, trace.partial) == (None, "Hello", True)


def test_tools_that_are_listed_as_messages_are_offered_and_nothing_was_said_by_them() -> None:
    tool = {"role": "tool", "content": {"type": "function", "function": {"name": "f"}}}
    trace = read(span("m", "generation", [{"role": "user", "content": "Hi"}, tool], "Hello"))
    assert ([each.name for each in trace.available_tools], trace.tool_calls, trace.input) == (["f"], (), "Hi")


@pytest.mark.parametrize(
    ("counted", "usage"),
    [
        pytest.param(
            {"input": 20, "output": 5, "total": 127, "input_cached_tokens": 100, "output_reasoning_tokens": 2},
            Usage(input_tokens=120, output_tokens=7, cache_read_tokens=100, reasoning_tokens=2),
            id="OpenAI's client",
        ),
        pytest.param(
            {"input": 20, "output": 5, "total": 127, "input_cache_read": 100, "output_reasoning": 2},
            Usage(input_tokens=120, output_tokens=7, cache_read_tokens=100, reasoning_tokens=2),
            id="LangChain",
        ),
        pytest.param(
            {"input": 120, "output": 7, "total": 127, "input_cached_tokens": 100},
            Usage(input_tokens=120, output_tokens=7, cache_read_tokens=100),
            id="parts within the input",
        ),
        pytest.param(
            {"input": 120, "output": 7, "total": 127}, Usage(input_tokens=120, output_tokens=7), id="no parts"
        ),
    ],
)
def test_parts_that_make_the_total_together_are_parts_of_input_and_output(
    counted: dict[str, int], usage: Usage
) -> None:
    recorded = json.dumps(counted)
    trace = read(span("m", "generation", "Hi", "Hello", observation__usage_details=recorded))
    assert [call.usage for turn in trace.turns for call in turn.model_calls] == [usage]


def test_the_result_of_a_tool_of_langchain_for_javascript_is_in_its_message() -> None:
    fields = {"status": "error", "content": "no such city", "tool_call_id": "c1", "name": "get_weather"}
    message = {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "ToolMessage"], "kwargs": fields}
    for recorded in (message, {"output": message}):
        trace = read(span("a", "agent", "Hi", "Hello"), span("t", "tool", {"city": "X"}, recorded, parent="a", at=1))
        assert [(c.result, c.error, c.call_id) for turn in trace.turns for c in turn.tool_calls] == [
            ("no such city", "no such city", "c1")
        ]
