"""A streamed reply is read once, however many chunks of it were written down."""

from typing import Any

import pytest

from otel_agenteval.conventions.trace_reader import read_trace
from tests.support.spans import answer, asks, chat, user


def chunk(message: dict[str, Any], reason: str = "") -> dict[str, Any]:
    return {**message, "finish_reason": reason}


@pytest.mark.parametrize(
    ("received", "expected"),
    [
        pytest.param(
            [chunk(answer("Hel")), chunk(answer("lo")), chunk(answer("Hello"), "stop")],
            "Hello",
            id="chunks and the whole",
        ),
        pytest.param([chunk(answer("Hel")), chunk(answer("lo"), "stop")], "Hello", id="the last chunk ends it"),
        pytest.param([chunk(answer("Hel")), chunk(answer("lo"))], "Hello", id="a stream that was left"),
        pytest.param([answer("Hello"), answer("You")], "Hello\nYou", id="messages are no chunks"),
        pytest.param([chunk(answer("Hello"), "stop"), chunk(answer("You"), "stop")], "Hello\nYou", id="or choices"),
        pytest.param([chunk(answer("")), chunk(answer("Hello"), "stop")], "Hello", id="an empty chunk"),
        pytest.param([chunk({"role": 1}), "odd", chunk(answer("Hello"), "stop")], "Hello", id="hostile chunks"),
        pytest.param([chunk({"role": 1})], None, id="nothing that can be read"),
    ],
)
def test_chunks_are_one_reply(received: list[Any], expected: str | None) -> None:
    assert read_trace("t", [chat("m", [user("Hi")], received)]).output == expected


def test_a_call_that_was_streamed_is_asked_for_once() -> None:
    received = [chunk(asks("f", None, "c1")), chunk(asks("f", {"x": 1}, "c1"), "stop")]
    trace = read_trace("t", [chat("m", [user("Hi")], received)])
    assert [(each.name, each.arguments) for each in trace.tool_calls] == [("f", {"x": 1})]
