"""Messages that several recordings begin with, read once and shared."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.input_cache import InputCache
from otel_agenteval.conventions.messages import ASSISTANT, USER, ChatMessage
from otel_agenteval.conventions.trace_reader import read_trace
from tests.support.spans import agent, answer, asks, chat, user

MESSAGES = st.one_of(
    st.sampled_from(["Hi", "What? \u00e9 \ud83d", ""]).map(user),
    st.sampled_from(["Fine.", "Fine.\n"]).map(answer),
    st.just(asks("find", {"city": "Rome"}, "call-1")),
    st.just({"role": "tool", "tool_call_id": "call-1", "content": "found"}),
    st.just({"role": "system", "content": "Be brief."}),
    st.sampled_from([1, None, "words", [], {"a": [1, {"b": "]"}]}]),
)
BRANCHES = st.lists(st.tuples(st.integers(0, 5), st.lists(MESSAGES, max_size=4)), min_size=2, max_size=6)
"""Conversations, each of which goes on from the beginning of an earlier one."""


def grown(branches: list[tuple[int, list[Any]]]) -> list[list[Any]]:
    found: list[list[Any]] = [[]]
    for back, more in branches:
        found.append([*found[-1 - back % len(found)], *more])
    return found


def said(content: Content) -> Any:
    """All that is asked of content, in an order in which the ends come first."""
    return (
        content.answer(), content.user_text(), content.since_user(), content.before_user(), content.first(),
        content.messages, content.unread,
    )  # fmt: skip


@given(BRANCHES, st.sampled_from([None, (",", ":"), (", ", ": ")]), st.booleans())
def test_what_is_shared_is_read_as_what_stands_alone(branches: Any, separators: Any, cut: bool) -> None:
    texts = [json.dumps(each, separators=separators) for each in grown(branches)]
    texts = [text[:-3] if cut and number % 3 == 2 else text for number, text in enumerate(texts)]
    contents = [Content.recorded_as(text, USER) for text in texts]
    for content, earlier in zip(contents[1:], contents, strict=False):
        content.go_on_from(earlier)
    assert [said(each) for each in contents] == [said(Content.recorded_as(text, USER)) for text in texts]
    for content in contents:
        content.begin_again()
    assert [said(each) for each in contents] == [said(Content.recorded_as(text, USER)) for text in texts]


@given(BRANCHES, st.sampled_from([0, 2_000, 1 << 20]))
def test_a_session_is_read_as_each_of_its_traces_alone(branches: Any, max_bytes: int) -> None:
    input_cache = InputCache(max_bytes)
    conversations = grown(branches)
    for number, (sent, more) in enumerate(pairwise(conversations)):
        spans = [
            agent("a", "bot", attributes={"session.id": "s"}),
            chat("m1", sent, [answer("Fine.")], "a", 1),
            chat("m2", more, [answer("Yes.")], "a", 2),
        ]
        assert read_trace(str(number), spans, input_cache=input_cache) == read_trace(str(number), spans)


def test_messages_are_made_once() -> None:
    sent: list[Any] = [user("Hi")]
    contents: list[Content] = []
    for _ in range(3):
        content = Content.recorded_as(json.dumps(sent), USER)
        if contents:
            content.go_on_from(contents[-1])
        contents.append(content)
        sent += [answer("Fine."), user("And?")]
    first, second, third = (each.messages for each in contents)
    assert [len(first), len(second), len(third)] == [1, 3, 5]
    assert all(one is other for one, other in zip(third, second, strict=False))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[1", '[1,{"role":"user","content":"Hi"}]'),
        ('["a"]', '["a" ,"b"]'),
        ('{"messages":[]}', '{"messages":[],"a":1}'),
        ("[{]", '[{,{"role":"user","content":"Hi"}]'),
    ],
)
def test_what_does_not_go_on_is_read_alone(before: str, after: str) -> None:
    earlier, content = Content.recorded_as(before, USER), Content.recorded_as(after, ASSISTANT)
    content.go_on_from(earlier)
    assert said(content) == said(Content.recorded_as(after, ASSISTANT))


def test_a_message_that_says_the_same_twice_is_two() -> None:
    content = Content.recorded_as(json.dumps([user("Hi"), user("Hi")]), USER)
    content.go_on_from(Content.recorded_as(json.dumps([user("Hi")]), USER))
    assert content.messages == 2 * [ChatMessage(role=USER, texts=["Hi"])]
