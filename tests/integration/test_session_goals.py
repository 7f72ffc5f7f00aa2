"""Whether a session reached its goal: asked when it is over, once for all that was said in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.app.judge import make_judging
from agenteval_collector.model.judge_jobs import GOAL_SUCCESS, JudgeExchange

from otel_agenteval.outcome import Failure, SubjectKind
from tests.support.otlp import span, turn
from tests.support.referring import exchange, judged, judgement
from tests.support.scoring import IDLE, Scoring, assembled

pytestmark = pytest.mark.databases

JUDGE: dict[str, Any] = {"judge": {"base_url": "http://127.0.0.1:9/v1"}}


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    made = Scoring(tmp_path, **JUDGE)
    yield made
    made.close()


def put(scoring: Scoring, number: int) -> None:
    scoring.put(assembled(turn(number, f"what of {number}?", f"this is {number}", session="s")))


def over(scoring: Scoring) -> list[Any]:
    """The jobs about sessions, once all are idle."""
    scoring.referred.clear()
    scoring.clock.advance(IDLE + 1)
    scoring.stage.finalize(scoring.core.sessions.over())
    return [job for job in scoring.referred if job.subject is SubjectKind.SESSION]


def goal(scoring: Scoring) -> Any:
    found = [each for each in scoring.session("s")["outcomes"] if each["name"] == GOAL_SUCCESS]
    return found[0] if found else None


def test_a_session_is_asked_about_when_it_is_over_and_not_before(scoring: Scoring) -> None:
    put(scoring, 1)
    assert goal(scoring) is None
    [job] = over(scoring)
    assert (job.trace_id, job.revision) == ("s", 1)
    assert goal(scoring)["status"] == "pending"
    scoring.stage.store_judgements([judgement(job, judged(0.75))])
    assert (goal(scoring)["score"], goal(scoring)["success"]) == (0.75, True)
    counted = [each for each in scoring.emitted if each.evaluation.name == GOAL_SUCCESS and each.final]
    assert len(counted) == 1


def test_it_is_asked_about_again_only_after_more_was_said(scoring: Scoring) -> None:
    put(scoring, 1)
    [first] = over(scoring)
    scoring.restart()
    scoring.stage.finalize(["s"])
    assert [job for job in scoring.referred if job.subject is SubjectKind.SESSION] == [first]
    put(scoring, 2)
    scoring.stage.store_judgements([judgement(first, judged(0.25))])
    assert goal(scoring)["status"] == "pending", "what is said of the shorter session comes too late"
    [second] = over(scoring)
    assert second.revision == 2


def test_what_waits_is_taken_up_after_a_restart(scoring: Scoring) -> None:
    put(scoring, 1)
    [job] = over(scoring)
    scoring.clock.advance(1)
    found = scoring.store.pending_jobs(before=scoring.clock.now(), subject=SubjectKind.SESSION)
    assert found == [job]
    scoring.stage.store_judgements([judgement(job, judged(0.75))])
    assert scoring.store.pending_jobs(before=scoring.clock.now(), subject=SubjectKind.SESSION) == []


def test_while_it_waits_it_holds_up_no_other_score_of_the_session(scoring: Scoring) -> None:
    put(scoring, 1)
    for job in list(scoring.referred):
        scoring.stage.store_judgements([judgement(job, judged(0.75))])
    scoring.emitted.clear()
    over(scoring)
    final = [each.evaluation.name for each in scoring.emitted if each.final]
    assert sorted(final) == ["agent_consistency", "agent_reliability"]


def test_it_is_no_part_of_the_session_scores(scoring: Scoring) -> None:
    put(scoring, 1)
    for job in list(scoring.referred):
        scoring.stage.store_judgements([judgement(job, judged(0.75))])
    before = [each for each in scoring.session("s")["outcomes"] if each["name"] != GOAL_SUCCESS]
    [job] = over(scoring)
    scoring.stage.store_judgements([judgement(job, judged(0.0))])
    after = [each for each in scoring.session("s")["outcomes"] if each["name"] != GOAL_SUCCESS]
    assert [each["score"] for each in before] == [each["score"] for each in after]


@pytest.mark.parametrize(
    ("section", "status"),
    [
        pytest.param({"judge": {**JUDGE["judge"], "sample": 0.0}}, "sampled_out", id="outside the sample"),
        pytest.param({**JUDGE, "evaluators": {"goal_success": {"enabled": False}}}, None, id="switched off"),
        pytest.param({}, None, id="without a judge"),
    ],
)
def test_it_is_not_asked_where_sessions_are_not_judged(tmp_path: Path, section: Any, status: str | None) -> None:
    scoring = Scoring(tmp_path, **section)
    scoring.judging = make_judging(scoring.settings, scoring.store, scoring.telemetry)
    scoring.restart()
    put(scoring, 1)
    assert over(scoring) == []
    found = goal(scoring)
    assert (found and found["status"]) == status
    scoring.close()


def whole(number: int, revision: int, answer: str, *more: Any) -> Any:
    spoken = turn(number, f"what of {number}?", answer, session="s")
    return assembled(spoken, *more, revision=revision, offsets=range(1, revision + 1))


def test_a_late_revision_that_says_something_else_counts_as_going_on(scoring: Scoring) -> None:
    scoring.put(whole(1, 1, "it came"))
    [first] = over(scoring)
    scoring.stage.store_judgements([judgement(first, judged(0.75))])
    scoring.put(whole(1, 2, "it came", span(1, 9, parent=1)))
    assert over(scoring) == [], "it says the same"
    scoring.put(whole(1, 3, "it did not come", span(1, 9, parent=1)))
    assert goal(scoring)["score"] == 0.75, "until it is over again"
    [second] = over(scoring)
    assert (goal(scoring)["status"], second.revision) == ("pending", first.revision + 1)
    assert over(scoring) == [], "once in each time of rest"


def test_a_trace_that_leaves_the_session_counts_as_going_on(scoring: Scoring) -> None:
    put(scoring, 1)
    put(scoring, 2)
    [first] = over(scoring)
    left = assembled(turn(2, "what of 2?", "this is 2", session="other"), revision=2, offsets=(1, 2))
    scoring.put(left)
    jobs = {job.trace_id: job for job in over(scoring)}
    assert set(jobs) == {"s", "other"}
    assert jobs["s"].revision > first.revision


def test_what_is_said_of_a_session_that_has_gone_on_costs_no_score_and_is_not_kept(scoring: Scoring) -> None:
    put(scoring, 1)
    [job] = over(scoring)
    scoring.stage.store_judgements([judgement(job, judged(0.75), asked(scoring))])
    assert [each["question"] for each in scoring.queries.session_judgements("s") or ()] == ["goal_success"]
    put(scoring, 2)
    [late] = over(scoring)
    put(scoring, 3)
    scoring.stage.store_judgements([judgement(late, judged(0.25), asked(scoring), asked(scoring))])
    assert goal(scoring)["status"] == "pending"
    assert len(scoring.queries.session_judgements("s") or ()) == 1


def asked(scoring: Scoring) -> JudgeExchange:
    return exchange(question=GOAL_SUCCESS, asked_at=scoring.clock.now())


def test_a_session_that_was_judged_and_has_gone_on_is_over_again_after_a_restart(scoring: Scoring) -> None:
    put(scoring, 1)
    [first] = over(scoring)
    scoring.stage.store_judgements([judgement(first, judged(0.75))])
    assert scoring.store.live_sessions() == []
    put(scoring, 2)
    scoring.restart()
    assert scoring.store.live_sessions() == ["s"]
    scoring.core.sessions.resume("s")
    [second] = over(scoring)
    assert second.revision == 2


def test_what_was_asked_about_a_session_is_not_shown_as_asked_about_a_trace_of_the_same_name(scoring: Scoring) -> None:
    scoring.put(assembled(turn(1, "what?", "that")))  # It names no session, and is one of its own.
    jobs = {job.subject: job for job in (*scoring.referred, *over(scoring))}
    of_trace, of_session = jobs[SubjectKind.TRACE], jobs[SubjectKind.SESSION]
    assert of_trace.trace_id == of_session.trace_id
    now = scoring.clock.now()
    scoring.stage.store_judgements([judgement(of_trace, judged(0.5), exchange(asked_at=now))])
    scoring.stage.store_judgements([judgement(of_session, judged(0.5), asked(scoring))])
    shown = scoring.queries.judgements(of_trace.trace_id), scoring.queries.session_judgements(of_trace.trace_id)
    assert [[each["question"] for each in found or ()] for found in shown] == [["confidence"], ["goal_success"]]


def test_what_was_asked_is_kept_for_a_time(scoring: Scoring) -> None:
    put(scoring, 1)
    [job] = over(scoring)
    scoring.stage.store_judgements([judgement(job, judged(0.75), asked(scoring))])
    scoring.clock.advance(29 * 3600)  # A part of four hours goes as a whole in some databases.
    scoring.put(assembled(turn(2, "what of 2?", "this is 2", session="other")))
    assert scoring.queries.session_judgements("s") == []
    assert scoring.queries.session_judgements("nobody") is None


def test_what_failed_can_be_asked_for_again_unless_the_session_has_gone_on(scoring: Scoring) -> None:
    put(scoring, 1)
    [job] = over(scoring)
    scoring.stage.store_judgements([judgement(job, Failure(error_type="malformed", reason="no"))])
    unjudged = scoring.store.judged
    of_sessions = [found for found in unjudged.failed_since(0, 10) if found[0].subject is SubjectKind.SESSION]
    assert unjudged.left_out([], ["s"], 10) == of_sessions == [[each] for each in of_sessions[0]]
    put(scoring, 2)
    assert unjudged.left_out([], ["s"], 10) == []
