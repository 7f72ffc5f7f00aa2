"""Redacted documents: what is replaced, by what, and what a reader can still tell."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.model import Json
from otel_agenteval.redaction import DataKind, OwnPatterns, Redactor, find
from otel_agenteval.redaction.kinds import PERSONAL
from otel_agenteval.redaction.redactor import MAX_DEPTH, TOO_DEEP, RedactionBudget

FRAGMENTS = st.sampled_from(
    [
        "bob@example.com", "Eve@example.org", "+49 30 90182099", "415-555-2671", "4111 1111 1111 1111", "123-45-6789",
        "8.8.8.8", "sk-abcdefghijklmnopqrst", "password=hunter2", "Bearer abc123def456", "a://b:c@d", "[EMAIL_1]",
        "[SECRET_2]", "DE89370400440532013000", "phone ", " ", "\n", "\\n", '"',
        ", ", "x", "1", "-", "@", ".", "[", "]",
    ]
)  # fmt: skip
TEXTS = st.lists(FRAGMENTS, max_size=8).map("".join)
KEYS = st.sampled_from(["to", "password", "apiKey", "phone", "bob@example.com"]) | TEXTS
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS | TEXTS.map(json.dumps),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.dictionaries(KEYS, inner, max_size=3).map(json.dumps)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("value", "redacted"),
    [
        pytest.param(
            {"said": "I am bob@example.com", "sent": {"to": "Bob@Example.com", "cc": "eve@example.com"}},
            {"said": "I am [EMAIL_1]", "sent": {"to": "[EMAIL_1]", "cc": "[EMAIL_2]"}},
            id="equal values have equal placeholders",
        ),
        pytest.param(
            ["call +1 415-555-2671", "+1 (415) 555 2671"],
            ["call [PHONE_1]", "[PHONE_1]"],
            id="however they are written",
        ),
        pytest.param(
            ["password=a", "password=A"], ["password=[SECRET_1]", "password=[SECRET_2]"], id="secrets are exact"
        ),
        pytest.param(
            {"password": "hunter2 and more", "apiKey": "x", "X-Auth-Token": 12345678, "user_phone": "901 820 99"},
            {"password": "[SECRET_1]", "apiKey": "[SECRET_2]", "X-Auth-Token": "[SECRET_3]", "user_phone": "[PHONE_1]"},
            id="what stands under the name of a secret goes whole",
        ),
        pytest.param(
            {"properties": {"password": {"type": "string"}}, "password": None, "token": "", "secret": True},
            {"properties": {"password": {"type": "string"}}, "password": None, "token": "", "secret": True},
            id="a schema stays, and so does what is no value",
        ),
        pytest.param(
            {"tokens": 5, "total_tokens": "12"}, {"tokens": 5, "total_tokens": "12"}, id="counted tokens stay"
        ),
        pytest.param(
            '{"email": "bob@example.com", "password": "hunter2", "n": 1}',
            '{"email": "[EMAIL_1]", "password": "[SECRET_1]", "n": 1}',
            id="JSON in a text",
        ),
        pytest.param(r'["bob\u0040example.com"]', '["[EMAIL_1]"]', id="escapes in JSON in a text hide nothing"),
        pytest.param(
            r'{"password": "hunter2", "to": "bob\u0040example.com", "password": null, "to": ""}',
            '{"password": ["[SECRET_1]", null], "to": ["[EMAIL_1]", ""]}',
            id="what a later key of the same name would hide from a reader of JSON",
        ),
        pytest.param('{"a":  1, "a": 2}', '{"a":  1, "a": 2}', id="repeated keys without a finding"),
        pytest.param('{"a":  1}', '{"a":  1}', id="JSON without a finding stays as it was written"),
        pytest.param({"bob@example.com": 1}, {"[EMAIL_1]": 1}, id="a key that is data"),
        pytest.param(4111111111111111, "[CARD_1]", id="a card as a number"),
        pytest.param([1700000000000, 3.14, 10**400, True], [1700000000000, 3.14, 10**400, True], id="other numbers"),
        pytest.param(
            "[EMAIL_1] is not bob@example.com", "[EMAIL_1] is not [EMAIL_2]", id="a placeholder that was there already"
        ),
        pytest.param(
            {"a": "bob@example.com", "b": "[EMAIL_1]"},
            {"a": "[EMAIL_2]", "b": "[EMAIL_1]"},
            id="a forged one further on",
        ),
    ],
)
def test_redacted(value: Json, redacted: Json) -> None:
    assert Redactor().redact(value) == redacted


def test_one_redactor_numbers_what_is_read_side_by_side() -> None:
    redactor = Redactor()
    assert redactor.redact("bob@example.com") == redactor.redact("bob@example.com") == "[EMAIL_1]"
    assert redactor.redact("eve@example.com") == "[EMAIL_2]"


def test_what_is_nested_too_deep_does_not_pass_unread() -> None:
    value: Json = "bob@example.com"
    for _ in range(MAX_DEPTH):
        value = [value]
    assert "[EMAIL_1]" in json.dumps(Redactor().redact(value))
    assert TOO_DEEP in json.dumps(Redactor().redact([value]))
    assert "bob@" not in str(Redactor().redact("[" * 100_000 + '"bob@example.com"' + "]" * 100_000))


def test_personal_data_is_told_from_secrets() -> None:
    assert [finding.kind in PERSONAL for finding in find("bob@example.com, password=x")] == [True, False]
    assert frozenset(DataKind) - PERSONAL == {DataKind.SECRET, DataKind.API_KEY, DataKind.JWT, DataKind.PRIVATE_KEY}


@given(VALUES)
def test_redacting_again_changes_nothing(value: Json) -> None:
    redactor = Redactor()
    once = redactor.redact(value)
    assert redactor.redact(once) == once
    assert Redactor().redact(once) == once


@given(TEXTS)
def test_a_placeholder_stands_for_one_value(text: str) -> None:
    """Different values get different placeholders, and none that stood in the text before."""
    values = ["ann@example.com", "joe@example.com"]
    redacted = Redactor().redact([text, *values])
    assert isinstance(redacted, list)
    first, second = redacted[1:]
    assert first != second
    assert str(first) not in text
    assert str(second) not in text


@given(VALUES)
def test_the_shape_stays(value: Json) -> None:
    def shape(value: Json) -> object:
        match value:
            case dict():
                return [shape(item) for item in value.values()]
            case list():
                return [shape(item) for item in value]
            case _:
                return None

    # Keys that differ in case only are one address, and become one key.
    if not any(isinstance(key, str) and "@" in key for key in _keys(value)):
        assert shape(Redactor().redact(value)) == shape(value)


def _keys(value: Json) -> list[str]:
    match value:
        case dict():
            return [*value, *(key for item in value.values() for key in _keys(item))]
        case list():
            return [key for item in value for key in _keys(item)]
        case _:
            return []


def test_what_is_beyond_the_budget_is_left_out() -> None:
    budget = RedactionBudget(40)
    redactor = Redactor(budget=budget)
    assert redactor.redact(["password=hunter2", "x" * 30, "fine"]) == [
        "password=[SECRET_1]",
        "[30 characters left out: more than may be redacted]",
        "fine",
    ]
    assert redactor.redact("y" * 30) == "[30 characters left out: more than may be redacted]"
    assert budget.left_out == 2


def test_placeholders_of_a_key_are_the_same_everywhere_and_tell_values_apart() -> None:
    said = ["bob@example.com", "Bob@example.com", "eve@example.com"]
    bob, same, eve = (Redactor(key=b"k").redact(each) for each in said)
    assert bob == same != eve
    assert Redactor(key=b"other").redact(said[0]) != bob


def test_a_placeholder_of_a_key_is_left_alone_by_others() -> None:
    kept = Redactor(key=b"k").redact("password=hunter2, bob@example.com")
    assert Redactor().redact(kept) == kept
    assert Redactor(key=b"other").redact(kept) == kept


def test_patterns_of_ones_own_come_first() -> None:
    redactor = Redactor(own=OwnPatterns({"mail": r"[a-z]+@corp\.example", "ticket": "T-[0-9]+"}))
    assert redactor.redact("ask ann@corp.example or bob@example.com about T-77") == (
        "ask [MAIL_1] or [EMAIL_1] about [TICKET_1]"
    )


def test_a_pattern_that_python_would_never_finish_takes_no_time() -> None:
    assert Redactor(own=OwnPatterns({"bomb": "(a+)+$"})).redact("a" * 50_000 + "b") == "a" * 50_000 + "b"


@pytest.mark.parametrize(
    ("said", "held_back"),
    [
        (["What is your password?", "Yes, please reset it."], None),
        (["Which size?", "XL-42b"], None),
        (["The password is:", "wait a moment", "gr8-pw!x"], "gr8-pw!x"),
        (["What is your order number?", "W2378156"], None),
    ],
)
def test_what_is_announced_is_held_back_in_the_next_message(said: list[str], held_back: str | None) -> None:
    messages: Json = [{"role": "user", "content": each} for each in said]
    redacted = Redactor().redact(messages)
    assert (redacted == messages) is (held_back is None)
    assert held_back is None or held_back not in str(redacted)
