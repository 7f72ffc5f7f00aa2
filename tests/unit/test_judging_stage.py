import asyncio
import logging
import threading
from dataclasses import replace

import pytest
from agenteval_collector.judge.queue.outage import SHORTEST
from agenteval_collector.judge.queue.stage import FAULTS, NOTHING_VALID, OUTAGES_BORNE, wait_at_most
from agenteval_collector.model.judge_jobs import Judgement
from agenteval_collector.runtime.errors import Unavailable
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agenteval.outcome import MAX_REASON, Failure
from tests.support.inputs import inputs
from tests.support.judge_stage import GOOD, PATIENT, World, failure, job, unavailable
from tests.support.referring import exchange

START = 1_700_000_000_000_000_000


def test_every_pending_outcome_is_replaced() -> None:
    low = replace(GOOD, model=None, outcome=Failure(error_type="malformed", reason="prose"))
    world = World(judged={"confidence": GOOD, "plan_quality": low})
    asked = job("t", names=("confidence", "plan_quality"))
    with world.running(asked):
        judgement = world.next()
    assert judgement.job is asked
    assert judgement.evaluations == (
        replace(asked.pending[0], outcome=GOOD.outcome, model="m-2026", evaluated_at=START),
        replace(asked.pending[1], outcome=low.outcome, model=None, evaluated_at=START),
    )
    assert judgement.exchanges == (exchange(),)


def test_a_name_that_nobody_judges_any_more_fails_alone() -> None:
    world = World()
    with world.running(job("t", names=("confidence", "my_rubric"))):
        confidence, rubric = world.next().evaluations
    assert confidence.outcome == GOOD.outcome
    assert isinstance(rubric.outcome, Failure)
    assert rubric.outcome.error_type == "unknown_evaluator"


def test_a_trace_whose_spans_are_gone_fails_without_being_asked_about() -> None:
    world = World(gone=["t"])
    with world.running(job("t")):
        found = failure(world.next())
    assert found.error_type == "spans_gone"
    assert "log.retention" in found.reason
    assert world.tried == []


@pytest.mark.parametrize("where", ["load", "panel"])
def test_a_defect_costs_its_trace_a_failure_and_no_other(where: str, caplog: pytest.LogCaptureFixture) -> None:
    def defect(trace_id: str, attempt: int = 1) -> Exception | None:
        return KeyError("x" * 10_000) if trace_id == "bad" else None

    world = World(load_step=defect) if where == "load" else World(step=defect)
    with world.running(job("bad"), job("good")) as stage:
        found = failure(world.next())
        assert found.error_type == "KeyError"
        assert found.reason.startswith("the trace could not be judged: ")
        assert len(found.reason) < MAX_REASON + 10
        assert world.next().evaluations[0].outcome == GOOD.outcome
        assert stage.alive
    assert "trace bad could not be judged" in caplog.text


def test_urgent_traces_are_judged_first() -> None:
    world = World()
    with world.running(job("a"), job("b"), job("u", urgent=True)):
        assert [world.next().job.trace_id for _ in range(3)] == ["u", "a", "b"]


def test_a_bounded_number_of_traces_is_under_way() -> None:
    world = World(pace=asyncio.Barrier(3).wait)
    with world.running(*(job(f"t{number}") for number in range(9)), parallel=3):
        for _ in range(9):
            world.next()
    assert world.most_together == 3


def test_jobs_that_come_later_wake_the_stage() -> None:
    world = World()
    with world.running() as stage:
        for number in range(20):
            stage.take_job(job(f"t{number}"))
            assert world.next().job.trace_id == f"t{number}"


def test_a_full_backlog_fails_the_new_one_at_once() -> None:
    world = World()
    stage = world.stage(capacity=2)
    for name in "abc":
        stage.take_job(job(name))
    refused = world.delivered.get_nowait()
    assert refused.job.trace_id == "c"
    assert failure(refused).error_type == "no_room"
    assert failure(refused).reason == "too many traces wait for the judge: judge.backlog is 2"
    assert world.no_rooms == 1
    assert (stage.waiting, stage.room) == (2, 0)


def test_what_has_no_room_in_an_outage_names_it() -> None:
    paused = threading.Event()

    class Paused(World):
        async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
            if seconds is not None:
                paused.set()
            await asyncio.wait_for(event.wait(), PATIENT)

    world = Paused(step=lambda trace_id, attempt: unavailable())
    with world.running(job("a"), capacity=1) as stage:
        assert paused.wait(PATIENT)
        stage.take_job(job("b"))
        assert failure(world.next()).reason.endswith("judge.backlog is 1; judging pauses: no reply in 30 s")


def test_it_says_what_is_wrong_with_the_judge() -> None:
    paused = threading.Event()

    class Paused(World):
        async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
            if seconds is not None:
                paused.set()
            await asyncio.wait_for(event.wait(), PATIENT)

    world = Paused(step=lambda trace_id, attempt: unavailable(retry_after=29.5))
    with world.running(job("a")) as stage:
        assert paused.wait(PATIENT)
        assert stage.paused
        assert stage.trouble == (
            "the judge has not answered since 2023-11-14T22:13:20Z: no reply in 30 s; it is tried again in 30 s"
        )


def test_it_says_that_nothing_valid_comes_until_the_next_score() -> None:
    malformed = replace(GOOD, outcome=Failure(error_type="malformed", reason="prose"))
    world = World(judged={"confidence": malformed})
    with world.running(job("a")) as stage:
        world.next()
        assert stage.fault == NOTHING_VALID
        assert (stage.trouble, stage.paused) == (None, False), "nothing waits for that"
        for outcome, fault in (
            (Failure(error_type="content_filter", reason="filtered"), NOTHING_VALID),
            (GOOD.outcome, None),
        ):
            world.judged = {"confidence": replace(GOOD, outcome=outcome)}
            stage.take_job(job(f"b{fault}"))
            world.next()
            assert stage.fault == fault


def test_it_says_what_else_judging_waits_for() -> None:
    paused = threading.Event()

    class Paused(World):
        async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
            if seconds is not None:
                paused.set()
            await asyncio.wait_for(event.wait(), PATIENT)

    world = Paused(load_step=lambda trace_id: Unavailable("the store is busy"))
    with world.running(job("a")) as stage:
        assert paused.wait(PATIENT)
        assert stage.trouble == "judging pauses: the store is busy"
        assert not stage.paused, "it is not the judge"


def test_an_outage_fails_nothing_however_long() -> None:
    world = World(step=lambda trace_id, attempt: unavailable() if attempt <= 20 else None)
    with world.running(job("a")):
        assert world.next().evaluations[0].outcome == GOOD.outcome
    assert world.waits == [5.0] * 20


def test_while_the_judge_is_away_one_trace_is_tried_at_a_time() -> None:
    def step(trace_id: str, attempt: int) -> Exception | None:
        return unavailable() if len(world.tried) <= 20 else None

    world = World(step=step)
    with world.running(*(job(f"t{number}") for number in range(100)), parallel=8):
        judged = {world.next().job.trace_id for _ in range(100)}
    assert len(judged) == 100
    assert len(world.tried) == 120
    # Those that were under way when it began, then one after each wait.
    assert 12 <= len(world.waits) <= 20


def test_a_judge_that_names_no_time_is_not_asked_without_end() -> None:
    world = World(step=lambda trace_id, attempt: unavailable(retry_after=0) if attempt == 1 else None)
    with world.running(job("a")):
        world.next()
    assert world.waits == [SHORTEST]


def test_the_store_may_be_away_too() -> None:
    errors: list[Exception] = [Unavailable("disk full", retry_after=3.0), Unavailable("disk full", retry_after=3.0)]
    world = World(load_step=lambda trace_id: errors.pop() if errors else None)
    with world.running(job("a")):
        assert world.next().evaluations[0].outcome == GOOD.outcome
    assert world.waits == [3.0, 3.0]


def test_a_trace_that_never_gets_an_answer_while_others_do_fails() -> None:
    def step(trace_id: str, attempt: int) -> Exception | None:
        if trace_id == "bad":
            return unavailable(retry_after=5.0)
        world.clock.advance(5.0)
        return None

    world = World(step=step)
    with world.running(job("bad"), *(job(f"t{number}") for number in range(20))):
        outcomes = {judgement.job.trace_id: judgement for judgement in (world.next() for _ in range(21))}
    bad = failure(outcomes.pop("bad"))
    assert bad.error_type == "timeout"
    assert bad.reason.startswith("the judge answered for other traces in between")
    assert all(judgement.evaluations[0].outcome == GOOD.outcome for judgement in outcomes.values())
    assert world.tried.count("bad") == FAULTS


def test_a_trace_that_brings_the_judge_down_does_not_keep_the_others_waiting() -> None:
    """Judging pauses with each request about it, and the next probe must be about another trace."""
    down_until = 0.0

    def step(trace_id: str, attempt: int) -> Exception | None:
        nonlocal down_until
        now = world.clock.monotonic()
        if now < down_until:
            return unavailable(retry_after=down_until - now)
        if trace_id == "bad":
            down_until = now + 5.0
            return unavailable(retry_after=5.0)
        world.clock.advance(1.0)
        return None

    world = World(step=step)
    with world.running(job("bad", urgent=True), *(job(f"t{number}") for number in range(50))):
        outcomes = {judgement.job.trace_id: judgement for judgement in (world.next() for _ in range(51))}
    assert failure(outcomes.pop("bad")).error_type == "timeout"
    assert all(judgement.evaluations[0].outcome == GOOD.outcome for judgement in outcomes.values())


def test_a_store_that_is_away_is_no_fault_of_the_trace() -> None:
    errors: list[Exception] = [Unavailable("disk full", retry_after=1.0) for _ in range(3 * FAULTS)]
    world = World(load_step=lambda trace_id: errors.pop() if trace_id == "a" and errors else None)
    with world.running(job("a"), *(job(f"t{number}") for number in range(50)), parallel=4):
        assert all(world.next().evaluations[0].outcome == GOOD.outcome for _ in range(51))
    assert not errors


def test_a_judgement_that_cannot_be_delivered_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Refusing(World):
        def take_judgement(self, judgement: Judgement) -> None:
            if judgement.job.trace_id == "a":
                raise OSError("no")
            super().take_judgement(judgement)

    world = Refusing()
    with world.running(job("a"), job("b")):
        assert world.next().job.trace_id == "b"
    assert "a judgement was not delivered" in caplog.text


def test_shutdown_leaves_what_is_under_way() -> None:
    async def never() -> None:
        started.set()
        await asyncio.Event().wait()

    started = threading.Event()
    world = World(pace=never)
    stage = world.stage()
    stage.take_job(job("a"))
    stage.take_job(job("b"))
    stage.start()
    assert started.wait(PATIENT)
    stage.shutdown(PATIENT)
    assert not stage.alive
    assert world.delivered.empty()
    assert world.closed == 1
    stage.take_job(job("c"))
    assert stage.waiting == 1


def test_shutdown_is_safe_before_start_and_twice() -> None:
    stage = World().stage()
    stage.shutdown()
    stage.shutdown()
    stage.start()
    stage.shutdown()
    stage.shutdown()
    assert not stage.alive


def test_a_drain_judges_all_in_the_calling_thread() -> None:
    world = World(step=lambda trace_id, attempt: unavailable() if attempt == 1 else None)
    stage = world.stage(parallel=2)
    for names in ("ab", "cde"):
        left: list[int] = []
        for name in names:
            stage.take_job(job(name))
        stage.drain(left.append)
        assert {world.delivered.get_nowait().job.trace_id for _ in names} == set(names)
        assert (left[0], left[-1]) == (len(names), 0)
    assert not stage.alive
    stage.shutdown()
    assert world.closed == 1


def test_a_drain_ends_where_the_judge_stays_away(caplog: pytest.LogCaptureFixture) -> None:
    world = World(step=lambda trace_id, attempt: unavailable() if trace_id != "t0" else None)
    stage = world.stage(parallel=4)
    for number in range(50):
        stage.take_job(job(f"t{number}"))
    with caplog.at_level(logging.INFO):
        stage.drain(lambda left: None)
    stage.shutdown()
    outcomes = {judgement.job.trace_id: judgement for judgement in world.delivered.queue}
    assert len(outcomes) == world.delivered.qsize() == 50
    assert outcomes.pop("t0").evaluations[0].outcome == GOOD.outcome
    assert {failure(judgement).reason for judgement in outcomes.values()} == {
        f"the judge was away {OUTAGES_BORNE} times in a row: no reply in 30 s"
    }
    assert len(world.tried) < 20


def test_a_drain_does_not_wait_for_what_somebody_has_to_repair() -> None:
    world = World(step=lambda trace_id, attempt: unavailable(lasting=True))
    stage = world.stage(parallel=2)
    for number in range(50):
        stage.take_job(job(f"t{number}"))
    stage.drain(lambda left: None)
    stage.shutdown()
    assert {failure(judgement).reason for judgement in world.delivered.queue} == {
        "the judge cannot be asked: no reply in 30 s"
    }
    assert world.delivered.qsize() == 50
    assert len(world.tried) == 2
    assert world.waits == []


TROUBLE = st.sampled_from([unavailable(), KeyError("defect"), Unavailable("disk full"), None])


@given(
    troubles=st.lists(st.lists(TROUBLE, max_size=12), min_size=1, max_size=8),
    urgent=st.sets(st.integers(0, 7)),
    capacity=st.integers(1, 8),
    parallel=st.integers(1, 3),
)
@settings(max_examples=inputs(0.5))
def test_every_job_has_exactly_one_judgement(
    troubles: list[list[Exception | None]], urgent: set[int], capacity: int, parallel: int
) -> None:
    def step(trace_id: str, attempt: int) -> Exception | None:
        trouble = troubles[int(trace_id)]
        return trouble[attempt - 1] if attempt <= len(trouble) else None

    world = World(step=step)
    stage = world.stage(capacity=capacity, parallel=parallel)
    for number in range(len(troubles)):
        stage.take_job(job(str(number), urgent=number in urgent))
    stage.drain(lambda left: None)
    stage.shutdown()
    judged = [judgement.job.trace_id for judgement in world.delivered.queue]
    assert sorted(judged) == [str(number) for number in range(len(troubles))]
    assert world.no_rooms == max(len(troubles) - capacity, 0)
    outcomes = [each.outcome for judgement in world.delivered.queue for each in judgement.evaluations]
    assert all(outcome == GOOD.outcome or isinstance(outcome, Failure) for outcome in outcomes)


def test_a_refusal_ends_an_outage_like_any_answer() -> None:
    refused = exchange(reply=None, problem="status 400")

    def step(trace_id: str, attempt: int) -> Exception | None:
        return unavailable() if attempt == 1 and int(trace_id) % 2 == 0 else None

    world = World(step=step, asked_about=refused)
    stage = world.stage()
    for number in range(2 * OUTAGES_BORNE):
        stage.take_job(job(str(number)))
    stage.drain(lambda left: None)
    stage.shutdown()
    assert all(judgement.exchanges == (refused,) for judgement in world.delivered.queue)
    assert len(world.tried) == 3 * OUTAGES_BORNE


def test_a_drain_outlasts_a_short_outage(caplog: pytest.LogCaptureFixture) -> None:
    world = World(step=lambda trace_id, attempt: unavailable() if len(world.tried) < OUTAGES_BORNE else None)
    stage = world.stage()
    for number in range(5):
        stage.take_job(job(f"t{number}"))
    with caplog.at_level(logging.INFO):
        stage.drain(lambda left: None)
    stage.shutdown()
    assert all(judgement.evaluations[0].outcome == GOOD.outcome for judgement in world.delivered.queue)
    assert [record.getMessage() for record in caplog.records] == [
        "judging pauses, traces wait for the judge: no reply in 30 s",
        "judging goes on",
    ]


def test_waiting_ends_with_the_event_or_the_time() -> None:
    async def main() -> None:
        event = asyncio.Event()
        await wait_at_most(event, 0.001)
        event.set()
        async with asyncio.timeout(PATIENT):
            await wait_at_most(event, None)
            await wait_at_most(event, 3600.0)

    asyncio.run(main())
