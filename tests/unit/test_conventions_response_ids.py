"""Ids of single responses name no session: each turn would be one."""

from typing import Any

import pytest

from otel_agenteval.conventions.spans import span_record
from otel_agenteval.conventions.trace_reader import read_trace
from tests.support.otlp import span, trace_id

OF_OPENAI = "resp_68af4030592c81938ec0a5fbab4a3e9f05438e46b5f69a3b"


def session_of(**attributes: Any) -> str | None:
    call = span(1, 1, gen_ai__operation__name="chat", gen_ai__request__model="small", **attributes)
    return read_trace(trace_id(1).hex(), [span_record(call, {}, "lib")]).session_id


@pytest.mark.parametrize(
    ("session", "response", "expected"),
    [
        pytest.param("r-1", "r-1", None, id="the id of the response itself"),
        pytest.param("r-1", "r-2", "r-1", id="another id"),
        pytest.param(OF_OPENAI, None, None, id="that of an earlier response, by its form"),
        pytest.param("chatcmpl-BxyzAbCdEfGhIjKlMnOpQrStUvWx", None, None, id="that of a completion"),
        pytest.param("msg_01XFDUDYJgAACzvnptvVoYEL", None, None, id="that of a message"),
        pytest.param("resp_team", None, "resp_team", id="a name that only begins like one"),
        pytest.param("msg_board", None, "msg_board", id="another"),
    ],
)
def test_a_session_is_checked_against_ids_of_responses(
    session: str, response: str | None, expected: str | None
) -> None:
    answered = {} if response is None else {"gen_ai__response__id": response}
    assert session_of(gen_ai__conversation__id=session, **answered) == expected


def test_the_next_attribute_that_names_a_session_counts() -> None:
    assert session_of(gen_ai__conversation__id="r-1", gen_ai__response__id="r-1", session__id="s-1") == "s-1"
