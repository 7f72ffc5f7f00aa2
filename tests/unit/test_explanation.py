"""Every status of an outcome is explained, with advice."""

from typing import Any, cast

import pytest
from agenteval_collector.serve.api.explanation import Note, about_outcome, about_outcomes, about_trace, about_visibility
from agenteval_collector.serve.api.trace_documents import TraceDocument

from tests.support.memory_queries import GOOD_TRACE, finding, label, outcome, seen, trace, turn, unjudged


def judged(status: str, reason: str, **changes: Any) -> Note:
    return about_outcome(outcome("confidence", None, reason, status=status, method="llm", **changes))


@pytest.mark.parametrize(
    ("note", "says", "advises"),
    [
        pytest.param(
            judged("pending", "waiting for the judge, escalated for turn_failed", model="gpt-4o-mini"),
            "confidence (llm by gpt-4o-mini, version 1) has not answered yet: waiting for the judge, escalated for",
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
            about_outcome(
                outcome("confidence", 0.8, "sure", method="llm", part="random", metadata={"probability": 0.1})
            ),
            "scored 0.80, drawn at random with probability 0.1: sure",
            None,
            id="drawn at random",
        ),
        pytest.param(
            about_outcome(outcome("confidence", 0.8, "sure", method="llm", part="escalated")),
            "scored 0.80, judged for the findings in its session, so it counts in no pass rate: sure",
            None,
            id="escalated",
        ),
        pytest.param(
            judged("over_budget", "requests_per_hour is spent until 10:00"),
            "the budget is spent: requests_per_hour",
            "judge.budget",
            id="over budget",
        ),
    ],
)
def test_an_outcome_is_explained(note: Note, says: str, advises: str | None) -> None:
    assert says in note.text
    assert (note.advice is None) == (advises is None)
    assert (advises or "") in (note.advice or "")


def test_content_that_could_not_be_read_is_not_said_to_be_missing_in_the_recording() -> None:
    unread = judged("no_content", "the answer could not be read: 1 recorded values are messages in no known form")
    assert "the content it reads is missing: the answer could not be read: 1 recorded values" in unread.text
    sight = about_visibility(trace(GOOD_TRACE, "s", began=0, seen=seen(answers="none")))
    assert "recorded" not in sight.text


def test_what_takes_a_judge_is_said_once() -> None:
    outcomes = [outcome("coherence", 0.5, "close"), *unjudged("confidence", "plan_quality", "task_completion")]
    labels = [label("confidence", 0.0, "ann")]
    document = trace(GOOD_TRACE, "s", turn("hi", "yes"), began=0, outcomes=outcomes, labels=labels)
    scored, said, missing = about_outcomes(document)
    assert scored.text.startswith("coherence (embedding, version 1) scored 0.50: close")
    assert said.text == "ann says that confidence is 0.00."
    assert missing.text == "3 scores need a judge: confidence, plan_quality, task_completion."
    assert "judge.base_url" in (missing.advice or "")


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


def test_findings_come_first_and_say_where_to_change_what_they_mean() -> None:
    observed = finding("cycle", "warning", mode="observe", agent=None, span_id=None, reason="2 calls, 3 times over")
    failed = finding("tool_failed", "warning", turn=2, reason="lookup failed: timeout")
    loop, seen, failure, sight, standing, *_ = about_trace(
        trace(GOOD_TRACE, "s", began=0, findings=[observed, failed, finding()])
    )
    assert loop.text.startswith(
        "Error of travel_agent: identical_call in turn 1, span b7ad6b7169203331: get_weather was"
    )
    assert "loops.identical_call" in (loop.advice or "")
    assert seen.text == "Warning (only observed): cycle in turn 1: 2 calls, 3 times over."
    assert "tool_failed in turn 3" in failure.text
    assert "findings.tool_failed" in (failure.advice or "")
    assert sight.text.startswith("Recorded, and looked at: answers, arguments of tool calls, results")
    assert standing.text.startswith(f"Trace {GOOD_TRACE} is scored")


@pytest.mark.parametrize(
    ("document", "text", "advises"),
    [
        pytest.param(
            trace(GOOD_TRACE, "s", began=0, seen=seen(results="none", finish_reasons="some")),
            "No finding. Not looked for: failures told in a result, repeated results (results of tool calls: not seen)"
            "; answers that were cut (reasons why the model stopped: seen in part).",
            True,
            id="content was switched off",
        ),
        pytest.param(
            trace(GOOD_TRACE, "s", began=0, seen=seen(finish_reasons="none", history=None)),
            "No finding. Not looked for: answers that were cut (reasons why the model stopped: not seen).",
            False,
            id="what no switch turns on",
        ),
        pytest.param(
            trace(GOOD_TRACE, "s", began=0, status="running", complete=False),
            "No finding so far. Only loops are looked for until it is complete.",
            False,
            id="a trace that runs",
        ),
    ],
)
def test_what_could_not_be_seen_is_said(document: TraceDocument, text: str, advises: bool) -> None:
    note = about_visibility(document)
    assert note.text == text
    assert (note.advice is not None) is advises


def test_an_agent_that_died_in_the_middle_is_reported_as_such() -> None:
    spans = [{"span_id": "b7ad6b7169203331", "name": "search", "started_at": "2026-03-02T09:00:00.000000Z"}]
    reason = "the agent died in the middle: there were open: search (since 2026-03-02T09:00:00Z)"
    running = trace(GOOD_TRACE, "s", began=0, status="running", complete=False, open_spans=spans)
    alive = next(note for note in about_trace(running) if "'search'" in note.text)
    assert (alive.text, alive.advice) == ("1 of its spans have begun and not ended, the first is 'search'.", None)
    over = {"status": "unscored", "complete": True, "partial": True, "status_reason": reason}
    for spans_arrived, last in ((0, "No span of it has arrived."), (2, "None of its 2 spans is GenAI telemetry")):
        notes = about_trace(trace(GOOD_TRACE, "s", began=0, open_spans=spans, span_count=spans_arrived, **over))
        _sight, standing, died, completeness, content, *_ = notes
        assert standing.text.endswith("has no score.")
        assert died.text == "The agent died in the middle: there were open: search (since 2026-03-02T09:00:00Z)."
        assert died.advice is not None
        assert completeness.text == f"No more of it is expected than the {spans_arrived} spans that came before."
        assert content.text.startswith(last)
        assert not any("cut on the way" in note.text for note in notes)


@pytest.mark.parametrize(
    ("changes", "says", "advised"),
    [
        pytest.param({}, "Its spans name session s. (Of several", False, id="a session that is named"),
        pytest.param(
            {"names_session": False, "session_id": GOOD_TRACE},
            "so it begins a session of its own",
            True,
            id="none, and no other trace",
        ),
        pytest.param(
            {"names_session": False},
            "Its messages go on from those of an earlier trace, so it belongs to session s.",
            True,
            id="none, but messages",
        ),
        pytest.param(
            {"continues_turn": True, "turn_goes_on": True},
            "Its turn began in an earlier trace and goes on in a later one",
            True,
            id="a model call in the middle of a turn",
        ),
        pytest.param({"turn_goes_on": True}, "Its turn begins here and goes on in a later one", True, id="first call"),
        pytest.param({"continues_turn": True}, "began in an earlier trace and ends here", True, id="the last call"),
        pytest.param(
            {"input": None, "output": None, "continues_turn": True, "turn_goes_on": True},
            "no span is around all of it.",
            True,
            id="neither a question nor an answer is to be expected",
        ),
        pytest.param(
            {"input": None, "output": None},
            "It has neither an input nor an output that can be read.",
            True,
            id="no content",
        ),
    ],
)
def test_what_the_telemetry_lacks_is_said_with_the_page_that_helps(
    changes: dict[str, Any], says: str, advised: bool
) -> None:
    document = cast("TraceDocument", {**trace(GOOD_TRACE, "s", turn("hi", "yes"), began=0), **changes})
    notes = list(about_trace(document))
    note = next(note for note in notes if says in note.text)
    assert ("docs/telemetry.md" in (note.advice or "")) is advised
    assert sum("content" in (note.advice or "") for note in notes) == ("neither" in says)


def test_a_trace_that_runs_tells_what_it_waits_for_and_gives_no_advice_on_content_meanwhile() -> None:
    asked = trace(GOOD_TRACE, "s", turn(None, None), began=0, status="running", complete=False)
    waiting = asked.copy()
    waiting["waits_for"] = ["the log records of chat spans of shop (lib)", "a parent"]
    advice = "It has neither an input nor an output that can be read."
    assert advice in [note.text for note in about_trace(asked)]
    texts = [note.text for note in about_trace(waiting)]
    assert advice not in texts
    assert [text for text in texts if "waits for" in text] == [
        "It waits for the log records of chat spans of shop (lib).", "It waits for a parent."
    ]  # fmt: skip


def test_what_is_known_of_senders_is_told_in_sentences() -> None:
    closed = {"by": "root", "reason": "all had come", "senders": ["it is not known whether a parent comes"]}
    texts = [note.text for note in about_trace(trace(GOOD_TRACE, "s", began=0, closing=closed))]
    assert "It is not known whether a parent comes." in texts


def test_a_turn_in_one_trace_needs_no_word() -> None:
    notes = about_trace(trace(GOOD_TRACE, "s", turn("hi", "yes"), began=0))
    assert not any("Its turn" in note.text for note in notes)
