"""Which values count as said before."""

import pytest
from agenteval_collector.evaluation.findings.grounding import SaidValues, looked_up
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.model import Json


@pytest.mark.parametrize(
    ("said", "used"),
    [
        pytest.param("Order TP531, please", "tp531", id="in other case"),
        pytest.param("Order TP 531, please", "TP531", id="with a space in it"),
        pytest.param("code QX-7K2", "QX7K2", id="without its separator"),
        pytest.param("order 7731", "order-7731", id="with a word before it"),
        pytest.param("order #7731", "#7731", id="with its sign"),
        pytest.param("user mia_li_3668", "mia_li_3668", id="word for word"),
        pytest.param("It costs $1,234.50", 1234.5, id="a number with separators and currency"),
        pytest.param("Es kostet 1.234,50 €", 1234.5, id="a number as Germans write it"),
        pytest.param("It costs 1200.00", 1200, id="a number with decimal zeros"),
        pytest.param("It costs 298 euros", 29800, id="a price in cents"),
        pytest.param("The total is 1'250'000 CHF", 1250000, id="a number as the Swiss write it"),
    ],
)
def test_a_value_was_said_in_whatever_form(said: str, used: str | float) -> None:
    conversation = SaidValues()
    assert conversation.lacks(used)
    conversation.add(said)
    assert not conversation.lacks(used)


@pytest.mark.parametrize(
    ("said", "used"),
    [
        pytest.param("order 7731", "7732", id="another number"),
        pytest.param("order 7731", 77310, id="ten times the number"),
        pytest.param("code QX7K2", "QX7K3", id="another code"),
        pytest.param("user mia_li_3668", "mia_li_3669", id="another user"),
    ],
)
def test_what_was_not_said_is_found_out(said: str, used: str | float) -> None:
    conversation = SaidValues()
    conversation.add(said)
    assert conversation.lacks(used)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({"n": 2, "m": 99.5, "yes": True, "none": None}, [], id="small numbers and what is none"),
        pytest.param({"day": "2026-05-20", "at": "09:40", "by": "20.05.2026"}, [], id="dates and times"),
        pytest.param({"text": "room 312 please", "city": "Lisbon"}, [], id="free text and words"),
        pytest.param({"a": [{"id": "TP531"}], "n": -1500}, ["TP531", -1500], id="identifiers and numbers, nested"),
    ],
)
def test_identifiers_and_numbers_are_looked_up(arguments: Json, expected: list[str | int]) -> None:
    assert list(looked_up(arguments)) == expected


@given(st.text(max_size=60), st.integers(100, 10**12))
def test_a_number_that_was_said_is_found_whatever_stands_around_it(around: str, number: int) -> None:
    conversation = SaidValues()
    conversation.add(f"{around} {number} {around}")
    assert not conversation.lacks(number)
    assert not conversation.lacks(str(number))
