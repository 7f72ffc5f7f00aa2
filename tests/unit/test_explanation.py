"""What is said of an outcome in every status, and what to do about it."""

from typing import Any

import pytest
from agenteval_collector.api.explanation import Note, about_outcome, about_outcomes

from tests.support.memory_queries import GOOD_TRACE, label, outcome, trace, turn


def judged(status: str, reason: str, **changes: Any) -> Note:
    return about_outcome(outcome("confidence", None, reason, status=status, method="llm", **changes))


@pytest.mark.parametrize(
    ("note", "says", "advises"),
    [
        pytest.param(
            judged("pending", "waiting for the judge, urgent: a turn failed", model="gpt-4o-mini"),
            "confidence (llm by gpt-4o-mini, version 1) has not answered yet: waiting for the judge, urgent: a turn",
            "judge.concurrency",
            id="pending says what it waits for",
        ),
        pytest.param(
            judged("failed", "no valid reply in 3 requests", error_type="malformed"),
            "failed with malformed: no valid reply in 3 requests",
            "judge.model",
            id="a judge that keeps to no form",
        ),
        pytest.param(
            judged("failed", "the spans are gone", error_type="spans_gone"),
            "failed with spans_gone",
            "log.retention",
            id="a judge that came too late",
        ),
        pytest.param(
            judged("failed", "host says 401", error_type="401"),
            "failed with 401",
            "judge.api_key",
            id="any other error",
        ),
        pytest.param(
            judged("sampled_out", "not among the 10 % that are judged"),
            "was left out by sampling: not among the 10 %",
            "judge.sample",
            id="sampled out",
        ),
        pytest.param(
            judged("over_budget", "requests_per_hour is spent until 10:00"),
            "the budget is spent: requests_per_hour",
            "judge.budget",
            id="over budget",
        ),
        pytest.param(
            about_outcome(outcome("confidence", 0.5, "two hedges", method="heuristic")),
            "confidence (heuristic, version 1) scored 0.50, at or above its threshold of 0.50: two hedges",
            "Found without a model",
            id="an evaluator without a model is called one",
        ),
    ],
)
def test_an_outcome_is_explained(note: Note, says: str, advises: str) -> None:
    assert says in note.text
    assert note.advice is not None
    assert advises in note.advice


def test_people_are_heard_after_the_evaluators_of_the_same_name() -> None:
    document = trace(
        GOOD_TRACE,
        "s",
        turn("hi", "yes"),
        began=0,
        outcomes=[
            outcome("coherence", 0.5, "close"),
            outcome("confidence", 0.5, "hedges", method="heuristic"),
            outcome("confidence", 0.9, "sure", method="llm"),
        ],
        labels=[
            label("coherence", 1.0),
            label("confidence", 0.0, "ann", "it guessed"),
            label("confidence", 1.0, "bob"),
        ],
    )
    assert [note.text.partition(" (")[0] for note in about_outcomes(document)] == [
        "coherence",
        "Somebody says that coherence is 1.00.",
        "confidence",
        "confidence",
        "ann says that confidence is 0.00: it guessed",
        "bob says that confidence is 1.00.",
    ]
