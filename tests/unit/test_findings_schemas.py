"""Arguments against schemas, either of which may come from anybody."""

import pytest
from agenteval_collector.evaluation.findings.schemas import SchemaChecks, Uncheckable

from otel_agenteval.model import Json


def error(arguments: Json, schema: Json) -> str | None:
    return SchemaChecks().error(arguments, schema)


def test_references_within_a_schema_are_followed() -> None:
    schema: Json = {
        "properties": {"seats": {"type": "array", "items": {"$ref": "#/$defs/Seat"}}},
        "$defs": {"Seat": {"type": "object", "required": ["row"]}},
    }
    assert error({"seats": [{"row": 1}]}, schema) is None
    assert error({"seats": [{}]}, schema) == "'row' is a required property"


BOMB: dict[str, Json] = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(None, id="none"),
        pytest.param({}, id="empty"),
        pytest.param({"type": "STRING"}, id="of another dialect"),
        pytest.param({"properties": 5}, id="malformed"),
        pytest.param({"$ref": "http://127.0.0.1:1/schema.json"}, id="that is elsewhere"),
        pytest.param({"$ref": "#/$defs/nowhere"}, id="that refers to nothing"),
        pytest.param({"properties": {"a": {"$ref": "#/properties/a"}}}, id="that refers to itself"),
        pytest.param({"$ref": "#/$defs/d0", "$defs": BOMB}, id="that doubles forty times"),
        pytest.param({"patternProperties": {"(a+)+$": {}}}, id="that needs its expressions"),
        pytest.param({"enum": list(range(5_000))}, id="that is too large"),
        pytest.param({"description": "x" * 1_000_000}, id="that is too long to be remembered"),
    ],
)
def test_a_schema_that_cannot_be_trusted_is_not_used(schema: Json) -> None:
    with pytest.raises(Uncheckable):
        error({"a": "a" * 40}, schema)


def test_regular_expressions_of_a_schema_are_not_run() -> None:
    schema: Json = {"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    assert error({"a": "a" * 5_000 + "!"}, schema) is None


def test_the_work_for_one_trace_has_a_bound() -> None:
    schema: Json = {"items": {"type": "integer"}}
    checks = SchemaChecks(work=1_000)
    assert checks.error([1] * 50, schema) is None
    with pytest.raises(Uncheckable):
        checks.error([1] * 1_000, schema)
