"""The schema filler of the judge server: whatever it fills in follows the schema."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.support.judge.behaviours import Content, disturb
from tests.support.judge.filling import fill, find_schema


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({"type": "number"}, 0.75, id="a number is the score"),
        pytest.param({"type": "number", "minimum": 1, "maximum": 5}, 4.0, id="within its range"),
        pytest.param({"type": "integer", "minimum": 0, "maximum": 10}, 8, id="an integer is rounded"),
        pytest.param({"type": "boolean"}, True, id="boolean"),
        pytest.param({"const": "k3y"}, "k3y", id="constant"),
        pytest.param({"enum": ["yes", "no"]}, "yes", id="first of an enumeration"),
        pytest.param({"type": ["null", "boolean"]}, True, id="something rather than null"),
        pytest.param({"anyOf": [{"type": "null"}, {"type": "number"}]}, 0.75, id="the first option that is not null"),
        pytest.param({"type": "array", "items": {"type": "number"}}, [0.75], id="one element"),
        pytest.param({"type": "array", "items": {"type": "null"}, "minItems": 3}, [None] * 3, id="as many as needed"),
        pytest.param({"type": "array", "items": {"type": "null"}, "maxItems": 0}, [], id="none where none may be"),
        pytest.param(
            {"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "number"}}},
            {"a": 0.75},
            id="reference",
        ),
    ],
)
def test_what_is_filled_in(schema: dict[str, Any], expected: object) -> None:
    assert fill(schema, 0.75) == expected


def objects(part: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from("abc"), part, max_size=3).map(
        lambda parts: {"type": "object", "properties": parts, "required": list(parts), "additionalProperties": False}
    )


def arrays(part: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda items, least, more: {"type": "array", "items": items, "minItems": least, "maxItems": least + more},
        part, st.integers(0, 4), st.integers(0, 2),
    )  # fmt: skip


SCHEMAS = st.recursive(
    st.sampled_from(
        [
            {"type": "number", "minimum": 0, "maximum": 1},
            {"type": "integer", "minimum": 1, "maximum": 5},
            {"type": "string", "minLength": 20},
            {"type": "string", "maxLength": 2},
            {"type": ["boolean", "null"]},
            {"enum": ["a", 1, None]},
            {"const": [1]},
        ]
    ),
    lambda part: (
        objects(part) | arrays(part) | st.lists(part, min_size=1, max_size=2).map(lambda all_: {"anyOf": all_})
    ),
    max_leaves=8,
)


@given(SCHEMAS, st.floats(0, 1))
def test_it_follows_the_schema(schema: dict[str, Any], score: float) -> None:
    Draft202012Validator(schema).validate(fill(schema, score))


def test_a_schema_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="deep"):
        fill({"properties": {"a": {"$ref": "#"}}}, 0.5)


@given(objects(SCHEMAS))
def test_a_schema_is_found_among_words(schema: dict[str, Any]) -> None:
    before, after = 'Words, {braces} and {"data": 1}. It follows this JSON schema:', '{"properties": {}}'
    assert find_schema(f"{before}\n{json.dumps(schema)}\n{after}") == schema


def test_no_schema_is_none() -> None:
    assert find_schema('{"properties": 1} {') is None


GOOD = '{"score": 0.5, "sure": true, "steps": [{"n": 1}], "none": []}'


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(Content.VALID, GOOD, id="left alone"),
        pytest.param(
            Content.WRONG_COUNTS,
            '{"score": 0.5, "sure": true, "steps": [{"n": 1}, {"n": 1}], "none": ["one too many"]}',
            id="every array is longer",
        ),
        pytest.param(
            Content.OUT_OF_RANGE,
            '{"score": 1000.5, "sure": true, "steps": [{"n": 1001}], "none": []}',
            id="every number is out of range",
        ),
        pytest.param(Content.NAN, '{"score": NaN, "sure": true, "steps": [{"n": NaN}], "none": []}', id="no numbers"),
        pytest.param(
            Content.INFINITY,
            '{"score": Infinity, "sure": true, "steps": [{"n": Infinity}], "none": []}',
            id="no finite numbers",
        ),
        pytest.param(Content.TRUNCATED, GOOD[: len(GOOD) // 2], id="half"),
    ],
)
def test_disturbed_replies(content: Content, expected: str) -> None:
    assert disturb(GOOD, content) == expected
