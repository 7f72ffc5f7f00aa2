"""Threads of ours: how they start, and that no wake is lost."""

import threading
from typing import Any

import pytest

from otel_agenteval.sending.background import OwnThread

TIMEOUT = 10.0


def test_thread_starts_once_and_ends_by_itself() -> None:
    ran = []
    thread = OwnThread("test", lambda: ran.append(threading.current_thread().name))
    assert not thread.started
    thread.join(TIMEOUT)
    thread.start()
    thread.start()
    thread.join(TIMEOUT)
    assert ran == ["test"]


def test_two_threads_that_start_it_at_once_make_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    thread = OwnThread("test", lambda: ran.append(threading.current_thread()))
    make = threading.Thread

    def make_after_another_start(**options: Any) -> threading.Thread:
        monkeypatch.setattr(threading, "Thread", make)
        other = make(target=thread.start)
        other.start()
        other.join(TIMEOUT)
        return make(**options)

    monkeypatch.setattr(threading, "Thread", make_after_another_start)
    thread.start()
    thread.join(TIMEOUT)
    assert len(ran) == 1


def test_thread_that_joins_itself_goes_on() -> None:
    done = threading.Event()

    def run() -> None:
        thread.join(TIMEOUT)
        done.set()

    thread = OwnThread("test", run)
    thread.start()
    assert done.wait(TIMEOUT / 2)


def test_where_no_thread_can_be_started_the_next_try_may(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    done = threading.Event()
    thread = OwnThread("test", done.set)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            thread.start()
    assert not thread.started
    thread.join(TIMEOUT)
    thread.start()
    assert done.wait(TIMEOUT)


def test_wakes_before_a_wait_are_one_and_those_after_it_are_another() -> None:
    thread = OwnThread("test", lambda: None)
    assert not thread.wait(0.0)
    thread.wake()
    thread.wake()
    assert thread.wait(0.0)
    assert not thread.wait(0.0)
    thread.wake()
    assert thread.wait(0.0, gather=0.001)
    assert not thread.wait(0.0)
