"""What counts as a secret or as personal data, and what looks like it and is none."""

import re
import sys
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.model import Json
from otel_agenteval.redaction import DataKind, Match, find
from otel_agenteval.redaction.kinds import PERSONAL, rule
from otel_agenteval.redaction.personal_forms import PERSONAL_RULES
from otel_agenteval.redaction.prefilter import Prefilter
from tests.support.vectors import published

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq\n/x+Zw==\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("write to Jane.Doe+tag@mail.example.co.uk.", DataKind.EMAIL, "Jane.Doe+tag@mail.example.co.uk"),
        ("юлия@пример.рф asked", DataKind.EMAIL, "юлия@пример.рф"),
        (r"{\"to\":\"\nbob@example.com\"}", DataKind.EMAIL, "bob@example.com"),
        ("x" * 100 + " bob@example.com", DataKind.EMAIL, "bob@example.com"),
        ("call +49 (0)30 901820-99 today", DataKind.PHONE, "+49 (0)30 901820-99"),
        ("+14155552671", DataKind.PHONE, "+14155552671"),
        ("0044 20 7946 0958", DataKind.PHONE, "0044 20 7946 0958"),
        ("(415) 555-2671", DataKind.PHONE, "(415) 555-2671"),
        ("1-800-555-0199", DataKind.PHONE, "1-800-555-0199"),
        ("415.555.2671", DataKind.PHONE, "415.555.2671"),
        ("06 12 34 56 78", DataKind.PHONE, "06 12 34 56 78"),
        ("0171/1234567", DataKind.PHONE, "0171/1234567"),
        ("020 7946 0958", DataKind.PHONE, "020 7946 0958"),
        ("my phone number is 5551234567", DataKind.PHONE, "5551234567"),
        ("reach me at 030 9018", DataKind.PHONE, "030 9018"),
        ("4111 1111 1111 1111", DataKind.CARD, "4111 1111 1111 1111"),
        ("card 5500-0000-0000-0004,", DataKind.CARD, "5500-0000-0000-0004"),
        ("378282246310005", DataKind.CARD, "378282246310005"),
        ("6011111111111117", DataKind.CARD, "6011111111111117"),
        ("3530111333300000", DataKind.CARD, "3530111333300000"),
        ("30569309025904", DataKind.CARD, "30569309025904"),
        ("IBAN DE89 3704 0044 0532 0130 00 please", DataKind.IBAN, "DE89 3704 0044 0532 0130 00"),
        ("GB29NWBK60161331926819", DataKind.IBAN, "GB29NWBK60161331926819"),
        ("SSN 123-45-6789.", DataKind.SSN, "123-45-6789"),
        ("from 8.8.8.8:443", DataKind.IP, "8.8.8.8"),
        ("[2001:4860:4860::8888]", DataKind.IP, "2001:4860:4860::8888"),
        ("key sk-proj-abcDEF0123456789abcd", DataKind.API_KEY, "sk-proj-abcDEF0123456789abcd"),
        ("'sk-ant-api03-abcdEFGH0123'", DataKind.API_KEY, "sk-ant-api03-abcdEFGH0123"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", DataKind.API_KEY, "ghp_abcdefghijklmnopqrstuvwxyz0123456789"),
        ("AKIAIOSFODNN7EXAMPLE", DataKind.API_KEY, "AKIAIOSFODNN7EXAMPLE"),
        ("xoxb-123456789012-abcdef", DataKind.API_KEY, "xoxb-123456789012-abcdef"),
        (
            "AIza" + "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
            DataKind.API_KEY,
            "AIza" + "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
        ),
        ("hf_abcdefghijklmnopqrstuvwxyz", DataKind.API_KEY, "hf_abcdefghijklmnopqrstuvwxyz"),
        ("glpat-abcdefghij0123456789", DataKind.API_KEY, "glpat-abcdefghij0123456789"),
        (r"line\nsk-abcdefghijklmnopqrst", DataKind.API_KEY, "sk-abcdefghijklmnopqrst"),
        (f"token is {JWT}.", DataKind.JWT, JWT),
        (f"key:\n{PEM}\nbye", DataKind.PRIVATE_KEY, PEM),
        (PEM[:50], DataKind.PRIVATE_KEY, PEM[:50]),
        ("Authorization: Bearer abc123def456", DataKind.SECRET, "abc123def456"),
        ("Basic dXNlcjpwYXNz", DataKind.SECRET, "dXNlcjpwYXNz"),
        ("postgres://app:s3cr3t@db.internal:5432/x", DataKind.SECRET, "s3cr3t"),
        ("redis://:s3cr3t@cache", DataKind.SECRET, "s3cr3t"),
        ("password=hunter2&next=/", DataKind.SECRET, "hunter2"),
        ("DB_PASSWORD: 'hunter2'", DataKind.SECRET, "hunter2"),
        (r"{\"access_token\": \"abc\", ...", DataKind.SECRET, "abc"),
        (r"'password': 'two words', ...", DataKind.SECRET, "two words"),
        (r"{\"password\": \"two words\", ...", DataKind.SECRET, "two words"),
        ("clientSecret = abc", DataKind.SECRET, "abc"),
        ("my password is hunter2", DataKind.SECRET, "hunter2"),
    ],
)
def test_a_value_is_found_whole_and_nothing_beside_it(text: str, kind: DataKind, value: str) -> None:
    assert [(finding.kind, text[finding.start : finding.end]) for finding in find(text)] == [(kind, value)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("order #W2378156, item 1234567890, reservation ZFA04Y", id="order and item numbers"),
        pytest.param("user mia_li_3668 paid by credit_card_4421486", id="ids with digits"),
        pytest.param("2026-03-02T09:01:00.123456+00:00, 2024-05-15 10:30:00", id="times"),
        pytest.param("1700000000, 1700000000000, 1700000000000000000", id="Unix times"),
        pytest.param("$1,234.56 + 12 % of 318 € = 1 272.72", id="prices"),
        pytest.param("+5 points, +1,000 users, +00:00", id="signed numbers and zones"),
        pytest.param("0af7651916cd43dd8448eb211c80319c", id="a trace id"),
        pytest.param("123e4567-e89b-12d3-a456-426614174000", id="a UUID"),
        pytest.param("4111 1111 1111 1112 and 4111111111111112", id="a card with a wrong checksum"),
        pytest.param("DE89370400440532013001", id="an IBAN with a wrong checksum"),
        pytest.param("000-12-3456, 666-12-3456, 900-12-3456, 123-00-4567", id="numbers that are never given out"),
        pytest.param("version 1.2.3.4, 10.0.0.1, 127.0.0.1, 999.1.1.1, 1.2.3", id="versions, private addresses"),
        pytest.param("12:30:45, a::b, std::string, fe80::1", id="colons"),
        pytest.param("basic authentication, bearer certificates, Basic Information", id="prose about credentials"),
        pytest.param("task-abcdefghijklmnopqrstuvwx, disk-full", id="words that end like the beginning of a key"),
        pytest.param("max_tokens=512, token_count: 3, tokens: 12", id="tokens that are counted"),
        pytest.param("has_password: true, the password is wrong", id="what is said about a password"),
        pytest.param('"password": "string", "token": {"type": "string"}', id="a schema"),
        pytest.param("http://localhost:8080/a@b, ratio 3:4@5", id="an address without a password"),
        pytest.param("me@home, lodash@4.17.21, @handle", id="an at sign without a domain"),
        pytest.param("[EMAIL_1] password=[SECRET_12]", id="placeholders"),
        pytest.param("flight 123 4567 on 12 03 2026, rooms 200 300 4000", id="groups of digits"),
        pytest.param("HAT136 JFK 2024-05-20T06:00:00 SEA 09:00 EST, 3 bags", id="an itinerary"),
    ],
)
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert [text[finding.start : finding.end] for finding in find(text)] == []


def test_the_more_specific_kind_wins() -> None:
    text = "api_key=sk-abcdefghijklmnopqrst"
    assert find(text) == [Match(DataKind.API_KEY, 8, len(text))]


PIECES = (
    "a", "1", "@", "a@", "a@a.", "a.", "+1 ", "1 ", "sk-", "sk-a", "eyJaaaaaaaa.", "eyJaaaaaaaa", "-eyJaaaaaaaa",
    "-----BEGIN PRIVATE KEY-----", "a://b:", "a://", "password", "password=", "password: ", "token_", "A1",
    "DE89 3704 ", "4111 1111 ", "(212) ", "0171 ", "00", "0030 1 ", "phone ", "phone number ", "1.", "2000:", "[EMAIL_",
    "[EMAIL_1]", "\\n", '"', "bearer ", "Bearer a", "1-", " ",
    "a-b_", "foo@bar.com", "+49301234567 ", "[", '{"a":', "=",
    "x" * 63 + ".",
    "PASSWORD=a(", ";pwd={", 'variable "password" { ', 'connect("a",', "sqlplus ", "\tTRUE\t/",
    "half of the key ", "a [dot] ",
    "authorization: a ", '"pin").fill(', "/" + "YWFh" * 4, "tel 1 2 ", "passport A ", "in the next message ",
    "client('abcd', ", "ab://b:", "ab://", "hook", "hook.", "/user:", "pin=", "cvv:", "token=--", "arn:token=",
)  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_long_texts_cost_in_proportion_whatever_they_hold(piece: str) -> None:
    """Hundredths of a second of CPU time where patterns are linear, five seconds where one of them is quadratic."""
    text = piece * (30_000 // len(piece))
    started = time.process_time()
    find(text)
    assert time.process_time() - started < 1.5


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("/" + "reset" * 20_000, id="one part of a path"),
        pytest.param("\\" * 100_000 + "%41", id="backslashes"),
        pytest.param("ab://b:" + "c" * 100 + "/@" + "a." * 5_000 + "!", id="one host"),
    ],
)
def test_one_long_part_costs_in_proportion(text: str) -> None:
    started = time.process_time()
    find(text)
    assert time.process_time() - started < 1.5


def test_a_long_value_is_found_to_its_end() -> None:
    text = f"SESSION_TOKEN={'a1B2' * 500}. token: {'c3D4' * 500}, done"
    assert [text[each.start : each.end] for each in find(text)] == ["a1B2" * 500, "c3D4" * 500]


def test_a_number_of_a_character_may_have_any_length() -> None:
    assert find("&#" + "9" * 5_000 + "; %41") == []


@given(st.text(alphabet=st.sampled_from("aA1 @.:-+/=_[]\\\"'\n4é") | st.characters()))
def test_findings_are_ordered_and_apart(text: str) -> None:
    end = 0
    for finding in find(text):
        assert end <= finding.start < finding.end <= len(text)
        end = finding.end


@given(
    st.lists(st.sampled_from((*PIECES, "bob@example.com", "8.8.8.8", " (415) 555-2671", ":pw@"))),
    st.sets(st.sampled_from(DataKind)),
)
def test_some_kinds_are_found_as_among_all(pieces: list[str], kinds: set[DataKind]) -> None:
    """A password in an address that looks like an e-mail address is none, whether passwords are wanted or not."""
    text = "".join(pieces)
    assert find(text, kinds) == [each for each in find(text) if each.kind in kinds]


def _texts(value: Json) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            yield from _texts(list(value.values()))


def test_of_a_hundred_conversations_the_addresses_are_found_and_nothing_else() -> None:
    """Orders, prices, dates, flights and ids of a million characters stay; the customers' e-mail addresses go."""
    found, expected = [], []
    for text in _texts(published("taubench/gpt-4o-airline-tasks-00-24.json")):
        found += [(finding.kind, text[finding.start : finding.end]) for finding in find(text)]
        expected += [(DataKind.EMAIL, word) for word in re.findall(r"[a-z0-9._]+@[a-z]+\.com", text)]
    assert len(expected) > 50
    assert found == expected


@pytest.mark.parametrize(
    "text",
    [
        "order 54362315A",  # A check letter that is wrong.
        "ref 390.533.447-06",
        "880320-0017",
        "131052-308U",
        "756.9217.0769.84",
        "part 12.531.909-3",
        "2024-05-08 to 2025-01-31",
        "batch 710399/2745",
        "run 20241108 took 12.345.678 ns",
    ],
)
def test_numbers_that_are_no_ids_stay(text: str) -> None:
    assert find(text) == []


def test_a_prefilter_reads_capitals_as_a_search_in_lower_case_does() -> None:
    prefilter = Prefilter.of(PERSONAL_RULES)
    assert prefilter is not None, "each rule for personal data has a sign"
    letters = {letter for each in PERSONAL_RULES for sign in each.signs for letter in sign if letter != " "}
    automaton = Prefilter.of([rule(DataKind.EMAIL, " ".join(sorted(letters)), "x")])
    assert automaton is not None
    missed = [
        chr(code)
        for code in range(sys.maxunicode + 1)
        if not letters.isdisjoint(chr(code).lower()) and not automaton.look(chr(code))[0]
    ]
    assert missed == []


@pytest.mark.parametrize("text", ["\ud800 bob@example.com", "\u0130 bob@example.com"])
def test_what_the_prefilter_cannot_read_is_searched(text: str) -> None:
    assert [match.kind for match in find(text, PERSONAL)] == [DataKind.EMAIL]


@pytest.mark.parametrize("sign", [None, r"\w{3}", "(?=a)b"])
def test_there_is_no_prefilter_for_a_rule_without_a_sign_that_re2_reads_alike(sign: str | None) -> None:
    assert Prefilter.of([*PERSONAL_RULES, rule(DataKind.EMAIL, "", "x", sign=sign)]) is None
