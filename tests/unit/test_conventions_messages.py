"""Content: what is made of messages, and of how many of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.messages import ChatMessage
from otel_agenteval.model import Json

SAID: Json = {"role": "user", "content": "Where is it?"}
ASKED: Json = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "look", "arguments": "{}"}}]}
TOLD: Json = {"role": "tool", "tool_call_id": "1", "content": "Lost."}
BLANK: Json = {"role": "user", "content": " "}
UNREADABLE: Json = {"nobody": 1}
HISTORIES = st.lists(st.sampled_from([SAID, ASKED, TOLD, BLANK, UNREADABLE]), max_size=8)


def messages(history: list[Json]) -> list[ChatMessage]:
    return Content(lambda: history).messages


@given(HISTORIES, st.booleans())
def test_the_parts_of_a_content_are_those_of_its_messages(history: list[Json], all_first: bool) -> None:
    everything = messages(history)
    content = Content(lambda: history)
    if all_first:
        assert content.messages == everything
    last = max((index for index, each in enumerate(everything) if each.role == "user" and each.texts), default=-1)
    assert content.since_user() == everything[last + 1 :]
    assert content.before_user() == everything[: max(0, last)]
    assert content.first() == (everything[0] if everything else None)
    assert content.user_text() == ("Where is it?" if last >= 0 else None)
    assert content.messages == everything
    assert content.unread == history.count(UNREADABLE)


def test_of_a_history_only_what_is_asked_for_is_read() -> None:
    content = Content(lambda: [ASKED, UNREADABLE, SAID, UNREADABLE, TOLD])
    assert content.first() == messages([ASKED])[0]
    assert content.unread == 0
    assert content.since_user() == messages([TOLD])
    assert content.unread == 1
    assert content.since_user() == messages([TOLD])
    assert content.unread == 1
    assert len(content.messages) == 3
    assert content.unread == 2


def test_the_last_message_of_a_cut_recording_loses_its_last_part_once() -> None:
    cut = Content(lambda: [SAID, ASKED], cut=True)
    assert [len(each.requests) for each in cut.since_user()] == [0]
    assert cut.first() == messages([SAID])[0]
    assert [len(each.requests) for each in cut.messages] == [0, 0]


@pytest.mark.parametrize(
    ("request_id", "call_id"),
    [
        pytest.param("fc_call_1", "call_1", id="the item's id holds that of the call"),
        pytest.param("fc_68b3", "fc_68b3", id="the item's id is of its own"),
        pytest.param("call_1", "call_1", id="the call's id"),
    ],
)
def test_a_request_has_the_id_that_results_name(request_id: str, call_id: str) -> None:
    part = {"type": "tool_call", "id": request_id, "name": "look", "arguments": {}}
    [message] = messages([{"role": "assistant", "parts": [part]}])
    assert [each.call_id for each in message.requests] == [call_id]
