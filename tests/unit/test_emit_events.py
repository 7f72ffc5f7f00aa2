from dataclasses import replace
from typing import Any

import pytest
from agenteval_collector.emit.events import events_of
from agenteval_collector.model.news import CommittedEvaluation, Event, News

from otel_agenteval.finding import Mode, Severity
from otel_agenteval.outcome import Failure, Score, Status, SubjectKind, Unscored
from tests.support.evaluations import SPAN_ID, TRACE_ID, committed
from tests.support.findings import finding, loop_found


def told(*evaluations: CommittedEvaluation) -> list[Event]:
    return events_of(News(evaluations=evaluations))


def the_attributes(event: Event) -> dict[str, Any]:
    """Those of the event but its id."""
    attributes = dict(event.attributes)
    assert attributes.pop("agenteval.event.id") == event.event_id
    return attributes


def test_a_score_is_an_event_on_the_evaluated_span() -> None:
    [event] = told(committed(model="static"))
    assert (event.session_id, event.trace_id, event.span_id) == ("s-1", TRACE_ID, SPAN_ID)
    assert event.at == 1_700_000_000_000_000_000
    assert the_attributes(event) == {
        "gen_ai.evaluation.name": "coherence",
        "gen_ai.evaluation.score.value": 0.75,
        "gen_ai.evaluation.score.label": "pass",
        "gen_ai.evaluation.explanation": "answers the question",
        "gen_ai.conversation.id": "s-1",
        "gen_ai.agent.name": "planner",
        "agenteval.subject": "trace",
        "agenteval.status": "scored",
        "agenteval.evaluation.method": "embedding",
        "agenteval.evaluation.coverage": 1.0,
        "agenteval.evaluation.threshold": 0.5,
        "agenteval.evaluation.revision": 1,
        "agenteval.evaluator.version": "1",
        "agenteval.evaluator.model": "static",
        "agenteval.service.name": "shop",
        "agenteval.service.version": "1.2.0",
    }


def test_a_failure_has_an_error_type_and_neither_value_nor_label() -> None:
    [event] = told(committed(outcome=Failure(error_type="timeout", reason="no answer in 30 s")))
    assert event.attributes["error.type"] == "timeout"
    assert event.attributes["gen_ai.evaluation.explanation"] == "no answer in 30 s"
    assert not {"gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label"} & set(event.attributes)


def test_what_is_unscored_says_why_and_is_no_error() -> None:
    [event] = told(committed(outcome=Unscored(status=Status.NO_CONTENT, reason="no text was recorded")))
    assert event.attributes["agenteval.status"] == "no_content"
    unexpected = {"error.type", "gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label"}
    assert not unexpected & set(event.attributes)


@pytest.mark.parametrize("status", [Status.NO_JUDGE, Status.PENDING])
def test_what_is_no_result_is_no_event(status: Status) -> None:
    none = committed(outcome=Unscored(status=status, reason="not yet, or never"))
    assert [each.attributes["agenteval.status"] for each in told(none, committed())] == ["scored"]


def test_a_score_without_a_threshold_has_no_label() -> None:
    [event] = told(committed(threshold=None))
    assert event.attributes["gen_ai.evaluation.score.value"] == 0.75
    assert not {"gen_ai.evaluation.score.label", "agenteval.evaluation.threshold"} & set(event.attributes)


def test_every_revision_is_emitted_and_a_final_score_was_before() -> None:
    session = committed(subject=SubjectKind.SESSION, revision=3, first=False)
    events = told(committed(), committed(revision=2, first=False), session, replace(session, final=True))
    assert [each.attributes["agenteval.evaluation.revision"] for each in events] == [1, 2, 3]


def test_without_a_span_the_event_is_still_on_the_trace() -> None:
    [event] = told(committed(span_id=None))
    assert (event.trace_id, event.span_id) == (TRACE_ID, "")


def test_the_goal_of_a_session_is_on_no_trace() -> None:
    about: dict[str, Any] = {"name": "goal_success", "subject": SubjectKind.SESSION, "subject_id": "s-1"}
    [event] = told(committed(**about, trace_id=None, span_id=None))
    attributes = event.attributes
    assert (attributes["gen_ai.conversation.id"], attributes["agenteval.subject"]) == ("s-1", "session")
    assert not any("trace" in name for name in attributes)
    assert (event.trace_id, event.span_id) == ("", "")


def test_hostile_text_is_cut_and_can_be_encoded() -> None:
    outcome = Score(value=1.0, reason="\ud800" * 1_000_000)
    [event] = told(committed(outcome=outcome, agent="a" * 1_000_000, session_id="\udfff" * 1_000_000))
    assert sum(len(value.encode()) for value in event.attributes.values() if isinstance(value, str)) < 5_000
    assert str(event.attributes["gen_ai.evaluation.explanation"]).endswith("…")
    event.session_id.encode()


def test_a_loop_is_an_event_on_the_span_that_completed_it() -> None:
    loop = loop_found(trace_id=TRACE_ID, span_id=SPAN_ID, reason="\ud800" + "x" * 5000)
    [event] = events_of(News(counted=[loop]))
    assert (event.trace_id, event.span_id) == (TRACE_ID, SPAN_ID)
    attributes = the_attributes(event)
    assert len(str(attributes.pop("gen_ai.evaluation.explanation"))) == 1024
    assert attributes == {
        "gen_ai.evaluation.name": "loop_detection",
        "gen_ai.evaluation.score.label": "fail",
        "gen_ai.conversation.id": "s-1",
        "gen_ai.agent.name": "planner",
        "agenteval.finding.kind": "identical_call",
        "agenteval.finding.severity": "error",
        "agenteval.loop.kind": "identical_call",
        "agenteval.loop.mode": "alarm",
        "agenteval.service.name": "shop",
        "agenteval.service.version": "1.2.0",
    }


def test_of_other_findings_errors_are_events_and_what_was_told_live() -> None:
    found = [
        finding(kind="turn_failed", severity=Severity.ERROR, span_id=None),
        finding(kind="tool_failed"),
        finding(kind="answer_cut", mode=Mode.OBSERVE),
    ]
    events = events_of(News(counted=found))
    assert [each.attributes["gen_ai.evaluation.name"] for each in events] == ["turn_failed", "answer_cut"]
    assert not {"agenteval.loop.kind", "agenteval.loop.mode"} & set().union(*(each.attributes for each in events))


def test_what_is_found_again_is_the_same_event() -> None:
    [first], [again] = told(committed()), told(committed(evaluated_at=1_800_000_000_000_000_000, first=False))
    assert first.event_id == again.event_id


@pytest.mark.parametrize(
    "change",
    [
        {"subject_id": "another"},
        {"name": "loop_detection"},
        {"version": "2"},
        {"revision": 2},
        {"span_id": None},
        {"outcome": Score(value=0.5, reason="answers the question", coverage=1.0)},
    ],
)
def test_what_says_something_else_is_another_event(change: dict[str, Any]) -> None:
    assert told(committed())[0].event_id != told(committed(**change))[0].event_id


def test_two_tenants_have_no_event_in_common_whatever_they_send() -> None:
    news = News(evaluations=[committed()], counted=[finding(severity=Severity.ERROR)])
    own, other = events_of(news), events_of(news, "a")
    assert not {each.event_id for each in own} & {each.event_id for each in other}
    assert {each.attributes.get("agenteval.tenant") for each in own} == {None}
    assert {each.attributes.get("agenteval.tenant") for each in other} == {"a"}
