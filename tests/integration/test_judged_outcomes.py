from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from otel_agenteval.outcome import Failure, Outcome, Status, SubjectKind, Unscored
from tests.support.eventually import eventually
from tests.support.otlp import span, trace_id, turn
from tests.support.plans import plan_of
from tests.support.referring import PENDING, Referring, exchange, judged, judgement
from tests.support.scoring import Scoring, assembled

pytestmark = pytest.mark.databases

FORGOTTEN_AFTER = 29 * 3600.0
"""Seconds: a day, and the hours that a database may take to let a part go."""
BOTH = {"confidence": PENDING, "tool_correctness": PENDING}
JUDGE: dict[str, Any] = {"judge": {"base_url": "http://127.0.0.1:9/v1"}}


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    made = Scoring(tmp_path, judging=Referring(BOTH), **JUDGE)
    yield made
    made.close()


def of_judge(document: Any) -> dict[str, Any]:
    return {each["name"]: each for each in document["outcomes"] if each["method"] == "llm"}


def reliability(scoring: Scoring) -> Any:
    [found] = [each for each in scoring.session("s")["outcomes"] if each["name"] == "agent_reliability"]
    return found


def put(scoring: Scoring, *numbers: int) -> None:
    scoring.put(*(assembled(turn(number, "hi", f"answer {number}", session="s")) for number in numbers))


def judged_first(scoring: Scoring) -> list[tuple[str, str]]:
    return [
        (each.evaluation.name, each.evaluation.outcome.status)
        for each in scoring.emitted
        if each.evaluation.method == "llm" and each.first
    ]


def test_what_is_pending_is_kept_and_referred_and_nobody_elses_business(scoring: Scoring) -> None:
    put(scoring, 1)
    document = scoring.trace(trace_id(1).hex())
    assert document["status"] == "pending"
    assert {name: each["status"] for name, each in of_judge(document).items()} == dict.fromkeys(BOTH, "pending")
    # What takes no judge is there at once, and has left.
    assert {each["status"] for each in document["outcomes"] if each["name"] == "coherence"} == {"scored"}
    assert "coherence" in {each.evaluation.name for each in scoring.emitted}
    assert not [each for each in scoring.emitted if each.evaluation.outcome.status is Status.PENDING]
    [job] = scoring.referred
    assert (job.trace_id, job.session_id, job.revision, job.urgent) == (trace_id(1).hex(), "s", 1, False)
    assert [each.name for each in job.pending] == list(BOTH)


def test_a_judgement_replaces_what_was_pending_and_counts_once(scoring: Scoring) -> None:
    put(scoring, 1)
    found = judgement(scoring.referred[0], judged(0.25), exchange())
    for _ in range(2):
        scoring.stage.store_judgements([found])
    document = scoring.trace(trace_id(1).hex())
    assert document["status"] == "scored"
    confidence = of_judge(document)["confidence"]
    assert (confidence["score"], confidence["model"], confidence["evaluator_version"]) == (0.25, "judge-1", "7")
    assert judged_first(scoring) == [(name, "scored") for name in BOTH]
    assert scoring.session("s")["signals"][trace_id(1).hex()]["confidence"] == 0.25
    assert scoring.session("s")["flagged_traces"] == [trace_id(1).hex()]
    with scoring.store.snapshot() as records:
        assert records.exchanges(SubjectKind.TRACE, trace_id(1).hex()) == [exchange()]


def test_a_judgement_of_a_revision_that_is_past_is_dropped(scoring: Scoring) -> None:
    put(scoring, 1)
    scoring.put(assembled(turn(1, "hi", "answer 1", session="s"), span(1, 9, parent=1), revision=2))
    old, new = scoring.referred
    scoring.stage.store_judgements([judgement(old, judged(0.1))])
    assert scoring.trace(trace_id(1).hex())["status"] == "pending"
    scoring.stage.store_judgements([judgement(new, judged(0.9))])
    assert of_judge(scoring.trace(trace_id(1).hex()))["confidence"]["score"] == 0.9


def test_an_outcome_that_is_pending_again_for_late_spans_is_not_counted_again(scoring: Scoring) -> None:
    put(scoring, 1)
    scoring.stage.store_judgements([judgement(scoring.referred[0], judged(0.25))])
    scoring.restart()
    scoring.put(assembled(turn(1, "hi", "answer 1", session="s"), span(1, 9, parent=1), revision=2))
    assert of_judge(scoring.trace(trace_id(1).hex()))["confidence"]["status"] == "pending"
    scoring.stage.store_judgements([judgement(scoring.referred[1], judged(0.75))])
    assert of_judge(scoring.trace(trace_id(1).hex()))["confidence"]["score"] == 0.75
    assert judged_first(scoring) == [(name, "scored") for name in BOTH]


def test_what_was_pending_at_the_stop_is_referred_again(scoring: Scoring) -> None:
    put(scoring, 1, 2, 3)
    scoring.stage.store_judgements([judgement(scoring.referred[1], judged(0.5))])
    first = scoring.referred[:]
    scoring.referred.clear()
    scoring.clock.advance(1)
    scoring.restart()
    put(scoring, 4)
    stage = scoring.stage
    stage.start()
    eventually(lambda: len(scoring.referred) == 3)
    stage.shutdown()
    assert [job.trace_id for job in scoring.referred] == [trace_id(number).hex() for number in (4, 1, 3)]
    assert scoring.referred[1:] == [first[0], first[2]]


def test_no_more_is_referred_again_than_there_is_room_for(scoring: Scoring) -> None:
    put(scoring, 1, 2, 3)
    scoring.referred.clear()
    scoring.clock.advance(1)
    room, stage = 2, scoring.stage
    scoring.rooms = lambda: room - len(scoring.referred)
    stage.start()
    eventually(lambda: len(scoring.referred) == 2)
    room = 3
    eventually(lambda: len(scoring.referred) == 3)
    stage.shutdown()
    assert [job.trace_id for job in scoring.referred] == [trace_id(number).hex() for number in (1, 2, 3)]


@pytest.mark.sqlite
def test_looking_for_what_is_pending_does_not_read_what_is_not(scoring: Scoring) -> None:
    plan = plan_of(scoring.store.outside.engine, lambda: scoring.store.pending_jobs(before=scoring.clock.now()))
    reads = [step for step in plan if "outcomes" in step]
    assert reads, plan
    assert all("INDEX outcomes_pending" in step for step in reads), plan


def test_a_judge_that_goes_away_lowers_coverage_and_raises_nothing(scoring: Scoring) -> None:
    scoring.judging.outcomes = dict.fromkeys(BOTH, judged(0.75))  # type: ignore[attr-defined]
    put(scoring, 1, 2, 3)
    before = reliability(scoring)
    scoring.judging.outcomes = dict(BOTH)  # type: ignore[attr-defined]
    put(scoring, 4)
    during = reliability(scoring)
    assert during["score"] <= before["score"]
    # Coherence has no weight, and the first answer cannot repeat another.
    assert (before["coverage"], during["coverage"]) == (8 / 11, 9 / 15)
    assert during["reason"].endswith("1 of 4 traces are not judged (1 pending)")
    put(scoring, *range(5, 30))
    assert (reliability(scoring)["score"], reliability(scoring)["status"]) == (None, "pending")
    scoring.restart()
    for job in scoring.referred:
        scoring.stage.store_judgements([judgement(job, judged(0.75))])
    after = reliability(scoring)
    assert after["coverage"] == pytest.approx(86 / 115)
    assert "not judged" not in after["reason"]
    pending = scoring.session("s")["signals"][trace_id(29).hex()]
    assert pending["confidence"] == 0.75


def test_a_session_of_which_nothing_is_judged_has_no_score(scoring: Scoring) -> None:
    put(scoring, 1)
    found = reliability(scoring)
    assert (found["score"], found["success"], found["status"]) == (None, None, "pending")
    assert found["reason"].startswith("1 of 1 traces are not judged (1 pending); coherence has weight 0")
    levels = scoring.core.live.session_levels()
    assert {each.evaluator: (each.active, each.low) for each in levels} == dict.fromkeys(
        (None, "agent_reliability", "agent_consistency"), (1, 0)
    ), "it was drawn, and is not low as far as is known"
    assert not [each for each in scoring.emitted if each.evaluation.name == "agent_reliability"]
    # What waits for the judge are traces; a session is not a job.
    [job] = scoring.store.pending_jobs(before=scoring.clock.now() + 1)
    assert job.trace_id == trace_id(1).hex()


@pytest.mark.parametrize("restarted", [False, True])
def test_a_session_that_is_over_counts_once_when_none_of_its_traces_waits_for_the_judge(
    scoring: Scoring, restarted: bool
) -> None:
    put(scoring, 1, 2)
    scoring.stage.finalize(["s"])
    jobs = list(scoring.referred)
    if restarted:
        scoring.restart()

    def counted() -> list[Any]:
        final = [each.evaluation for each in scoring.emitted if each.final]
        assert all(each.subject is SubjectKind.SESSION for each in final)
        return [each.outcome for each in final if each.name == "agent_reliability"]

    assert counted() == []
    scoring.stage.store_judgements([judgement(jobs[0], judged(0.75))])
    assert reliability(scoring)["status"] == "pending"
    assert counted() == [], "one trace still waits"
    scoring.stage.store_judgements([judgement(jobs[1], judged(0.25))])
    [outcome] = counted()
    assert outcome.value == reliability(scoring)["score"]
    scoring.stage.store_judgements([judgement(jobs[1], judged(0.5))])
    put(scoring, 3)
    scoring.stage.finalize(["s"])
    scoring.stage.store_judgements([judgement(scoring.referred[-1], judged(0.5))])
    assert len(counted()) == 1


def test_a_session_that_goes_on_does_not_count_with_its_judgements(scoring: Scoring) -> None:
    put(scoring, 1)
    scoring.stage.store_judgements([judgement(scoring.referred[0], judged(0.75))])
    assert not [each for each in scoring.emitted if each.final]
    scoring.stage.finalize(["s"])
    assert [each for each in scoring.emitted if each.final]


def test_jobs_are_taken_up_in_parts_and_none_of_an_old_revision(scoring: Scoring) -> None:
    put(scoring, *range(1, 8))
    scoring.judging.outcomes = {}  # type: ignore[attr-defined]
    for number in (1, 2, 3):
        late = assembled(turn(number, "hi", "answer", session="s"), span(number, 9, parent=1), revision=2)
        scoring.put(late)
    scoring.clock.advance(1)
    found, after = [], ""
    while part := scoring.store.pending_jobs(before=scoring.clock.now(), after=after, limit=2):
        found += part
        after = part[-1].trace_id
    assert [job.trace_id for job in found] == [trace_id(number).hex() for number in (4, 5, 6, 7)]


def test_a_trace_far_back_is_judged_as_well(tmp_path: Path) -> None:
    scoring = Scoring(tmp_path, judging=Referring(BOTH), **JUDGE, evaluators={"loop_detection": {"enabled": False}})
    put(scoring, *range(1, 41))
    far, *others = scoring.referred[1], scoring.referred[0], *scoring.referred[2:]
    scoring.stage.store_judgements([judgement(each, judged(1.0)) for each in others])
    assert scoring.session("s")["flagged_traces"] == []
    scoring.stage.store_judgements([judgement(far, judged(0.0))])
    assert scoring.session("s")["flagged_traces"] == [far.trace_id]
    low = reliability(scoring)
    scoring.restart()
    put(scoring, 41)
    scoring.stage.store_judgements([judgement(scoring.referred[-1], judged(1.0)), judgement(far, judged(1.0))])
    assert scoring.session("s")["flagged_traces"] == []
    assert reliability(scoring)["score"] > low["score"]
    scoring.close()


@pytest.mark.parametrize(
    ("outcome", "present", "expected"),
    [
        pytest.param(judged(0.5), 5, 7, id="a score is the signal"),
        pytest.param(PENDING, 1, 7, id="pending is missing"),
        pytest.param(Failure(error_type="malformed", reason=""), 1, 7, id="failed is missing"),
        pytest.param(Unscored(status=Status.OVER_BUDGET, reason=""), 1, 7, id="over budget is missing"),
        pytest.param(Unscored(status=Status.SAMPLED_OUT, reason=""), 1, 7, id="sampled out is missing"),
        pytest.param(Unscored(status=Status.NO_JUDGE, reason=""), 1, 7, id="without a judge it is missing"),
        pytest.param(Unscored(status=Status.NO_CONTENT, reason=""), 1, 7, id="no content is missing"),
        pytest.param(Unscored(status=Status.NOT_APPLICABLE, reason=""), 1, 3, id="not applicable is not expected"),
    ],
)
def test_coverage_says_what_is_missing(tmp_path: Path, outcome: Outcome, present: int, expected: int) -> None:
    made = Scoring(tmp_path, judging=Referring(dict.fromkeys(BOTH, outcome)), **JUDGE)
    # The answer of the second repeats that of the first, or not; coherence has no weight.
    put(made, 1, 2)
    assert reliability(made)["coverage"] == pytest.approx(present / expected)
    made.close()


def test_what_a_newer_revision_does_not_ask_any_more_is_gone_with_the_old_one(tmp_path: Path) -> None:
    referring = Referring(BOTH)
    scoring = Scoring(tmp_path, judging=referring, **JUDGE)
    put(scoring, 1)
    referring.outcomes = {"confidence": PENDING}
    scoring.put(assembled(turn(1, "hi", "answer 1", session="s"), revision=2))
    document = scoring.trace(trace_id(1).hex())
    assert set(of_judge(document)) == {"confidence"}
    scoring.close()


def test_exchanges_are_kept_for_a_time(scoring: Scoring) -> None:
    put(scoring, 1, 2)
    old, new = scoring.referred
    now = scoring.clock.now()
    day = 24 * 3600 * 10**9
    scoring.stage.store_judgements([judgement(old, judged(0.5), exchange(asked_at=now), exchange(asked_at=now))])
    scoring.clock.advance(FORGOTTEN_AFTER)
    scoring.stage.store_judgements([judgement(new, judged(0.5), exchange(asked_at=now + day, data="\ud800"))])
    with scoring.store.snapshot() as records:
        assert records.exchanges(SubjectKind.TRACE, old.trace_id) == []
        [kept] = records.exchanges(SubjectKind.TRACE, new.trace_id)
    assert kept.data == "?"


def test_exchanges_are_forgotten_also_where_nothing_more_is_judged(scoring: Scoring) -> None:
    put(scoring, 1)
    [job] = scoring.referred
    scoring.stage.store_judgements([judgement(job, judged(0.5), exchange(asked_at=scoring.clock.now()))])
    scoring.clock.advance(FORGOTTEN_AFTER)
    put(scoring, 2)
    assert scoring.queries.judgements(job.trace_id) == []


def test_a_trace_that_cannot_be_read_fails_for_the_judge_too(scoring: Scoring) -> None:
    scoring.put(assembled(turn(1, "hi", "answer", session="s"), resource=b"\xff no resource"))
    assert {each["status"] for each in of_judge(scoring.trace(trace_id(1).hex())).values()} == {"failed"}
    assert scoring.referred == []
