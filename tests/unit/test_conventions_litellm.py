"""LiteLLM: requests of tools apart from the reply, thoughts only in the raw response."""

from typing import Any

import pytest

from otel_agenteval.conventions import SpanRecord, read_trace
from tests.support.spans import answer, chat, told, user


def call(span_id: str, sent: list[Any], received: list[Any], at: int = 0, *requests: tuple[str, str]) -> SpanRecord:
    apart = {
        f"gen_ai.completion.{index}.function_call.{key}": value
        for index, request in enumerate(requests)
        for key, value in zip(("name", "arguments"), request, strict=True)
    }
    return chat(span_id, sent, received, at=at, attributes={"litellm.call_id": "x", **apart})


def raw(choices: str) -> SpanRecord:
    return SpanRecord(span_id="r", parent_id="m", started_at=1, ended_at=2, attributes={"llm.openai.choices": choices})


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
