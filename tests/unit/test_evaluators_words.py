"""confidence and task_completion without a judge."""

import time

import pytest
from agenteval_collector.evaluators import phrases
from agenteval_collector.evaluators.confidence import Confidence
from agenteval_collector.evaluators.port import TraceEvaluator
from agenteval_collector.evaluators.task_completion import TaskCompletion

from otel_agenteval.model import Turn
from otel_agenteval.outcome import Status
from tests.support.evaluating import call, evaluate, status, trace, turn, value

QUESTION = "What is the weather in Lisbon going to be tomorrow?"
ANSWER = "Tomorrow the weather in Lisbon is sunny and warm."
FAILED = call("get_weather", {"city": "Lisbon"}, error="timed out")


@pytest.mark.parametrize(
    ("subject", "expected", "evidence"),
    [
        pytest.param(turn(QUESTION, ANSWER), 1.0, "no hedge", id="plain words"),
        pytest.param(turn(QUESTION, "I think it is sunny in Lisbon."), 0.0, '"i think it is', id="a hedge"),
        pytest.param(turn(QUESTION, f"{ANSWER} It might rain in the evening."), 0.5, "might", id="one of two"),
        pytest.param(turn(QUESTION, "I’m not sure about it.\nThe sun is out."), 0.5, "sure", id="a curly apostrophe"),
        pytest.param(turn(QUESTION, ANSWER, FAILED, FAILED), 0.8, "call 2, get_weather", id="a retry in vain"),
        pytest.param(turn(QUESTION, ANSWER, FAILED, call(arguments={})), 1.0, "no hedge", id="another call"),
        pytest.param(
            turn(QUESTION, f"Sorry for the confusion. {ANSWER}"),
            0.8,
            "corrects itself",
            id="a correction",
        ),
        pytest.param(
            turn(QUESTION, ANSWER, plan=("Plan: 1. a 2. b", "Revised plan: 1. c 2. d")),
            *(0.8, 'plan given up: "revised plan"'),
            id="a plan given up",
        ),
    ],
)
def test_confidence_is_in_words_and_ways(subject: Turn, expected: float, evidence: str) -> None:
    outcome = evaluate(Confidence, trace(subject))
    assert value(outcome) == pytest.approx(expected)
    assert evidence in outcome.reason


@pytest.mark.parametrize(
    ("answer", "english"),
    [
        pytest.param("Done.", True, id="short"),
        pytest.param(ANSWER, True, id="English"),
        pytest.param("Morgen wird das Wetter in Lissabon sonnig und warm.", False, id="German"),
        pytest.param("Mañana el tiempo en Lisboa será soleado y cálido.", False, id="Spanish"),
        pytest.param("明天里斯本天气晴朗", False, id="Chinese"),
    ],
)
def test_only_english_answers_have_a_confidence(answer: str, english: bool) -> None:
    outcome = evaluate(Confidence, trace(turn(QUESTION, answer)))
    assert (status(outcome) is Status.SCORED) == english
    assert english or "not in English" in outcome.reason


@pytest.mark.parametrize(
    ("subject", "expected", "evidence"),
    [
        pytest.param(turn(QUESTION, ANSWER), 1.0, "takes a judge", id="no sign of failure"),
        pytest.param(turn(QUESTION, None, error="overloaded"), 0.0, "the turn failed: overloaded", id="an error"),
        pytest.param(turn(QUESTION, " "), 0.0, "the answer is empty", id="an empty answer"),
        pytest.param(turn(QUESTION, "I cannot tell you the weather."), 0.2, 'refuses: "i cannot"', id="a refusal"),
        pytest.param(
            turn(QUESTION, "Let me transfer you to a colleague."), 0.2, "hands over", id="a hand-off in words"
        ),
        pytest.param(
            turn(QUESTION, "One moment.", call("transfer_to_human_agents", {})),
            *(0.2, "hands over by calling transfer_to_human_agents"),
            id="a hand-off by a call",
        ),
        pytest.param(turn(QUESTION, "Invoice numbers have eight digits."), 0.4, "nothing to do", id="unrelated"),
        pytest.param(
            turn("Yes, please.", "Your flight is booked."), 1.0, "no error", id="a question that says nothing"
        ),
        pytest.param(turn(QUESTION, ANSWER, FAILED), 0.6, "the last tool call, get_weather, failed", id="failed end"),
        pytest.param(turn(QUESTION, ANSWER, FAILED, call(arguments={})), 1.0, "no error", id="made up for"),
    ],
)
def test_signs_against_completion(subject: Turn, expected: float, evidence: str) -> None:
    outcome = evaluate(TaskCompletion, trace(subject))
    assert value(outcome) == expected
    assert evidence in outcome.reason


def test_a_trace_has_the_mean_of_its_turns_and_names_the_worst() -> None:
    unknown = turn(QUESTION, None)
    outcome = evaluate(TaskCompletion, trace(turn(QUESTION, ANSWER), turn(QUESTION, ""), unknown))
    assert value(outcome) == 0.5
    assert outcome.reason == "the answer is empty"


@pytest.mark.parametrize("kind", [Confidence, TaskCompletion])
def test_what_was_not_recorded_is_not_scored(kind: type[TraceEvaluator]) -> None:
    assert status(evaluate(kind, trace(turn(QUESTION, None)))) is Status.NO_CONTENT
    assert status(evaluate(kind, trace())) is Status.NOT_APPLICABLE


@pytest.mark.parametrize(
    "unit", ["i ", "transfer ", "i'm not ", "a", "1. ", "contact our ", "sorry for the ", "\n", "?!"]
)
def test_long_texts_take_linear_time(unit: str) -> None:
    # What ends otherwise than it goes on makes a pattern try again from each place.
    text = unit * (1_000_000 // len(unit)) + "x"
    started = time.process_time()
    evaluate(Confidence, trace(turn(text, text, plan=(text,))))
    evaluate(TaskCompletion, trace(turn(text, text)))
    for pattern in (phrases.HEDGE, phrases.SELF_CORRECTION, phrases.ABANDONED_PLAN, phrases.REFUSAL, phrases.HAND_OFF):
        pattern.search(text)
    phrases.sentences(text)
    assert time.process_time() - started < 10
