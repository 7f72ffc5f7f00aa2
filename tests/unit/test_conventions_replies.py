"""Replies that were recorded empty stand in what the next model call was sent."""

from typing import Any

import pytest

from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import Turn
from tests.support.spans import answer, asks, chat, failed, told, user

EMPTY: list[Any] = [{"role": "assistant"}]


def turn(*spans: Any) -> Turn:
    return read_trace("t", spans).turns[-1]


def test_the_calls_of_an_empty_reply_are_those_that_the_next_call_was_sent() -> None:
    sent = [user("Hi")]
    step = [asks("f", {"x": 1}), told("one")]
    found = turn(
        chat("m1", sent, EMPTY, at=1),
        chat("m2", sent + step, EMPTY, at=20),
        chat("m3", [*sent, *step, asks("g", {}, text="Now g."), told("Error: no")], [answer("Bye")], at=40),
    )
    assert [(call.name, call.arguments, call.result, call.error) for call in found.tool_calls] == [
        ("f", {"x": 1}, "one", None),
        ("g", {}, "Error: no", "Error: no"),
    ]
    assert (found.plan, found.output) == (("Now g.",), "Bye")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(
            chat("m1", [user("Hi")], EMPTY, at=1),
            chat("m2", [user("Hi"), asks("f", {}), told("1"), user("And?")], [answer("Bye")], at=20),
            id="before the user's last words stands history",
        ),
        pytest.param(
            chat("m1", [user("Sum this up")], EMPTY, at=1),
            chat("m2", [user("Hi"), asks("f", {}), told("1")], [answer("Bye")], at=20),
            id="the next call is of another conversation",
        ),
        pytest.param(
            failed(chat("m1", [user("Hi")], EMPTY, at=1), "overloaded"),
            chat("m2", [user("Hi"), asks("f", {}), told("1")], [answer("Bye")], at=20),
            id="a call that failed gave no reply",
        ),
        pytest.param(
            chat("m1", [user("Hi")], EMPTY, at=1),
            chat("m2", [user("Hi")], [answer("Bye")], at=20),
            id="the next call was sent nothing more",
        ),
    ],
)
def test_what_is_no_reply_of_the_call_is_not_taken_for_one(first: Any, second: Any) -> None:
    found = turn(first, second)
    assert (found.tool_calls, found.output) == ((), "Bye")


def test_a_recorded_reply_stands() -> None:
    sent = [user("Hi")]
    found = turn(
        chat("m1", sent, [asks("f", {"x": 1})], at=1),
        chat("m2", [*sent, asks("f", {"x": 2}), told("1")], [answer("Bye")], at=20),
    )
    assert [call.arguments for call in found.tool_calls] == [{"x": 1}]


def test_an_answer_that_a_model_gives_by_calling_a_tool_is_the_answer() -> None:
    found = turn(
        chat("m1", [user("Hi")], [asks("f", {}, "c1")], at=1),
        chat(
            "m2", [user("Hi"), asks("f", {}, "c1"), told("21", "c1")], [asks("final_answer", {"answer": "21"})], at=20
        ),
    )
    assert (found.output, [call.name for call in found.tool_calls]) == ("21", ["f"])
    unread = turn(chat("m", [user("Hi")], [asks("final_answer", {"answer": {"text": "21"}})]))
    assert unread.output is None
