"""What is held back of hundreds of secrets, and what is left alone of hundreds of ordinary texts."""

import json

import pytest

from otel_agenteval.redaction import DataKind, Redactor, find
from otel_agenteval.redaction.personal_forms import PERSONAL_RULES
from otel_agenteval.redaction.secret_forms import RULES
from tests.support.redaction_corpus import Case, flat, held_back, ordinary

CASES = held_back()


def test_the_corpus_is_large_enough_to_say_something() -> None:
    assert len(CASES) >= 300
    assert len(ordinary()) >= 300
    assert all(case.secret in flat(case.value) for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}-{case.secret[:20]}")
def test_nothing_that_has_to_be_held_back_passes(case: Case) -> None:
    assert case.secret not in flat(Redactor().redact(case.value))
    assert case.secret not in flat(Redactor(key=b"k").redact(case.value))
    as_text = json.dumps({"result": case.value}, ensure_ascii=False)
    assert json.dumps(case.secret, ensure_ascii=False)[1:-1] not in flat(Redactor().redact(as_text))


def test_ordinary_texts_stay_as_they_are() -> None:
    assert [text for text in ordinary() if Redactor().redact(text) != text] == []


def test_without_personal_data_secrets_alone_are_replaced() -> None:
    redactor = Redactor(personal_data=False)
    assert redactor.redact("bob@example.com: password=hunter2") == "bob@example.com: password=[SECRET_1]"
    assert redactor.redact({"phone": "555 123 4567", "token": "a1b2c3d4e5"}) == {
        "phone": "555 123 4567",
        "token": "[SECRET_2]",
    }
    left = [case for case in CASES if case.kind == "personal" and redactor.redact(case.value) != case.value]
    assert left == []


def test_redacting_again_changes_nothing() -> None:
    for case in CASES:
        once = Redactor(key=b"k").redact(case.value)
        assert Redactor(key=b"k").redact(once) == once
        assert Redactor().redact(once) == once


def test_whatever_a_rule_finds_has_its_signs() -> None:
    """But for keys of AWS, which are taken for keys only where its name stands in the text."""
    for text in {flat(case.value) for case in CASES}:
        for rule in (*RULES, *PERSONAL_RULES):
            if "aws" not in rule.signs and list(rule.search(text)):
                assert rule.may_be_in(text, text.lower()), (rule, text)


def test_every_kind_is_in_the_corpus() -> None:
    assert {match.kind for case in CASES for match in find(flat(case.value))} == set(DataKind)
