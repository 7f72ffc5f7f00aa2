"""Spans that no dialect knows: by the settings of the user, or by names that say what they hold."""

from typing import Any

import pytest
from agenteval_collector.app.scoring import trace_reader
from agenteval_collector.config.settings import ReadingsConfig, Settings
from pydantic import ValidationError

from otel_agenteval.conventions.own_readings import FACTS, PARTS, OwnReadings
from otel_agenteval.conventions.spans import STATUS_ERROR, SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import Trace
from tests.support.otlp import span
from tests.support.scoring import assembled

OWN = OwnReadings(
    attributes={
        "acme.chat": "session",
        "acme.in": "input",
        "acme.out": "output",
        "acme.fn": "tool",
        "acme.llm": "model",
        "acme.sent": "input_tokens",
    },
    spans={"acme.turn": "agent", "acme.ask": "model", "acme.do *": "tool"},
)


def unknown(status: int = 0, **attributes: Any) -> Trace:
    written = {key.replace("__", "."): value for key, value in attributes.items()}
    made = SpanRecord(
        span_id="1", name="POST /chat", attributes=written, status=status, status_message="boom" * bool(status)
    )
    return read_trace("t", [made])


def test_settings_teach_a_framework_in_one_line_for_each_key() -> None:
    spans = [
        SpanRecord(span_id="1", name="acme.turn", attributes={"acme.in": "hi", "acme.out": "yes", "acme.chat": "s-7"}),
        SpanRecord(span_id="2", parent_id="1", name="acme.ask", attributes={"acme.llm": "m", "acme.sent": 7}),
        SpanRecord(
            span_id="3",
            parent_id="1",
            name="acme.do x",
            attributes={"acme.fn": "find", "acme.in": '{"q": 1}', "acme.out": "2"},
        ),
    ]
    trace = read_trace("t", [OWN.translate(each) for each in spans])
    [turn] = trace.turns
    assert (trace.session_id, turn.input, turn.output) == ("s-7", "hi", "yes")
    assert [(call.name, call.arguments, call.result) for call in turn.tool_calls] == [("find", {"q": 1}, "2")]
    assert [(call.model, call.usage and call.usage.input_tokens) for call in turn.model_calls] == [("m", 7)]


def test_a_span_of_which_the_settings_say_nothing_stays_as_it_is() -> None:
    made = SpanRecord(span_id="1", name="other", attributes={"a": 1})
    assert OWN.translate(made) is made
    assert OwnReadings().translate(made) is made


def test_an_attribute_of_the_conventions_counts_before_the_users() -> None:
    made = SpanRecord(span_id="1", attributes={"acme.llm": "mine", "gen_ai.request.model": "theirs"})
    assert OWN.translate(made).attributes["gen_ai.request.model"] == "theirs"


def test_the_collector_reads_by_the_settings() -> None:
    readings = ReadingsConfig(attributes={"acme.in": "input", "acme.chat": "session"}, spans={"acme.turn": "agent"})
    reader = trace_reader(Settings(readings=readings))
    turn = span(1, 1, acme__in="hi", acme__chat="s-7")
    turn.name = "acme.turn"
    trace = reader.read(assembled(turn))
    assert (trace.session_id, [turn.input for turn in trace.turns]) == ("s-7", ["hi"])


@pytest.mark.parametrize("fact", FACTS)
def test_every_fact_can_be_set(fact: str) -> None:
    assert ReadingsConfig(attributes={"x": fact}).attributes == {"x": fact}


@pytest.mark.parametrize("part", PARTS)
def test_every_part_can_be_set(part: str) -> None:
    assert ReadingsConfig.model_validate({"spans": {"x": part}}).spans == {"x": part}


def test_a_fact_that_there_is_not_is_named() -> None:
    with pytest.raises(ValidationError, match="answers is no fact: it is one of session"):
        ReadingsConfig(attributes={"x": "answers"})


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param({"app__input": "hi", "app__output": "yes"}, id="input and output"),
        pytest.param({"user_prompt": "hi", "agent_response": "yes"}, id="in other words"),
        pytest.param({"acme__question__text": "hi", "acme__finalAnswer": "yes"}, id="in a case of its own"),
        pytest.param({"chat__input": "hi", "chat__output": "yes", "http__request__body": "no"}, id="beside a server's"),
    ],
)
def test_a_question_and_an_answer_under_unknown_names_are_a_turn(attributes: dict[str, str]) -> None:
    assert [(turn.input, turn.output) for turn in unknown(0, **attributes).turns] == [("hi", "yes")]


def test_a_failed_root_of_a_known_session_is_a_turn_that_failed() -> None:
    assert [turn.error for turn in unknown(STATUS_ERROR, session__id="s-7").turns] == ["boom"]


@pytest.mark.parametrize(
    ("status", "attributes"),
    [
        pytest.param(STATUS_ERROR, {"http__route": "/x"}, id="a server's error without a session"),
        pytest.param(0, {"session__id": "s-7"}, id="a session and nothing said"),
        pytest.param(0, {"app__input": "hi"}, id="only a question"),
        pytest.param(0, {"db__query__text": "select 1", "db__response": "1"}, id="a database's query"),
        pytest.param(0, {"input_tokens": 3, "output_tokens": 4}, id="numbers"),
    ],
)
def test_a_trace_that_nothing_shows_to_be_an_agents_has_no_turn(status: int, attributes: dict[str, Any]) -> None:
    assert unknown(status, **attributes).turns == ()
