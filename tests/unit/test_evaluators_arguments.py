"""argument_correctness without a judge: schemas, and values that were said before."""

import time

import pytest
from agenteval_collector.evaluators.argument_correctness import ArgumentCorrectness
from agenteval_collector.evaluators.grounding import Conversation, Said, looked_up
from agenteval_collector.evaluators.schemas import SchemaChecks, Uncheckable
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.model import Json, Tool
from otel_agenteval.outcome import Status
from tests.support.evaluating import call, evaluate, status, trace, turn, value

ORDER = Tool(
    name="get_order",
    parameters={
        "type": "object",
        "properties": {"order_id": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["order_id"],
    },
)


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
    conversation = Conversation(complete=True)
    assert conversation.has(used) is Said.NO
    conversation.add(said)
    assert conversation.has(used) is Said.YES


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
    conversation = Conversation(complete=True)
    conversation.add(said)
    assert conversation.has(used) is Said.NO


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
    conversation = Conversation(complete=True)
    conversation.add(f"{around} {number} {around}")
    assert conversation.has(number) is Said.YES
    assert conversation.has(str(number)) is Said.YES


@pytest.mark.parametrize(
    ("arguments", "expected", "evidence"),
    [
        pytest.param({"order_id": "7731"}, 1.0, "all arguments fit", id="as the user said"),
        pytest.param({"order_id": "9999"}, 0.0, "call 1, get_order, has 9999, which was not said", id="made up"),
        pytest.param({"order_id": 7731}, 0.0, "7731 is not of type 'string'", id="of the wrong type"),
        pytest.param({"count": 2}, 0.0, "'order_id' is a required property", id="without a required one"),
        pytest.param('{"order_id": "77', 0.0, "has arguments that are no JSON", id="broken JSON"),
    ],
)
def test_arguments_must_fit_and_have_been_said(arguments: Json, expected: float, evidence: str) -> None:
    found = evaluate(ArgumentCorrectness, trace(turn(None, "a", call(arguments=arguments)), tools=[ORDER]))
    asked = evaluate(ArgumentCorrectness, trace(turn("Order 7731?", "a", call(arguments=arguments)), tools=[ORDER]))
    assert value(asked) == expected
    assert evidence in asked.reason
    # What the user said is not known: nothing can be called made up.
    assert value(found) == (1.0 if "made up" in evidence or "not said" in evidence else expected)


def test_results_and_earlier_turns_are_sources_but_later_ones_are_not() -> None:
    found, used = call("find", {"q": "my order"}, {"order": "AB12345"}), call("open", {"id": "AB12345"})
    assert value(evaluate(ArgumentCorrectness, trace(turn("my order?", "a", found, used)))) == 1.0
    assert value(evaluate(ArgumentCorrectness, trace(turn("my order?", "a", used, found)))) == 0.0
    earlier = turn("hello", "Shall I open AB12345?")
    assert value(evaluate(ArgumentCorrectness, trace(earlier, turn("yes", "a", used)))) == 1.0


def test_system_instructions_and_tool_descriptions_are_sources() -> None:
    used = turn("hello", "a", call("open", {"id": "AB12345"}))
    assert value(evaluate(ArgumentCorrectness, trace(used, system_instructions="The customer is AB12345."))) == 1.0
    described = Tool(name="open", description="Opens an account such as AB12345")
    assert value(evaluate(ArgumentCorrectness, trace(used, tools=[described]))) == 1.0


@pytest.mark.parametrize(
    "changes",
    [pytest.param({"first": False}, id="later in a session"), pytest.param({"partial": True}, id="in a cut trace")],
)
def test_nothing_is_made_up_where_the_conversation_is_not_known_from_its_start(changes: dict[str, bool]) -> None:
    partial = changes.get("partial", False)
    subject = trace(turn("hello", "a", call("open", {"id": "AB12345"})), partial=partial)
    outcome = evaluate(ArgumentCorrectness, subject, first=changes.get("first", True))
    assert status(outcome) is Status.NOT_APPLICABLE
    assert "nothing to check" in outcome.reason


def test_nothing_is_made_up_after_a_result_that_was_not_recorded() -> None:
    unknown, used = call("find", {"q": "my order"}, None), call("open", {"id": "AB12345"})
    assert status(evaluate(ArgumentCorrectness, trace(turn("q", "a", unknown, used)))) is Status.NOT_APPLICABLE


def test_arguments_that_were_not_recorded_are_no_content() -> None:
    assert status(evaluate(ArgumentCorrectness, trace(turn("q", "a", call())))) is Status.NO_CONTENT


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


def test_a_hostile_trace_takes_no_longer_than_its_bounds() -> None:
    huge = call(arguments={"order_id": "7" * 1_000_000, "items": ["x1"] * 10_000}, result="9" * 1_000_000)
    many = [call(arguments={"order_id": f"A{number}"}) for number in range(10_000)]
    started = time.process_time()
    outcome = evaluate(ArgumentCorrectness, trace(turn("Order 7731?", "a", huge, *many), tools=[ORDER]))
    assert time.process_time() - started < 10
    assert len(outcome.reason) < 1_000


def test_what_the_model_was_sent_of_earlier_traces_is_a_source() -> None:
    subject = trace(turn("open it", "a", call("open", {"id": "AB12345"})), history=({"order": "AB12345"}, "open it"))
    assert value(evaluate(ArgumentCorrectness, subject, first=False)) == 1.0
    made_up = trace(turn("open it", "a", call("open", {"id": "AB99999"})), history=({"order": "AB12345"}, "open it"))
    assert value(evaluate(ArgumentCorrectness, made_up, first=False)) == 0.0
