"""A trace's first model call tells of the conversation before."""

from typing import Any

import pytest

from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import Json
from tests.support.spans import chat, user


def said(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


INSTRUCTIONS = said("system", text("Be brief."))
ASKED = said("assistant", {"type": "tool_call", "id": "c1", "name": "find", "arguments": {"q": "9999"}})
FOUND = said("tool", {"type": "tool_call_response", "id": "c1", "response": {"order": 7731}})
ANSWERED = said("assistant", text("It is on its way."))


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param([user("Hello")], (), id="a first question"),
        pytest.param([INSTRUCTIONS, user("Hello")], (), id="a first question with instructions"),
        pytest.param(
            [INSTRUCTIONS, user("My order?"), ASKED, FOUND, ANSWERED, user("Cancel it")],
            ("My order?", {"order": 7731}, "It is on its way.", "Cancel it"),
            id="a later question: texts and results, but no instructions and arguments",
        ),
        pytest.param([], (), id="nothing"),
    ],
)
def test_history_is_what_the_first_model_call_was_sent(sent: list[Any], expected: tuple[Json, ...]) -> None:
    reply = [said("assistant", text("Done."))]
    spans = [chat("s1", sent, reply), chat("s2", [*sent, *reply, user("and again")], reply, at=20)]
    assert read_trace("t", spans).history == expected
