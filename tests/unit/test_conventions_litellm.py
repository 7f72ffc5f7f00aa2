"""LiteLLM: requests of tools apart from the reply, thoughts only in the raw response."""

from typing import Any

import pytest

from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from tests.support.spans import answer, chat, told, user


def call(span_id: str, sent: list[Any], received: list[Any], at: int = 0, *requests: tuple[str, str]) -> SpanRecord:
    apart = {
        f"gen_ai.completion.{index}.function_call.{key}": value
        for index, request in enumerate(requests)
        for key, value in zip(("name", "arguments"), request, strict=True)
    }
    return chat(span_id, sent, received, at=at, name="litellm_request", attributes={"litellm.call_id": "x", **apart})


def raw(choices: str, span_id: str = "r", at: int = 1, messages: str | None = None) -> SpanRecord:
    attributes = {"llm.openai.choices": choices, "llm.openai.id": span_id, "llm.openai.model": "gpt"}
    attributes |= {} if messages is None else {"llm.openai.messages": messages}
    return SpanRecord(span_id=span_id, parent_id="m", started_at=at, ended_at=at + 1, attributes=attributes)


def test_requests_belong_to_the_reply_that_stands_apart_from_them() -> None:
    first = call("m", [user("Hi")], [answer("Plan: f, then g.")], 0, ("f", '{"x": 1}'), ("g", "{}"))
    then = call("n", [user("Hi"), told("one", "c1"), told("two", "c2")], [answer("Done.")], 20)
    trace = read_trace("t", [first, then])
    assert [(each.name, each.arguments, each.result) for each in trace.tool_calls] == [
        ("f", {"x": 1}, "one"),
        ("g", {}, "two"),
    ]
    assert (trace.turns[0].plan, trace.output) == (("Plan: f, then g.",), "Done.")


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        pytest.param("[{'message': {'content': 'Hello', 'reasoning_content': 'Hm.'}}]", ("Hm.",), id="a thought"),
        pytest.param("[{'message': {'content': 'Hello', 'reasoning_content': None}}]", (), id="no thought"),
        pytest.param("[{'message': 'reasoning_content'}]", (), id="no message"),
        pytest.param("[{'message': {'reasoning_content': 'H", (), id="cut in the middle"),
    ],
)
def test_the_raw_response_within_a_call_is_the_same_call(choices: str, expected: tuple[str, ...]) -> None:
    trace = read_trace("t", [call("m", [user("Hi")], [answer("Hello")]), raw(choices)])
    assert (trace.output, trace.turns[0].reasoning, len(trace.model_calls)) == ("Hello", expected, 1)


def test_calls_that_were_written_over_one_another_are_read_from_what_stands_within() -> None:
    last = chat("m", [user("Hi"), told("r", "c1")], [answer("Done.")], until=50, name="POST /chat")
    last.attributes = {**last.attributes, "litellm.call_id": "x", "gen_ai.completion.0.function_call.name": "f"}
    request = "{'id': 'c1', 'function': {'name': 'f', 'arguments': '{\"x\": 1}'}}"
    first = raw(
        f"[{{'message': {{'role': 'assistant', 'content': None, 'tool_calls': [{request}]}}}}]",
        "r1", 1, "[{'role': 'user', 'content': 'Hi'}]",
    )  # fmt: skip
    second = raw(
        "[{'message': {'role': 'assistant', 'content': 'Done.'}}]",
        "r2", 20, "[{'role': 'user', 'content': 'Hi'}, {'role': 'tool', 'tool_call_id': 'c1', 'content': 'r'}]",
    )  # fmt: skip
    trace = read_trace("t", [last, first, second])
    assert (trace.input, trace.output, [each.span_id for each in trace.model_calls]) == ("Hi", "Done.", ["r1", "r2"])
    assert [(each.name, each.arguments, each.result) for each in trace.tool_calls] == [("f", {"x": 1}, "r")]


def test_a_span_that_one_call_was_written_on_is_that_call() -> None:
    only = chat("m", [user("Hi")], [answer("Hello")], until=50, name="POST /chat")
    only.attributes = {**only.attributes, "litellm.call_id": "x"}
    trace = read_trace("t", [only, raw("[{'message': {'role': 'assistant', 'content': 'Hello'}}]")])
    assert (trace.output, [each.span_id for each in trace.model_calls]) == ("Hello", ["m"])
