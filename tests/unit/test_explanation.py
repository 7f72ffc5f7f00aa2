"""What is said of an outcome in every status, and what to do about it."""

from typing import Any

import pytest
from agenteval_collector.api.explanation import Note, about_outcome, about_outcomes, about_trace

from tests.support.memory_queries import GOOD_TRACE, finding, found, label, outcome, trace, turn


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
            judged("no_judge", "this collector has no judge: set judge.base_url or judge.api_key"),
            "confidence (llm, version 1) takes a judge: this collector has no judge: set judge.base_url",
            "agenteval judge TRACE",
            id="no judge",
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
        "ann says that confidence is 0.00: it guessed",
        "bob says that confidence is 1.00.",
    ]


def test_loops_come_first_and_say_where_to_change_the_rule() -> None:
    observed = finding(kind="cycle", mode="observe", agent=None, reason="the same 2 calls were made 3 times over")
    loop, seen, standing, *_ = about_trace(trace(GOOD_TRACE, "s", began=0, **found(finding(), observed)))
    assert loop.text.startswith("Loop of travel_agent: identical_call on span b7ad6b7169203331: get_weather was")
    assert "loops.identical_call" in (loop.advice or "")
    assert seen.text.startswith("Loop (only observed): cycle on span")
    assert standing.text.startswith(f"Trace {GOOD_TRACE} is scored")


def test_an_agent_that_died_in_the_middle_is_reported_as_such() -> None:
    spans = [{"span_id": "b7ad6b7169203331", "name": "search", "started_at": "2026-03-02T09:00:00.000000Z"}]
    reason = "the agent died in the middle: there were open: search (since 2026-03-02T09:00:00Z)"
    running = trace(GOOD_TRACE, "s", began=0, status="running", complete=False, open_spans=spans)
    alive = next(note for note in about_trace(running) if "'search'" in note.text)
    assert (alive.text, alive.advice) == ("1 of its spans have begun and not ended, the first is 'search'.", None)
    over = {**running, "status": "unscored", "complete": True, "partial": True, "status_reason": reason}
    for spans_arrived, last in ((0, "No span of it has arrived."), (2, "None of its 2 spans is GenAI telemetry")):
        notes = about_trace({**over, "span_count": spans_arrived, "turns": [], "input": None, "output": None})
        standing, died, completeness, content, *_ = notes
        assert standing.text.endswith("has no score.")
        assert died.text == "The agent died in the middle: there were open: search (since 2026-03-02T09:00:00Z)."
        assert died.advice is not None
        assert completeness.text == f"No more of it is expected than the {spans_arrived} spans that came before."
        assert content.text.startswith(last)
        assert not any("cut on the way" in note.text for note in notes)
