"""Chat completions: what is read of responses that are hostile or broken, as the openai client hands them on."""

import json
from typing import Any

import pytest
from agenteval_collector.judge.client.completions import read
from agenteval_collector.judge.ports import JudgeReply
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion

from tests.support.judge.behaviours import Behaviour
from tests.support.judge.judge_server import JudgeServer
from tests.support.judge_client import described, run


def response(**parts: Any) -> dict[str, Any]:
    message = {"content": "{}"}
    whole = {"model": "m-1", "choices": [{"message": message, "finish_reason": "stop"}], "usage": {}} | parts
    decoded: dict[str, Any] = json.loads(json.dumps(whole))
    return decoded


ASKED = "asked"
HALF_MEASURED = JudgeReply(model="m-1", text="{}", input_tokens=3)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(response(), JudgeReply(model="m-1", text="{}"), id="without usage"),
        pytest.param(
            response(usage={"prompt_tokens": 3, "completion_tokens": 4}),
            JudgeReply(model="m-1", text="{}", input_tokens=3, output_tokens=4),
            id="with usage",
        ),
        pytest.param(
            response(usage={"prompt_tokens": "3"}), JudgeReply(model="m-1", text="{}"), id="usage that is no number"
        ),
        pytest.param(response(usage="lots"), JudgeReply(model="m-1", text="{}"), id="usage that is none"),
        pytest.param(response(model=7), JudgeReply(model=ASKED, text="{}"), id="a model without a name"),
        *(
            pytest.param(
                response(usage={"prompt_tokens": 3, "completion_tokens": strange}), HALF_MEASURED, id=f"{strange!r}"
            )
            for strange in (4.0, "4", True, 1e300, [4])
        ),
        pytest.param(
            response(model="\x1b[31mm\ud800\u202e-\n1"),
            JudgeReply(model="[31mm-1", text="{}"),
            id="a name with controls",
        ),
        pytest.param(response(model="\n"), JudgeReply(model=ASKED, text="{}"), id="a name of controls alone"),
        pytest.param(response(model="m" * 999), JudgeReply(model="m" * 200, text="{}"), id="a long name"),
        pytest.param(response(choices=[]), JudgeReply(model="m-1"), id="no choices"),
        pytest.param(response(choices={"0": {}}), JudgeReply(model="m-1"), id="choices that are no list"),
        pytest.param(response(choices=[{"text": "{}"}]), JudgeReply(model="m-1"), id="no message"),
        pytest.param(response(choices=[{"message": {}}]), JudgeReply(model="m-1"), id="no content"),
        pytest.param(response(choices=[{"message": {"content": None}}]), JudgeReply(model="m-1"), id="null"),
        pytest.param(response(choices=[{"message": {"content": {"a": 1}}}]), JudgeReply(model="m-1"), id="no text"),
        pytest.param(
            response(choices=[{"message": {"content": None, "refusal": "no"}}]),
            JudgeReply(model="m-1", declined="refusal"),
            id="refusal",
        ),
        pytest.param(
            response(choices=[{"message": {"content": "{}", "refusal": ""}}]),
            JudgeReply(model="m-1", text="{}"),
            id="an empty refusal is none",
        ),
        pytest.param(
            response(choices=[{"message": {"content": "{"}, "finish_reason": "content_filter"}]),
            JudgeReply(model="m-1", text="{", declined="content_filter"),
            id="filtered",
        ),
        pytest.param(response(error={"code": 500}), JudgeReply(model="m-1", text="{}"), id="an error beside an answer"),
    ],
)
def test_what_is_read_of_a_response(document: dict[str, Any], expected: JudgeReply) -> None:
    assert read(ChatCompletion.construct(**document), ASKED) == expected


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda part: (
            st.lists(part)
            | st.dictionaries(
                st.sampled_from(["choices", "message", "content", "usage", "model", "refusal", "finish_reason"]), part
            )
        ),
    )
)
def test_no_json_breaks_the_reader(document: Any) -> None:
    assert read(ChatCompletion.construct(choices=[document], usage=document, model=document), ASKED)


@pytest.mark.parametrize("answer", [None, "<html>", [], {}, ChatCompletion.construct(detail="Not Found")], ids=repr)
def test_what_is_no_completion(answer: object) -> None:
    assert read(answer, ASKED) is None


@pytest.mark.parametrize(
    ("body", "outcome", "told"),
    [
        pytest.param(b"[]", "unavailable: no_completion", "no_completion", id="a list"),
        pytest.param(b'{"detail": "Not Found"}', "unavailable: no_completion", "no_completion", id="another object"),
        pytest.param(b'{"error": "boom"}', "unavailable: no_completion", "no_completion", id="an error in a word"),
        *(
            pytest.param(body, "unavailable: no_completion", "no_completion", id=body.decode())
            for body in (
                b'{"error": {"code": "boom"}}',
                b'{"error": {"code": true}}',
                b'{"error": {"code": 200}}',
                b'{"error": {"code": 1e999}}',
            )
        ),
        pytest.param(b'{"error": {"code": 401}}', "unavailable: no_completion", "no_completion", id="a status in it"),
        pytest.param(b'{"error": {"code": 500}, "choices": [{}]}', "", None, id="beside"),
        pytest.param(b'{"choices"', "", None, id="cut off"),
        pytest.param(b"\xff", "", None, id="not UTF-8"),
        pytest.param(b'{"n": ' + b"9" * 5000 + b"}", "", None, id="a long number"),
        pytest.param(b'{"n": ' * 100_000, "", None, id="deep"),
    ],
)
def test_what_comes_of_a_body(body: bytes, outcome: str, told: str | None) -> None:
    with JudgeServer(then=Behaviour(body=body)) as server:
        asking, ended = run(server.url, lambda asking: asking.ask())
    assert described(ended) == outcome
    assert asking.requested == [told]
    assert asking.books.reserved == asking.books.ended == 1
