"""The forms of a request: what is sent in each, and which refusals are about the form."""

from types import MappingProxyType
from typing import Any

import pytest
from agenteval_collector.judge.client.completions import Form, parameters, plainer
from agenteval_collector.judge.ports import JudgeRequest, Message
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.model import Json
from tests.support.judge.filling import find_schema

SCHEMA, JSON, TEXT = Form("schema"), Form("json"), Form("text")


@pytest.mark.parametrize(
    ("form", "status", "body", "expected"),
    [
        pytest.param(SCHEMA, 400, "Invalid parameter: 'response_format' ...", JSON, id="named by its parameter"),
        pytest.param(SCHEMA, 422, "Structured outputs are not supported", JSON, id="named by its feature"),
        pytest.param(SCHEMA, 501, "", JSON, id="not implemented, whatever it is"),
        pytest.param(SCHEMA, 400, "Unsupported parameter", JSON, id="a parameter without its name"),
        pytest.param(SCHEMA, 422, "Extra inputs are not permitted", JSON, id="one too many"),
        pytest.param(SCHEMA, 400, "failed to parse grammar", JSON, id="refused by the grammar's compiler"),
        pytest.param(SCHEMA, 400, 'Unknown name "additionalProperties" at response_schema', JSON, id="translated"),
        pytest.param(SCHEMA, 404, "No endpoints that support response format", JSON, id="refused by a router"),
        pytest.param(JSON, 400, "response_format: unsupported", TEXT, id="JSON mode refused too"),
        pytest.param(
            TEXT, 400, "response_format: unsupported", Form("text", temperature=False), id="only temperature is left"
        ),
        pytest.param(
            SCHEMA, 400, "Unsupported value: 'temperature'", Form("schema", temperature=False), id="temperature"
        ),
        pytest.param(
            TEXT, 400, "only temperature=1 with response_format", Form("text", temperature=False), id="form, then that"
        ),
        pytest.param(
            Form("schema", temperature=False), 400, "temperature", Form("json", temperature=False), id="gone already"
        ),
        pytest.param(SCHEMA, 400, "", JSON, id="without a word"),
        pytest.param(SCHEMA, 415, "Unsupported Media Type", JSON, id="media type"),
        pytest.param(SCHEMA, 422, "unexpected field", JSON, id="in words of its own"),
        pytest.param(SCHEMA, 400, "does not support constrained outputs", JSON, id="named by its method"),
        pytest.param(SCHEMA, 400, "Unsupported keyword: minimum", JSON, id="a keyword of the schema"),
        pytest.param(TEXT, 400, "Bad Request", Form("text", temperature=False), id="at last without temperature"),
        pytest.param(Form("text", temperature=False), 400, "Bad Request", None, id="nothing is left"),
        pytest.param(TEXT, 500, "json_schema", None, id="an outage in the plainest form"),
        pytest.param(SCHEMA, 401, "json_schema", None, id="about the key"),
        pytest.param(SCHEMA, 500, "Internal Server Error", None, id="an outage"),
        pytest.param(SCHEMA, 503, "overloaded", None, id="another outage"),
        pytest.param(SCHEMA, 403, "Forbidden", None, id="not allowed"),
        pytest.param(SCHEMA, 404, "Not Found", None, id="no such path"),
        pytest.param(SCHEMA, 429, "json_schema", None, id="too many"),
        pytest.param(SCHEMA, 400, "maximum context length is 8192 tokens", None, id="too long"),
        pytest.param(SCHEMA, 400, "prompt is too long: response_format", None, id="too long, whatever else it says"),
        pytest.param(SCHEMA, 400, "API key not valid. Please pass a valid API key.", None, id="the key, as a 400"),
        pytest.param(SCHEMA, 404, "The model `x` does not exist", None, id="no such model"),
        pytest.param(SCHEMA, 400, '{"code": "model_not_found"}', None, id="no such model, as a code"),
        pytest.param(SCHEMA, 400, "violates our content policy", None, id="content policy"),
    ],
)
def test_the_next_form_after_a_refusal(form: Form, status: int, body: str, expected: Form | None) -> None:
    assert plainer(form, status, body) == expected


def test_every_way_down_ends() -> None:
    form: Form | None = SCHEMA
    steps = 0
    while form is not None:
        form, steps = plainer(form, 400, ""), steps + 1
    assert steps == 4


ASKED = MappingProxyType[str, Json]({"type": "object", "properties": {"score": {"type": "number"}}})
PLAIN = {"type": "object", "properties": {"score": {"type": "number"}}}


def request(*messages: Message, name: str = "verdict") -> JudgeRequest:
    return JudgeRequest(name=name, model="m", messages=messages, schema=ASKED, temperature=0.5)


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
def test_without_a_schema_it_stands_in_the_system_message(format_: Any, response_format: Any) -> None:
    sent = parameters(request(Message("system", "hello"), Message("user", "u")), Form(format_), "m")
    assert sent.get("response_format") == response_format
    assert [message["role"] for message in sent["messages"]][:2] == ["system", "user"]
    assert find_schema(sent["messages"][0]["content"]) == PLAIN


def test_a_temperature_that_is_not_taken_is_left_out() -> None:
    assert "temperature" not in parameters(request(Message("system", "u")), Form(temperature=False), "m")


@given(st.text(st.characters()))
def test_any_text_can_be_sent(text: str) -> None:
    sent = parameters(request(Message("user", text)), Form(), "m")["messages"][0]["content"]
    assert sent.encode().decode() == sent
    assert len(sent) == len(text)
