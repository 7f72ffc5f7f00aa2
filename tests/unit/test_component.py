"""A thread with a bounded inbox, whatever it does."""

import threading
import time
from collections.abc import Iterator

import pytest
from agenteval_collector.app.stages import STOPPED_WITHIN, stop_in_turn
from agenteval_collector.runtime.component import Component, Poller
from agenteval_collector.runtime.errors import Unavailable
from agenteval_collector.runtime.inbox import Inbox

from tests.support.eventually import eventually


class Worker(Component):
    """Keeps what it is given; refuses while `refuse` is set, and fails at `defects`."""

    def __init__(self) -> None:
        self.inbox: Inbox[str] = Inbox(100)
        super().__init__("worker", self.inbox)
        self.refuse = threading.Event()
        self.kept: list[str] = []
        self.attempts = 0

    def run(self) -> None:
        while items := self.inbox.take(1, None):
            if items == ["fatal"]:
                raise ValueError("a defect outside of what is survived")
            self.survive(self._keep, items[0])

    def _keep(self, item: str) -> None:
        if item == "defect":
            raise ValueError("a defect")
        self.kept.append(self.insist(self._store, item))

    def _store(self, item: str) -> str:
        self.attempts += 1
        if self.refuse.is_set():
            raise Unavailable("the disk is full", retry_after=0.0)
        return item


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.refuse.clear()
    made.shutdown()


def test_it_says_that_it_does_not_run_before_its_start_and_after_its_end(worker: Worker) -> None:
    before = worker.health
    worker.start()
    running = worker.health
    worker.shutdown()
    assert (before, running, worker.health) == ("worker does not run", None, "worker does not run")


def test_what_is_refused_is_tried_again_until_it_is_kept_once_and_health_says_so_meanwhile(
    worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    worker.refuse.set()
    worker.inbox.put("a")
    worker.inbox.put("b")
    worker.start()
    eventually(lambda: worker.health == "worker is held up: the disk is full")
    assert (worker.waiting, worker.kept) == (1, [])
    worker.refuse.clear()
    eventually(lambda: worker.kept == ["a", "b"])
    assert worker.health is None
    assert [(record.getMessage(), record.exc_info) for record in caplog.records] == [
        ("worker is held up until this is over: the disk is full", None),
        ("worker goes on", None),
    ]


def test_an_error_that_asks_for_no_pause_gets_one(worker: Worker) -> None:
    worker.refuse.set()
    worker.inbox.put("a")
    worker.start()
    eventually(lambda: worker.attempts > 2)
    worker.shutdown(0.2)
    assert worker.attempts < 20


def test_a_defect_costs_one_item(worker: Worker) -> None:
    for item in ("defect", "a"):
        worker.inbox.put(item)
    worker.start()
    eventually(lambda: worker.kept == ["a"])
    assert worker.health is None


def test_a_thread_that_fails_is_seen(worker: Worker, caplog: pytest.LogCaptureFixture) -> None:
    worker.inbox.put("fatal")
    worker.start()
    eventually(lambda: worker.health == "worker does not run")
    assert "worker has failed and stops" in caplog.text


def test_a_stop_waits_for_what_waits_and_gives_up_on_what_is_refused(worker: Worker) -> None:
    worker.inbox.put("a")
    worker.start()
    worker.shutdown()
    assert worker.kept == ["a"]


def test_a_stop_ends_the_wait_for_a_disk(worker: Worker) -> None:
    worker.refuse.set()
    worker.inbox.put("a")
    worker.start()
    eventually(lambda: worker.attempts)
    worker.shutdown(0.01)
    assert (worker.alive, worker.kept) == (False, [])


class Stuck(Component):
    """Does not stop; notes how long it is given for that."""

    def __init__(self, given: list[float]) -> None:
        super().__init__("stuck", Inbox[str](1))
        self.end = threading.Event()
        self._given = given

    def run(self) -> None:
        self.end.wait()

    def shutdown(self, timeout: float = 10.0) -> None:
        self._given.append(timeout)
        super().shutdown(0.0)


def test_components_stop_in_turn_and_share_one_deadline() -> None:
    given: list[float] = []
    parts = [Stuck(given), Stuck(given)]
    parts[0].start()
    stop_in_turn(parts, time.monotonic() + 60.0)
    assert parts[0].alive
    parts[0].end.set()
    stop_in_turn(parts, time.monotonic() + 0.5)
    stop_in_turn(parts, time.monotonic())
    assert given[:2] == [STOPPED_WITHIN] * 2
    assert all(0.0 < each <= 0.5 for each in given[2:4])
    assert given[4:] == [0.0, 0.0]


class Failing(Poller):
    """Fails at every step."""

    def __init__(self) -> None:
        super().__init__("watch")
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        raise ValueError("a defect")


def test_a_poller_that_fails_at_every_step_goes_on_and_does_not_spin() -> None:
    watch = Failing()
    watch.start()
    eventually(lambda: watch.steps > 2)
    assert watch.alive
    watch.shutdown(0.2)
    assert watch.steps < 20
