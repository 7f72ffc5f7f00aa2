"""Work reserves memory before it begins: what does not fit waits its turn, for as long as it may."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import pytest
from agenteval_collector.runtime.errors import Unavailable
from agenteval_collector.runtime.memory import MIB
from agenteval_collector.runtime.work import WorkAccount

from tests.support.eventually import eventually

LIMIT = 1000 * MIB


class Work:
    """A piece of work on a thread of its own, which ends when it is told to."""

    def __init__(self, account: WorkAccount, size: int) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()
        self._account, self._size = account, size
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self.may_end.set()
        self._thread.join(10)

    def _run(self) -> None:
        with self._account.reserve(self._size):
            self.begun.set()
            self.may_end.wait(10)


@contextmanager
def under_way(account: WorkAccount, *sizes: int) -> Iterator[list[Work]]:
    pieces = []
    try:
        for size in sizes:
            waited = account.waited
            pieces.append(Work(account, size))
            eventually(lambda: pieces[-1].begun.is_set() or account.waited > waited)  # noqa: B023
        yield pieces
    finally:
        for piece in pieces:
            piece.end()


def account(used: Callable[[], int] = lambda: 200 * MIB) -> WorkAccount:
    return WorkAccount(LIMIT, used)


def test_what_fits_runs_at_once_and_what_does_not_waits_until_it_fits() -> None:
    work = account()
    with under_way(work, 300 * MIB, 400 * MIB, 100 * MIB) as (first, second, third):
        assert (first.begun.is_set(), second.begun.is_set(), third.begun.is_set()) == (True, True, False)
        assert work.reserved == 700 * MIB
        first.end()
        assert third.begun.wait(10)
    assert (work.reserved, work.waited, work.refused) == (0, 1, 0)


def test_the_longest_wait_is_over_first_however_small_the_others_are() -> None:
    work = account()
    with under_way(work, 600 * MIB, 700 * MIB) as (first, large):
        small = Work(work, 2 * MIB)
        eventually(lambda: work.waited == 2)
        assert not small.begun.is_set()
        first.end()
        assert large.begun.wait(10)
        large.end()
        assert small.begun.wait(10)
        small.end()


def test_work_that_is_alone_always_fits() -> None:
    full = account(lambda: LIMIT)
    with full.reserve(5 * LIMIT, 0.0):
        assert full.reserved == 5 * LIMIT


def test_memory_that_is_freed_without_a_word_is_noticed() -> None:
    used = [900 * MIB]
    work = account(lambda: used[0])
    with under_way(work, 100 * MIB, 100 * MIB) as (_, second):
        assert not second.begun.is_set()
        used[0] = 200 * MIB
        assert second.begun.wait(10)


def test_impatient_work_is_refused_and_those_behind_it_go_on() -> None:
    work = account()
    with under_way(work, 600 * MIB):
        with (
            pytest.raises(Unavailable, match=r"about 700 of 1000 MiB \(server\.memory_limit\)"),
            work.reserve(700 * MIB, 0.0),
        ):
            pass
        with work.reserve(50 * MIB, 0.0):
            pass
    assert (work.refused, work.reserved) == (1, 0)


def test_little_work_takes_no_reservation() -> None:
    work = account(lambda: LIMIT)
    with under_way(work, LIMIT), work.reserve(MIB - 1, 0.0):
        assert work.reserved == LIMIT


def test_two_that_need_more_never_wait_for_each_other() -> None:
    work, both = account(), threading.Barrier(2)
    done: list[Future[None]] = [Future(), Future()]

    def grow(result: Future[None]) -> None:
        with work.reserve(100 * MIB):
            both.wait(10)
            with work.reserve(700 * MIB):
                assert work.reserved >= 700 * MIB
        result.set_result(None)

    for result in done:
        threading.Thread(target=grow, args=(result,), daemon=True).start()
    for result in done:
        result.result(10)
    assert work.reserved == 0


def test_a_refusal_of_more_leaves_what_was_reserved() -> None:
    work = account()
    with under_way(work, 300 * MIB), work.reserve(100 * MIB):
        with pytest.raises(Unavailable), work.reserve(900 * MIB, 0.0):
            pass
        assert work.reserved == 400 * MIB
    assert work.reserved == 0
