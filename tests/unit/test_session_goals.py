"""Whether a session reached its goal: asked when it is over, once for all that was said in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.model.judging import GOAL_SUCCESS
from agenteval_collector.wiring.judge import make_judging

from otel_agenteval.outcome import Subject
from tests.support.otlp import turn
from tests.support.referring import judged, judgement
from tests.support.scoring import IDLE, Scoring, assembled

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
    return [job for job in scoring.referred if job.subject is Subject.SESSION]


def goal(scoring: Scoring) -> Any:
    found = [each for each in scoring.session("s")["outcomes"] if each["name"] == GOAL_SUCCESS]
    return found[0] if found else None


def test_a_session_is_asked_about_when_it_is_over_and_not_before(scoring: Scoring) -> None:
    put(scoring, 1)
    assert goal(scoring) is None
    [job] = over(scoring)
    assert (job.trace_id, job.revision) == ("s", 1)
    assert goal(scoring)["status"] == "pending"
    scoring.stage.process_judgements([judgement(job, judged(0.75))])
    assert (goal(scoring)["score"], goal(scoring)["success"]) == (0.75, True)
    counted = [each for each in scoring.emitted if each.evaluation.name == GOAL_SUCCESS and each.final]
    assert len(counted) == 1


def test_it_is_asked_about_again_only_after_more_was_said(scoring: Scoring) -> None:
    put(scoring, 1)
    [first] = over(scoring)
    scoring.restart()
    scoring.stage.finalize(["s"])
    assert [job for job in scoring.referred if job.subject is Subject.SESSION] == [first]
    put(scoring, 2)
    scoring.stage.process_judgements([judgement(first, judged(0.25))])
    assert goal(scoring)["status"] == "pending", "what is said of the shorter session comes too late"
    [second] = over(scoring)
    assert second.revision == 2


def test_what_waits_is_taken_up_after_a_restart(scoring: Scoring) -> None:
    put(scoring, 1)
    [job] = over(scoring)
    scoring.clock.advance(1)
    found = scoring.store.pending_jobs(before=scoring.clock.now(), subject=Subject.SESSION)
    assert found == [job]
    scoring.stage.process_judgements([judgement(job, judged(0.75))])
    assert scoring.store.pending_jobs(before=scoring.clock.now(), subject=Subject.SESSION) == []


def test_while_it_waits_it_holds_up_no_other_score_of_the_session(scoring: Scoring) -> None:
    put(scoring, 1)
    for job in list(scoring.referred):
        scoring.stage.process_judgements([judgement(job, judged(0.75))])
    scoring.emitted.clear()
    over(scoring)
    final = [each.evaluation.name for each in scoring.emitted if each.final]
    assert sorted(final) == ["agent_consistency", "agent_reliability"]


def test_it_is_no_part_of_the_session_scores(scoring: Scoring) -> None:
    put(scoring, 1)
    for job in list(scoring.referred):
        scoring.stage.process_judgements([judgement(job, judged(0.75))])
    before = [each for each in scoring.session("s")["outcomes"] if each["name"] != GOAL_SUCCESS]
    [job] = over(scoring)
    scoring.stage.process_judgements([judgement(job, judged(0.0))])
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
