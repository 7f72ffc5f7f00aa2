"""A session is judged whole or not at all."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.app.judge import make_judging
from agenteval_collector.evaluation.stage import TAKEN_UP
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.runtime.errors import Unavailable
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.support.eventually import eventually
from tests.support.otlp import trace_id, turn
from tests.support.plans import plan_of
from tests.support.referring import judged, judgement
from tests.support.scoring import ROOM, Scoring, assembled

pytestmark = pytest.mark.databases

NOBODY: dict[str, Any] = {"judge": {"base_url": "http://127.0.0.1:9/v1", "sample": 0.0, "escalate": 1.0}}
WORDS = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet", "kilo", "lima"]


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    made = Scoring(tmp_path, **NOBODY)
    restart(made)
    yield made
    made.close()


def restart(scoring: Scoring) -> None:
    scoring.judging = make_judging(scoring.settings, scoring.store, scoring.telemetry)
    scoring.restart()


def plain(number: int, session: str = "s") -> AssembledTrace:
    """One that nothing is wrong with, and that repeats none of the others."""
    answer = " ".join(f"{word}{number}" for word in WORDS)
    return assembled(turn(number, f"what of {number}?", answer, session=session))


def failing(number: int, session: str = "s") -> AssembledTrace:
    failed = turn(number, "and?", None, session=session)
    failed.status.code = Status.STATUS_CODE_ERROR
    return assembled(failed)


def statuses(scoring: Scoring, number: int) -> str:
    document: Any = scoring.trace(trace_id(number).hex())
    [found] = {
        each["status"] for each in document["outcomes"] if each["name"] == "confidence" and each["method"] == "llm"
    }
    return str(found)


def parts(scoring: Scoring) -> dict[int, str | None]:
    """The part of each of the first traces."""
    documents: dict[int, Any] = {number: scoring.trace(trace_id(number).hex()) for number in range(1, 7)}
    return {
        number: next(each["part"] for each in document["outcomes"] if each["name"] == "confidence")
        for number, document in documents.items()
    }


def referred(scoring: Scoring) -> list[str]:
    assert all(job.urgent for job in scoring.referred), "escalated sessions come first"
    return [job.trace_id for job in scoring.referred]


def job(number: int) -> str:
    return trace_id(number).hex()


def test_a_session_outside_the_sample_is_not_judged(scoring: Scoring) -> None:
    scoring.put(plain(1), plain(2))
    assert [statuses(scoring, number) for number in (1, 2)] == ["sampled_out"] * 2
    assert not scoring.referred


def test_with_an_error_the_whole_session_is_escalated_and_no_other_one(scoring: Scoring) -> None:
    scoring.put(plain(1))
    scoring.put(plain(2), failing(3), plain(4), plain(5, session="other"))
    scoring.put(plain(6))
    assert [statuses(scoring, number) for number in (1, 2, 3, 4, 5, 6)] == [
        "pending", "pending", "pending", "pending", "sampled_out", "pending",
    ]  # fmt: skip
    assert referred(scoring) == [job(3), job(4), job(1), job(2), job(6)]
    for each in scoring.referred:
        scoring.stage.store_judgements([judgement(each, judged(0.75))])
    assert {statuses(scoring, number) for number in (1, 2, 3, 4, 6)} == {"scored"}
    [reliability] = [each for each in scoring.session("s")["outcomes"] if each["name"] == "agent_reliability"]
    assert "not judged" not in reliability["reason"]
    assert parts(scoring) == {1: "escalated", 2: "escalated", 3: "escalated", 4: "escalated", 5: None, 6: "escalated"}
    assert reliability["part"] == "escalated"
    assert all(level.evaluator is None for level in scoring.core.live.session_levels()), "no rate counts it"


@pytest.mark.parametrize("answered", [False, True])
def test_after_a_restart_the_session_is_still_judged(scoring: Scoring, answered: bool) -> None:
    scoring.put(plain(1), failing(2))
    if answered:
        for each in scoring.referred:
            scoring.stage.store_judgements([judgement(each, judged(0.75))])
    restart(scoring)
    scoring.referred.clear()
    scoring.put(plain(3), plain(4, session="other"))
    assert referred(scoring) == [job(3)]
    assert statuses(scoring, 4) == "sampled_out"


def test_what_a_crash_left_sampled_out_is_taken_up_with_the_next_trace(scoring: Scoring) -> None:
    scoring.put(plain(1))
    # The failed trace is committed, and the collector dies before the others are looked for.
    scoring.rooms = lambda: 0
    scoring.put(failing(2))
    scoring.rooms = lambda: ROOM
    assert statuses(scoring, 1) == "sampled_out"
    restart(scoring)
    scoring.put(plain(3))
    assert statuses(scoring, 1) == "pending"
    assert referred(scoring) == [job(2), job(3), job(1)]


def test_what_is_taken_up_waits_for_the_next_start_like_all_that_is_pending(scoring: Scoring) -> None:
    scoring.put(plain(1), failing(2))
    restart(scoring)
    scoring.referred.clear()
    scoring.clock.advance(1)
    scoring.stage.start()
    eventually(lambda: len(scoring.referred) == 2)
    scoring.stage.shutdown()
    assert sorted(referred(scoring)) == sorted([job(1), job(2)])


def test_the_newest_of_a_long_session_are_taken_up_where_there_is_room(scoring: Scoring) -> None:
    scoring.put(*(plain(number) for number in range(1, TAKEN_UP + 4)))
    scoring.rooms = lambda: 10 * TAKEN_UP
    scoring.put(failing(TAKEN_UP + 4))
    assert [statuses(scoring, number) for number in (1, 2, 3)] == ["sampled_out"] * 3
    assert {statuses(scoring, number) for number in range(4, TAKEN_UP + 4)} == {"pending"}
    assert len(scoring.referred) == TAKEN_UP + 1


def test_what_there_was_no_room_for_is_taken_up_with_the_next_trace(scoring: Scoring) -> None:
    scoring.put(plain(1), plain(2), plain(3))
    scoring.rooms = lambda: 1
    scoring.put(failing(4))
    assert [statuses(scoring, number) for number in (1, 2, 3)] == ["sampled_out", "sampled_out", "pending"]
    scoring.rooms = lambda: ROOM
    scoring.put(plain(5))
    assert [statuses(scoring, number) for number in (1, 2, 3)] == ["pending"] * 3


def test_a_long_session_is_taken_up_within_its_bound_however_little_room_there_is(scoring: Scoring) -> None:
    scoring.put(*(plain(number) for number in range(1, TAKEN_UP + 4)))
    scoring.rooms = lambda: 2 * TAKEN_UP // 3
    for number in range(4, 8):
        scoring.put(failing(TAKEN_UP + number))
    assert [statuses(scoring, number) for number in (1, 2, 3, 4)] == [*["sampled_out"] * 3, "pending"]


def test_a_later_revision_of_a_trace_that_was_taken_up_is_judged(scoring: Scoring) -> None:
    scoring.put(plain(1), failing(2))
    scoring.put(replace(plain(1), revision=2))
    assert referred(scoring)[-1] == job(1)
    assert scoring.referred[-1].revision == 2


def test_somebody_may_ask_for_what_was_left_out_where_there_is_room(scoring: Scoring) -> None:
    scoring.put(plain(1), plain(2), plain(3))
    ids = [trace_id(number).hex() for number in (1, 2, 9)]
    scoring.rooms = lambda: 1
    scoring.stage.start()
    found = scoring.store.judged.left_out(ids, [], 10)
    assert sorted(each[0].subject_id for each in found) == ids[:2]
    assert scoring.inbox.judge_again(found).result(10) == 1
    scoring.stage.shutdown()
    [waits] = scoring.referred
    assert waits.trace_id in ids[:2]
    assert [each.part for each in waits.pending] == [None] * len(waits.pending), "somebody chose it"
    assert sorted(statuses(scoring, number) for number in (1, 2, 3)) == ["pending", "sampled_out", "sampled_out"]
    assert scoring.store.judged.failed_since(0, 10) == [], "sampling is no failure"


def test_a_trace_that_has_changed_since_it_was_looked_for_is_not_judged_again_as_it_was(scoring: Scoring) -> None:
    scoring.put(plain(1))
    found = scoring.store.judged.left_out([trace_id(1).hex()], [], 10)
    scoring.put(replace(plain(1), revision=2))
    scoring.stage.start()
    assert scoring.inbox.judge_again(found).result(10) == 0
    scoring.stage.shutdown()
    assert (scoring.referred, statuses(scoring, 1)) == ([], "sampled_out")


def test_whoever_asks_hears_of_it_when_it_cannot_be_done(scoring: Scoring) -> None:
    def no_room() -> int:
        raise RuntimeError("a defect of ours")

    scoring.stage.start()
    for _ in range(2):  # Behind the first it has looked for what the last run left.
        assert scoring.inbox.judge_again([]).result(10) == 0
    scoring.rooms = no_room
    with pytest.raises(Unavailable, match="the log says why"):
        scoring.inbox.judge_again([]).result(10)
    scoring.rooms = lambda: ROOM
    scoring.stage.shutdown()


@pytest.mark.sqlite
def test_what_was_sampled_out_is_looked_for_among_the_traces_of_the_session(scoring: Scoring) -> None:
    plan = plan_of(scoring.store.outside.engine, lambda: scoring.store.sampled_out("s", 10))
    assert any("traces_by_session" in step for step in plan)
    assert all("subject_id=?" in step for step in plan if " outcomes " in step)


@pytest.mark.sqlite
def test_the_parts_of_a_session_are_looked_for_among_its_outcomes(scoring: Scoring) -> None:
    plan = plan_of(scoring.store.outside.engine, lambda: scoring.store.parts("s"))
    assert any("outcomes_by_session" in step for step in plan), plan
