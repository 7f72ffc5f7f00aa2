"""Which refusals are about the form of a request, and how long that is remembered."""

import pytest
from agenteval_collector.clock import ManualClock
from agenteval_collector.judges.lessons import LASTS, Form, Lessons, plainer

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
        pytest.param(TEXT, 400, "response_format: unsupported", None, id="nothing plainer is left"),
        pytest.param(
            SCHEMA, 400, "Unsupported value: 'temperature'", Form("schema", temperature=False), id="temperature"
        ),
        pytest.param(
            TEXT, 400, "only temperature=1 with response_format", Form("text", temperature=False), id="form, then that"
        ),
        pytest.param(Form("schema", temperature=False), 400, "temperature", None, id="temperature is gone already"),
        pytest.param(SCHEMA, 400, "maximum context length is 8192 tokens", None, id="about something else"),
        pytest.param(SCHEMA, 401, "json_schema", None, id="about the key"),
        pytest.param(SCHEMA, 500, "json_schema", None, id="an outage, whatever it says"),
        pytest.param(SCHEMA, 400, "", None, id="without a word"),
    ],
)
def test_the_next_form_after_a_refusal(form: Form, status: int, body: str, expected: Form | None) -> None:
    assert plainer(form, status, body) == expected


def test_a_lesson_holds_for_its_model_and_for_its_time() -> None:
    clock = ManualClock()
    lessons = Lessons(clock)
    lessons.learn("small", TEXT)
    assert lessons.form("large") == SCHEMA
    clock.advance(LASTS - 1)
    assert lessons.form("small") == TEXT
    clock.advance(1)
    assert lessons.form("small") == SCHEMA
