"""Which errors and replies are the same, and which say something."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.detectors.fingerprints import (
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


@given(st.text(st.characters()))
def test_any_text_can_be_compared(text: str) -> None:
    assert fingerprint(text) == fingerprint(f" {text} ")
    is_speech(text)
    error_fingerprint(text)
    assert printable(printable(text)) == printable(text)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param("ls -la", "ls  -la", False, id="white space inside text"),
        pytest.param("[" * 9999 + "]" * 9999, "[" * 9999 + "]" * 9999, True, id="nested too deeply"),
        pytest.param("\ud800", "\ud800", True, id="half of a character"),
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
