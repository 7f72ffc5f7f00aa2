"""The gate between forks and what a child must not inherit half done."""

import threading
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from otel_agenteval.sending.background import ForkGate

TIMEOUT = 10.0


@pytest.fixture
def gate() -> ForkGate:
    # Whoever waits for the bound instead of for each other fails by the timeouts below.
    return ForkGate(max_wait=10 * TIMEOUT)


def test_a_fork_waits_until_all_are_out(gate: ForkGate) -> None:
    with ThreadPoolExecutor(1) as pool:
        with gate.inside():
            with gate.inside():
                fork = pool.submit(gate.before_fork)
                assert not wait([fork], 0.05).done
            assert not wait([fork], 0.05).done
        fork.result(TIMEOUT)
        gate.after_fork()


def test_a_fork_ends_what_may_last(gate: ForkGate) -> None:
    ended, begun = threading.Event(), threading.Event()

    def last() -> bool:
        with gate.inside(ended.set):
            begun.set()
            return ended.wait(TIMEOUT)

    with ThreadPoolExecutor(1) as pool:
        lasting = pool.submit(last)
        assert begun.wait(TIMEOUT)
        gate.before_fork()
        assert lasting.done()
        assert lasting.result()
        gate.after_fork()


def test_nobody_gets_in_before_every_fork_is_done(gate: ForkGate) -> None:
    def enter() -> None:
        with gate.inside():
            pass

    gate.before_fork()
    gate.before_fork()
    with ThreadPoolExecutor(1) as pool:
        entering = pool.submit(enter)
        gate.after_fork()
        assert not wait([entering], 0.05).done
        gate.after_fork()
        entering.result(TIMEOUT)


def test_nobody_waits_for_ever() -> None:
    gate = ForkGate(max_wait=0.01)
    with gate.inside():
        gate.before_fork()
        with gate.inside():
            pass
        gate.after_fork()


def test_a_child_is_alone(gate: ForkGate) -> None:
    with gate.inside():
        gate.renew()
        gate.before_fork()
        gate.renew()
    with gate.inside():
        pass
