"""Chat completions: what is sent in each form, and what is read of responses that are hostile or broken."""

import json
from types import MappingProxyType
from typing import Any

import pytest
from agenteval_collector.judge.client.completion import Completion, NoCompletion, parameters
from agenteval_collector.judge.client.failures import advice, code, retryable
from agenteval_collector.judge.client.lessons import Form
from agenteval_collector.judge.client.port import JudgeRequest, Message
from hypothesis import given
from hypothesis import strategies as st

from tests.support.judge.filling import find_schema

SCHEMA = MappingProxyType({"type": "object", "properties": MappingProxyType({"score": {"type": "number"}})})
PLAIN = {"type": "object", "properties": {"score": {"type": "number"}}}


def request(*messages: Message, name: str = "verdict") -> JudgeRequest:
    return JudgeRequest(name=name, model="m", messages=messages, schema=SCHEMA, temperature=0.5)


def test_the_schema_is_sent_as_a_strict_one() -> None:
    sent = parameters(request(Message("system", "s"), Message("user", "u"), name="rubric: très long" * 9), Form(), "m")
    assert sent["response_format"]["json_schema"] == {
        "name": ("rubric__tr_s_long" * 9)[:64],
        "strict": True,
        "schema": PLAIN,
    }
    assert sent["messages"] == [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert sent["temperature"] == 0.5
    assert set(sent) == {"model", "messages", "temperature", "response_format"}


@pytest.mark.parametrize(
    ("format_", "response_format"),
    [pytest.param("json", {"type": "json_object"}, id="JSON mode"), pytest.param("text", None, id="words alone")],
)
@pytest.mark.parametrize("first", ["system", "user"])
def test_without_a_schema_it_stands_in_the_system_message(format_: Any, response_format: Any, first: Any) -> None:
    sent = parameters(request(Message(first, "hello"), Message("user", "u")), Form(format_), "m")
    assert sent.get("response_format") == response_format
    assert [message["role"] for message in sent["messages"]][:2] == ["system", "user"]
    assert find_schema(sent["messages"][0]["content"]) == PLAIN


def test_a_temperature_that_is_not_taken_is_left_out() -> None:
    assert "temperature" not in parameters(request(Message("user", "u")), Form(temperature=False), "m")


@given(st.text(st.characters()))
def test_any_text_can_be_sent(text: str) -> None:
    sent = parameters(request(Message("user", text)), Form(), "m")["messages"][0]["content"]
    assert sent.encode().decode() == sent
    assert len(sent) == len(text)


def response(**parts: Any) -> bytes:
    message = {"content": "{}"}
    whole = {"model": "m-1", "choices": [{"message": message, "finish_reason": "stop"}], "usage": {}} | parts
    return json.dumps(whole).encode()


UNMEASURED = Completion(model="m-1", text="{}")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(response(), Completion(model="m-1", text="{}"), id="without usage"),
        pytest.param(
            response(usage={"prompt_tokens": 3, "completion_tokens": 4}),
            Completion(model="m-1", text="{}", input_tokens=3, output_tokens=4),
            id="with usage",
        ),
        pytest.param(
            response(usage={"prompt_tokens": -3}), Completion(model="m-1", text="{}"), id="negative usage is none"
        ),
        pytest.param(
            response(usage={"prompt_tokens": 3, "completion_tokens": 2**62}),
            Completion(model="m-1", text="{}"),
            id="more tokens than a ledger could add up",
        ),
        pytest.param(response(usage="lots"), Completion(model="m-1", text="{}"), id="usage that is none"),
        pytest.param(response(model=7), Completion(text="{}"), id="a model without a name"),
        *(
            pytest.param(
                response(usage={"prompt_tokens": 3, "completion_tokens": strange}), UNMEASURED, id=f"{strange!r}"
            )
            for strange in (-1, 4.0, "4", True, 10_000_001, 1e300, [4])
        ),
        pytest.param(
            response(model="\x1b[31mm\ud800\u202e-\n1"),
            Completion(model="[31mm-1", text="{}"),
            id="a name with controls",
        ),
        pytest.param(response(model="\n"), Completion(text="{}"), id="a name of controls alone"),
        pytest.param(response(model="m" * 999), Completion(model="m" * 200, text="{}"), id="a long name"),
        pytest.param(response(choices=[]), Completion(model="m-1"), id="no choices"),
        pytest.param(response(choices={"0": {}}), Completion(model="m-1"), id="choices that are no list"),
        pytest.param(response(choices=[{"text": "{}"}]), Completion(model="m-1"), id="no message"),
        pytest.param(response(choices=[{"message": {}}]), Completion(model="m-1"), id="no content"),
        pytest.param(response(choices=[{"message": {"content": None}}]), Completion(model="m-1"), id="null content"),
        pytest.param(response(choices=[{"message": {"content": {"a": 1}}}]), Completion(model="m-1"), id="no text"),
        pytest.param(
            response(choices=[{"message": {"content": None, "refusal": "no"}}]),
            Completion(model="m-1", refused=True),
            id="refusal",
        ),
        pytest.param(
            response(choices=[{"message": {"content": "{}", "refusal": ""}}]),
            Completion(model="m-1", text="{}"),
            id="an empty refusal is none",
        ),
        pytest.param(
            response(choices=[{"message": {"content": "{"}, "finish_reason": "content_filter"}]),
            Completion(model="m-1", text="{", filtered=True),
            id="filtered",
        ),
        pytest.param(response(error={"code": 500}), Completion(model="m-1", text="{}"), id="an error beside an answer"),
        pytest.param(response()[:40], Completion(), id="cut off"),
        pytest.param(b'{"n": ' + b"9" * 5000 + b"}", Completion(), id="a long number"),
        pytest.param(b'{"n": ' * 100_000, Completion(), id="deep"),
    ],
)
def test_what_is_read_of_a_response(body: bytes, expected: Completion) -> None:
    assert Completion.read(body) == expected


@pytest.mark.parametrize(
    ("body", "message", "status"),
    [
        pytest.param(b"", "no JSON", None, id="empty"),
        pytest.param(b"[]", "a list", None, id="list"),
        pytest.param(b"<html>", "no JSON", None, id="page"),
        pytest.param(b"\xff", "no JSON", None, id="not UTF-8"),
        pytest.param(b"[" * 100_000, "no JSON", None, id="deep"),
        pytest.param(b'{"detail": "Not Found"}', "an object without choices", None, id="another object"),
        pytest.param(b'{"error": "boom"}', "an error", None, id="an error in a word"),
        pytest.param(b'{"error": {"message": "boom", "code": "boom"}}', "an error", None, id="an error with a word"),
        pytest.param(b'{"error": {"code": 401}}', "an error", 401, id="an error with a status"),
        pytest.param(b'{"error": {"code": "429"}, "choices": []}', "an error", 429, id="a status as text"),
        pytest.param(b'{"error": {"code": 200}}', "an error", None, id="a status that is no error"),
        pytest.param(b'{"error": {"code": true}}', "an error", None, id="true is no status"),
    ],
)
def test_what_is_no_completion_says_so(body: bytes, message: str, status: int | None) -> None:
    with pytest.raises(NoCompletion, match=message) as raised:
        Completion.read(body)
    assert raised.value.status == status


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
    assert Completion.read(json.dumps({"choices": [document], "usage": document, "model": document}).encode())


@pytest.mark.parametrize(
    ("status", "again"),
    [(408, True), (409, True), (429, True), (500, True), (503, True), (529, True), (501, False), (400, False)],
)
def test_which_statuses_may_pass(status: int, again: bool) -> None:
    assert retryable(status) is again


@pytest.mark.parametrize(
    ("status", "key"),
    [(401, "judge.api_key"), (403, "judge.model"), (404, "judge.base_url"), (307, "judge.base_url"), (418, "judge.")],
)
def test_advice_names_what_to_check(status: int, key: str) -> None:
    assert key in advice(status)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"error": {"code": "model_not_found"}}', "model_not_found"),
        ('{"error": {"code": "sk-SECRET KEY"}}', None),
        ('{"error": {"code": 404}}', None),
        ('{"error": "model_not_found"}', None),
        ("[]", None),
        ("<html>", None),
        ("[" * 100_000, None),
    ],
)
def test_only_a_code_is_repeated_of_an_errors_body(body: str, expected: str | None) -> None:
    assert code(body) == expected
