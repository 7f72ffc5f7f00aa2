"""Processes that do jobs, whatever becomes of them."""

import os
import signal
from collections.abc import Iterator

import pytest
from agenteval_collector.runtime.workers import WorkerDied, WorkerGone, Workers

from tests.support.echoing import MIB, echo
from tests.support.eventually import eventually
from tests.support.working import running

WITHIN = 300.0

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def workers() -> Iterator[Workers]:
    with running(Workers(echo, 2, 128 * MIB, 512 * MIB), 2) as ready:
        yield ready


def worker_of(workers: Workers, place: int) -> int:
    """The process that does jobs of a place."""
    return int(workers.submit(place, b"", WITHIN).result(WITHIN).split()[0])


def test_jobs_of_one_key_go_to_one_process_in_order(workers: Workers) -> None:
    places = {workers.place(f"session {number}") for number in range(20)}
    assert places == {0, 1}
    place = workers.place("session")
    answers = [done.result(WITHIN) for done in [workers.submit(place, b"%d" % number) for number in range(50)]]
    assert [int(answer.split()[1]) for answer in answers] == [*range(50)]
    assert len({answer.split()[0] for answer in answers}) == 1


def test_of_a_process_that_dies_only_the_job_in_hand_is_suspected(workers: Workers) -> None:
    process_id = worker_of(workers, 0)
    in_hand, others = workers.submit(0, b"sleep"), [workers.submit(0, b"next") for _ in range(5)]
    os.kill(process_id, signal.SIGKILL)
    assert isinstance(in_hand.exception(WITHIN), WorkerDied)
    assert {type(job.exception(WITHIN)) for job in others} == {WorkerGone}
    assert isinstance(workers.submit(0, b"at once").exception(WITHIN), WorkerGone)
    assert worker_of(workers, 1) != process_id
    assert worker_of(workers, 0) != process_id
    assert (workers.replaced, workers.ready) == (1, 2)


def test_a_process_that_has_grown_is_replaced_between_two_jobs(workers: Workers) -> None:
    process_id = worker_of(workers, 0)
    assert workers.submit(0, b"grow 200").result(WITHIN).endswith(b"grow 200")
    eventually(lambda: worker_of(workers, 0) != process_id, within=WITHIN)
    assert workers.replaced == 1


def test_a_process_that_grows_beyond_all_bounds_ends(workers: Workers) -> None:
    assert isinstance(workers.submit(0, b"grow 4000").exception(WITHIN), WorkerDied)


def test_a_shutdown_answers_every_job(workers: Workers) -> None:
    jobs = [workers.submit(0, b"sleep"), *(workers.submit(0, b"next") for _ in range(5))]
    process_ids = [worker_of(workers, 1)]
    workers.shutdown()
    assert {type(job.exception(WITHIN)) for job in jobs} == {WorkerGone}
    eventually(lambda: not any(map(runs, process_ids)), within=WITHIN)


def runs(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def test_processes_that_were_not_started_take_no_jobs() -> None:
    workers = Workers(echo, 2, MIB, MIB)
    assert isinstance(workers.submit(0, b"job").exception(WITHIN), WorkerGone)
    workers.shutdown()
    workers.start()
    assert not workers.process_ids
