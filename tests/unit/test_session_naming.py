"""Sessions that no convention's attribute names: by the application's own attributes, as configured."""

from typing import Any

import pytest

from otel_agenteval.conventions.identity import BY_CONVENTION, SessionNaming
from otel_agenteval.conventions.trace_reader import read_trace
from tests.support.spans import agent, chat

BY_CHAT = SessionNaming(attributes=("chat.id", "ticket"))
BY_CUSTOMER = SessionNaming(link_by="customer.id")


@pytest.mark.parametrize(
    ("naming", "attributes", "resource", "expected"),
    [
        pytest.param(BY_CHAT, {"chat.id": "c-1"}, {}, "c-1", id="a configured attribute holds the id"),
        pytest.param(BY_CHAT, {"chat.id": 7}, {}, "7", id="the id is a number"),
        pytest.param(
            BY_CHAT, {"ticket": "t", "chat.id": "c"}, {}, "c", id="the first configured attribute stands first"
        ),
        pytest.param(BY_CHAT, {}, {"ticket": "t-1"}, "t-1", id="the id stands on the resource"),
        pytest.param(BY_CHAT, {"chat.id": "c", "session.id": "s"}, {}, "s", id="a convention's attribute comes before"),
        pytest.param(BY_CHAT, {"chat.id": "[Scrubbed due to 'chat']"}, {}, None, id="a scrubbed value is no id"),
        pytest.param(BY_CHAT, {"other": "x"}, {}, None, id="no attribute is there"),
        pytest.param(BY_CONVENTION, {"chat.id": "c-1"}, {}, None, id="nothing is configured"),
        pytest.param(BY_CUSTOMER, {"customer.id": "u"}, {"service.name": "shop"}, "shop/u", id="traces of one service"),
        pytest.param(BY_CUSTOMER, {"customer.id": "u"}, {}, "unknown_service/u", id="of a service without a name"),
        pytest.param(
            SessionNaming(attributes=("chat.id",), link_by="customer.id"),
            {"chat.id": "c", "customer.id": "u"},
            {"service.name": "shop"},
            "c",
            id="an id comes before a link",
        ),
    ],
)
def test_the_session_of_a_trace(
    naming: SessionNaming, attributes: dict[str, Any], resource: dict[str, Any], expected: str | None
) -> None:
    run, call = agent("a", "bot", resource=resource), chat("m", [], [], "a", at=1, attributes=attributes)
    assert read_trace("t", [run, call], naming=naming).session_id == expected


@pytest.mark.parametrize(
    "text", ["local", "undefined", "None", "NULL", " default ", "0", "00000000-0000-0000-0000-000000000000", "chat"]
)
@pytest.mark.parametrize("key", ["session.id", "gen_ai.conversation.id", "chat.id"])
def test_what_stands_in_place_of_an_id_is_none(key: str, text: str) -> None:
    naming = SessionNaming(attributes=("chat.id",), placeholders=frozenset(("chat",)))
    attributes: dict[str, Any] = {key: text, "other.key": "other"}
    assert read_trace("t", [chat("m", [], [], attributes=attributes)], naming=naming).session_id is None
    attributes["session.id"] = "s-1"
    assert read_trace("t", [chat("m", [], [], attributes=attributes)], naming=naming).session_id == "s-1"


@pytest.mark.parametrize(
    "key",
    [
        *("ai.settings.context.sessionId", "spring.ai.chat.client.conversation.id", "mastra.metadata.sessionId"),
        *("thread_id", "app.ThreadId", "my_framework.session_id", "agent.session-id", "copilot_chat.session_id"),
    ],
)
def test_an_attribute_that_is_called_like_a_sessions_id_is_one(key: str) -> None:
    assert read_trace("t", [chat("m", [], [], attributes={key: "s-1"})]).session_id == "s-1"


@pytest.mark.parametrize(
    "key",
    [
        *("thread.id", "mcp.session.id", "http.session.id", "db.session_id", "gen_ai.response.id", "browser.sessionId"),
        *("session.idle", "sessions.ids", "session_id_hash", "obsession.identity"),
    ],
)
def test_other_ids_are_no_sessions(key: str) -> None:
    assert read_trace("t", [chat("m", [], [], attributes={key: "s-1"})]).session_id is None


def test_two_ids_of_that_kind_name_no_session() -> None:
    attributes = {"a.session_id": "s-1", "b.session_id": "s-2"}
    assert read_trace("t", [chat("m", [], [], attributes=attributes)]).session_id is None
    attributes["b.session_id"] = "s-1"
    assert read_trace("t", [chat("m", [], [], attributes=attributes)]).session_id == "s-1"
    attributes["session.id"] = "s-3"
    assert read_trace("t", [chat("m", [], [], attributes=attributes)]).session_id == "s-3"


def test_an_id_that_was_written_as_json_is_unwrapped() -> None:
    assert read_trace("t", [chat("m", [], [], attributes={"session.id": '"s-1"'})]).session_id == "s-1"
