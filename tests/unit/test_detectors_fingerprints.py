"""Which arguments, results, errors and replies are the same, and which say something."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.detectors.fingerprints import (
    MAX_DECODED,
    MAX_KEPT,
    MAX_NAME,
    Compared,
    error_fingerprint,
    fingerprint,
    is_speech,
    printable,
)
from otel_agenteval.model import Json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=5)


def shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        items = [(key, shuffled(each, chance)) for key, each in value.items()]
        chance.shuffle(items)
        return dict(items)
    return [shuffled(each, chance) for each in value] if isinstance(value, list) else value


@given(OBJECTS, st.randoms(), st.sampled_from([None, 1, 4]), st.booleans())
def test_json_is_the_same_however_it_is_written(
    value: dict[str, Json], chance: random.Random, indent: int | None, ascii_only: bool
) -> None:
    written = json.dumps(shuffled(value, chance), indent=indent, ensure_ascii=ascii_only)
    assert fingerprint(f" {written}\n") == fingerprint(value) == fingerprint(json.dumps(written))


@given(OBJECTS, OBJECTS)
def test_what_differs_is_not_the_same(one: dict[str, Json], other: dict[str, Json]) -> None:
    assert (fingerprint(one) == fingerprint(other)) is (plain(one) == plain(other))


def plain(value: Any) -> object:
    """The value with its kind, because Python takes true for 1."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return isinstance(value, bool), value


@given(st.text(st.characters()))
def test_any_text_can_be_compared(text: str) -> None:
    assert fingerprint(text) == fingerprint(f" {text} ")
    is_speech(text)
    error_fingerprint(text)
    assert printable(printable(text)) == printable(text)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param("1", "1.0", True, id="a number in two forms"),
        pytest.param('{"a": 10}', '{"a": 1e1}', True, id="a number with an exponent"),
        pytest.param('{"a": 0}', '{"a": -0.0}', True, id="zero and minus zero"),
        pytest.param('{"a": 1e400}', '{"a": 2e400}', False, id="numbers beyond a float"),
        pytest.param('{"a": 1e-400}', '{"a": 0}', False, id="a number too small for a float"),
        pytest.param("1e-99999999999999999999", "0", False, id="a number too small for any"),
        pytest.param("9007199254740992.0", "9007199254740993.0", False, id="more digits than a float holds"),
        pytest.param("0.12345678901234567891", "0.12345678901234567892", False, id="more digits behind the point"),
        pytest.param('{"a": 1e400}', ' {"a": 1e400}', True, id="a number beyond a float, written the same"),
        pytest.param('{"a": 1}', '{"a": "1"}', False, id="a number and a text"),
        pytest.param('{"a": 1}', '{"a": true}', False, id="a number and true"),
        pytest.param('{"a": null}', "{}", False, id="null and nothing"),
        pytest.param("[1, 2]", "[2, 1]", False, id="lists have an order"),
        pytest.param("ls -la", "ls  -la", False, id="white space inside text"),
        pytest.param('{"a": " x"}', '{"a": "x"}', False, id="white space inside a value"),
        pytest.param("{'a': 1}", "{'a': 1}", True, id="what is no JSON"),
        pytest.param('{"a": NaN}', '{ "a": NaN }', True, id="what JSON lacks"),
        pytest.param("9" * 5000, "9" * 5000, True, id="a number too long to be read"),
        pytest.param("[" * 9999 + "]" * 9999, "[" * 9999 + "]" * 9999, True, id="nested too deeply"),
        pytest.param("\ud800", "\ud800", True, id="half of a character"),
        pytest.param("[1," + " " * MAX_DECODED + "2]", "[1,2]", False, id="too long to be decoded"),
    ],
)
def test_what_is_the_same(one: str, other: str, same: bool) -> None:
    assert (fingerprint(one) == fingerprint(other)) is same


@given(st.text() | OBJECTS.map(json.dumps), st.text() | OBJECTS.map(json.dumps))
def test_content_is_compared_as_its_fingerprints_are(one: str, other: str) -> None:
    for left, right in ((one, other), (one, f" {one}"), (one, one)):
        same = fingerprint(left) == fingerprint(right)
        assert (Compared(left) == Compared(right)) is same
        assert not same or hash(Compared(left)) == hash(Compared(right))


def test_content_is_read_when_it_is_compared_with_what_is_written_otherwise() -> None:
    reads = []

    def read(content: Json) -> Json:
        reads.append(content)
        return str(content).removeprefix("id-1 ").removeprefix("id-2 ")

    first, again, other = Compared("id-1 hello", read), Compared("id-1 hello", read), Compared("id-2 hello", read)
    assert first == again
    assert reads == []
    assert first == other
    assert first == other
    assert reads == ["id-1 hello", "id-2 hello"]
    assert first != Compared("hello again", read)


def test_long_content_is_not_kept() -> None:
    reads = []
    long = Compared("x" * (MAX_KEPT + 1), lambda content: reads.append(content) or content)
    assert len(reads) == 1
    assert long == Compared("x" * (MAX_KEPT + 1))
    assert len(reads) == 1


def test_what_was_not_recorded_has_no_fingerprint() -> None:
    assert fingerprint(None) is None
    assert error_fingerprint(None) is None
    assert fingerprint("") is not None
    assert error_fingerprint("") is not None


def test_decoded_content_that_cannot_be_written_is_as_good_as_not_recorded() -> None:
    nested: Json = []
    for _ in range(100_000):
        nested = [nested]
    assert fingerprint(nested) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param("timeout after 1203 ms", "timeout after 87 ms", True, id="durations"),
        pytest.param("request 7f3a not found", "request 91bc not found", True, id="ids"),
        pytest.param("timeout", "refused", False, id="words"),
        pytest.param("x" * 5000 + "a", "x" * 5000 + "b", True, id="what lies far behind"),
    ],
)
def test_errors_are_the_same_but_for_numbers_and_ids(one: str, other: str, same: bool) -> None:
    assert (error_fingerprint(one) == error_fingerprint(other)) is same


@pytest.mark.parametrize(
    ("reply", "speech"),
    [
        (None, False),
        ("yes", False),
        ("not relevant", False),
        ("Let me retry", True),
        (" " * 30, False),
        ('{"grade": "relevant", "of": "the document"}', False),
        ("Could you give me your name?", True),
        ("请告诉我您的预订编号。", True),
    ],
)
def test_labels_are_no_speech(reply: Json, speech: bool) -> None:
    assert is_speech(reply) is speech


def test_names_are_cut_and_printable() -> None:
    assert printable("search\n\x1b[31m") == "search??[31m"
    assert printable("x" * 1000) == "x" * MAX_NAME
