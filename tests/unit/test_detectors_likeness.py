"""Two results of the same call that tell the same are alike, whatever times, ids and envelopes are in them."""

import json
from typing import Any

import pytest

from otel_agenteval.detectors.likeness import (
    Likeness,
    Result,
    call_key,
    likeness,
    likeness_whatever_asked,
    moves_on,
    without_echoes,
)

PAGE = "To change the code of your card open the app, choose Cards, then Security, and follow the steps on the screen. "

BOOK = " ".join(
    f"{size} {colour} {animal}"
    for size in ("small", "great", "tall", "thin")
    for colour in ("red", "green", "blue")
    for animal in ("fin", "gul", "hep", "dom")
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"took": 3, "hits": []}, {"took": 9, "hits": []}, id="Elasticsearch"),
        pytest.param({"ok": True, "ts": "1769.001"}, {"ok": True, "ts": "1770.2"}, id="Slack"),
        pytest.param({"results": [1], "response_time": 1.2}, {"results": [1], "response_time": 0.7}, id="Tavily"),
        pytest.param({"rows": [], "request_id": "req_1"}, {"rows": [], "request_id": "req_2"}, id="a request's id"),
        pytest.param('{"a": 1, "checkedAt": "x"}', '{"checkedAt": "y", "a": 1}', id="JSON as text"),
        pytest.param("12 passed in 0.31s", "12 passed in 1.07s", id="a test run"),
        pytest.param("Finished in 1.2s", "Finished in 900 ms", id="a build"),
        pytest.param("2026-11-26 10:00:01 INFO up", "2026-11-26 10:00:09 INFO up", id="a log"),
        pytest.param({"a": [{"trace-id": 1, "b": 2}]}, {"a": [{"trace-id": 5, "b": 2}]}, id="at any depth"),
        pytest.param([{"type": "text", "text": "none"}], {"content": [{"type": "text", "text": "none"}]}, id="MCP"),
    ],
)
def test_these_tell_the_same(one: Any, other: Any) -> None:
    assert likeness(Result(one), Result(other)) is Likeness.SAME


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("10:04:05", "11:59:00", id="a clock"),
        pytest.param({"id": 7, "name": "a"}, {"id": 8, "name": "a"}, id="another id of the same"),
        pytest.param("3 failed, 6 passed of all", "2 failed, 7 passed of all", id="other numbers"),
        pytest.param(BOOK, BOOK.replace("red fin", "rod fin"), id="a page with letters that were read wrongly"),
    ],
)
def test_these_nearly_do(one: Any, other: Any) -> None:
    assert likeness(Result(one), Result(other)) is Likeness.NEAR


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param([{"n": "a"}], [{"n": "a"}, {"n": "b"}], id="one more"),
        pytest.param({"id": 7}, {"id": 8}, id="ids alone"),
        pytest.param("chunk 8f3a11c09b2d", "chunk 17c0aa42d9e1", id="a text that is mostly an id"),
        pytest.param("red", "green", id="another word"),
        pytest.param(BOOK, f"{BOOK} The end of it.", id="a page that has grown"),
        pytest.param({"cursor": "aaa1", "items": []}, {"cursor": "bbb2", "items": []}, id="the next page"),
    ],
)
def test_these_do_not(one: Any, other: Any) -> None:
    assert likeness(Result(one), Result(other)) is Likeness.OTHER


def test_the_same_content_for_another_question_may_repeat_that_question() -> None:
    one, other = (
        Result(f'{{"query": "{asked}", "took": {took}, "answer": "{PAGE}"}}', f'{{"query": "{asked}"}}')
        for asked, took in (("pin", 3), ("code", 8))
    )
    assert likeness_whatever_asked(one, other) is Likeness.SAME


def test_a_number_that_rises_moves_on() -> None:
    assert moves_on([Result(f"{percent} % of all are done") for percent in (10, 20, 40)])
    assert not moves_on([Result(f"{percent} % of all are done") for percent in (10, 20, 10)])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a": 1, "b": "x"}', '{"b":"x","a":1.0}', True),
        ('{"a": {"x": 1, "y": 2}}', '"{\\"a\\": {\\"y\\": 2, \\"x\\": 1}}"', True),
        ('{"q": "SELECT 1;"}', '{"q": "select  1"}', True),
        ('{"q": "a", "attempt": 1}', '{"q": "a", "attempt": 2}', True),
        ('{"q": "a", "reasoning": "first"}', '{"q": "a", "reasoning": "second"}', True),
        ('{"thought": "first"}', '{"thought": "second"}', False),
        ('{"at": [1, 2]}', '{"at": [2, 1]}', False),
        ('{"a": 1}', '{"a": "1"}', False),
    ],
)
def test_which_arguments_are_the_same(one: str, other: str, same: bool) -> None:
    assert (call_key(one) == call_key(other)) is same


def test_an_error_is_told_apart_without_what_was_asked_for() -> None:
    one, other = (without_echoes(f"cannot write {path}", f'{{"path": "{path}"}}') for path in ("/etc/a", "/etc/b.conf"))
    assert one == other


def test_odd_values_do_no_harm() -> None:
    deep: Any = []
    for _ in range(3000):
        deep = [deep]
    odd = (7, True, "", "{", "[" * 50_000, deep, json.dumps({"a": "x" * 100_000}), "\ud800", "a-" * 5000, '"a":' * 999)
    results = [Result(value, "{") for value in odd]
    for one in results:
        for other in results:
            likeness(one, other)
            likeness_whatever_asked(one, other)
