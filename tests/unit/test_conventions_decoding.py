"""JSON in telemetry: what is valid decodes as it is, what is cut or hostile harms nobody."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.conventions.decoding import (
    decode_arguments,
    decode_json,
    decode_prefix,
    decode_structure,
    decode_text,
    is_cut,
    known_text,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)


@given(value=VALUES, ascii_only=st.booleans())
def test_json_decodes_to_what_the_standard_library_reads(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert decode_json(text) == json.loads(text)


def is_beginning(part: Any, whole: Any) -> bool:
    """The slow, obvious meaning of a cut value: everything in it stands in the whole, up to its last element."""
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    if isinstance(part, list) and isinstance(whole, list):
        if len(part) > len(whole):
            return False
        complete, last = part[:-1], part[-1:]
        return complete == whole[: len(complete)] and all(map(is_beginning, last, whole[len(complete) :]))
    if isinstance(part, dict) and isinstance(whole, dict):
        keys = list(part)
        if keys != list(whole)[: len(keys)]:
            return False
        return all(part[key] == whole[key] for key in keys[:-1]) and all(
            is_beginning(part[key], whole[key]) for key in keys[-1:]
        )
    return bool(part == whole)


TEXTS = st.text(alphabet=st.sampled_from('ab"\\,:{}[]é\n😀'), max_size=12)
MESSAGES = st.lists(
    st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS, max_size=3) | st.booleans() | st.none(), max_size=3), min_size=1
)


@given(value=MESSAGES, cut=st.integers(min_value=1), ascii_only=st.booleans())
def test_a_cut_value_reads_as_its_beginning(value: list[Any], cut: int, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    part = text[: max(1, cut % len(text))]
    assert is_beginning(decode_prefix(part), value)


@given(text=st.text(alphabet=st.sampled_from('[]{}",:\\ab1')))
def test_whatever_is_cut_raises_nothing_but_value_error(text: str) -> None:
    for decode in (decode_json, decode_prefix):
        try:
            json.dumps(decode(text), allow_nan=False).encode()
        except ValueError:
            pass
        else:
            assert text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('{"n": NaN}', {"n": "NaN"}, id="not a number becomes text"),
        pytest.param('{"n": -Infinity}', {"n": "-Infinity"}, id="infinity becomes text"),
        pytest.param('{"n": 1e999}', {"n": "1e999"}, id="a number beyond floats becomes text"),
        pytest.param(r'"a\ud800b"', "a\ufffdb", id="half of a surrogate pair becomes the replacement character"),
        pytest.param(r'"\ud83d\ude00"', "😀", id="a surrogate pair is a character"),
        pytest.param(r'"\\ud800"', r"\ud800", id="an escaped backslash begins no surrogate"),
    ],
)
def test_values_that_json_cannot_carry_are_made_harmless(text: str, expected: Any) -> None:
    assert decode_json(text) == expected


@pytest.mark.parametrize("depth", [100, 100_000])
def test_deep_nesting_stays_text(depth: int) -> None:
    text = "[" * depth + "]" * depth
    assert decode_structure(text) == text
    with pytest.raises(ValueError, match="nested"):
        decode_prefix(text[:-1] if depth == 100 else "[" * depth)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"city": "Rome"}, {"city": "Rome"}, id="an object stays"),
        pytest.param('{"city": "Rome"}', {"city": "Rome"}, id="text is decoded"),
        pytest.param('"{\\"city\\": \\"Rome\\"}"', {"city": "Rome"}, id="JSON in JSON is decoded"),
        pytest.param("{'city': 'Rome'}", "{'city': 'Rome'}", id="what is not JSON stays text"),
        pytest.param('{"city": "Ro', '{"city": "Ro', id="cut arguments stay text, never half an object"),
        pytest.param("", {}, id="empty text is no arguments"),
        pytest.param(None, None, id="nothing is not recorded"),
        pytest.param("__REDACTED__", None, id="redacted is not recorded"),
        pytest.param('{"args": [], "kwargs": {"a": 1}, "x": true}', {"a": 1}, id="keyword arguments of a call"),
        pytest.param('{"args": [{"a": 1}], "kwargs": {}}', {"a": 1}, id="one positional object"),
        pytest.param({"args": [1], "kwargs": {"a": 1}}, {"args": [1], "kwargs": {"a": 1}}, id="a mixed call stays"),
    ],
)
def test_arguments(value: Any, expected: Any) -> None:
    assert decode_arguments(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param('{"t": 21}', '{"t": 21}', id="JSON text stays as the tool wrote it"),
        pytest.param('"{\\"t\\": 21}"', '{"t": 21}', id="text written as JSON is unwrapped once"),
        pytest.param([{"text": "a"}, {"text": "b"}], "a\nb", id="text blocks"),
        pytest.param('[{"text": "a"}]', "a", id="text blocks in text"),
        pytest.param([{"text": "a", "score": 1}], [{"text": "a", "score": 1}], id="objects that only have a text"),
        pytest.param("", None, id="empty is not recorded"),
        pytest.param({"t": 21}, {"t": 21}, id="an object stays"),
    ],
)
def test_results(value: Any, expected: Any) -> None:
    assert decode_text(value) == expected


@pytest.mark.parametrize(
    "text", ["", "  ", "__REDACTED__", "[REDACTED]", "<redacted>".upper(), "[Scrubbed due to 'x']"]
)
def test_redacted_text_is_not_recorded(text: str) -> None:
    assert known_text(text) is None


def test_text_about_redaction_is_recorded() -> None:
    assert known_text("The file is REDACTED, sorry.") == "The file is REDACTED, sorry."


@pytest.mark.parametrize(
    ("value", "cut"),
    [
        ('[{"role":', True),
        ('[{"a": 1}]\n', False),
        ("plain text", False),
        ("[draft] Hi", False),
        ("", False),
        (None, False),
        ("{", True),
    ],
)
def test_cut_json_is_seen_without_decoding_it(value: Any, cut: bool) -> None:
    assert is_cut(value) is cut
