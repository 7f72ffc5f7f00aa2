"""Common parts of our threads: start, sleep, back off, keep instrumentation away, and keep forks waiting.

A forked child has one thread. Whatever other threads had half done stays half done in it. So an import of gRPC that is
cut short can never be finished in the child. And gRPC prepares for a fork only while no thread is inside it
(`grpc_prefork` in its fork_posix.cc); else the child may crash. Hence `ForkGate`.
"""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Final

from opentelemetry import context as context_api

MAX_BACKOFF: Final = 5.0
FIRST_BACKOFF: Final = 0.1
STOP_TIMEOUT: Final = 1.0


def backoff(attempt: int) -> float:
    """Return the seconds to wait after failed attempt number `attempt` (from 0): doubling, with jitter, at most 5."""
    return min(MAX_BACKOFF, FIRST_BACKOFF * 2.0 ** min(attempt, 16)) * random.uniform(0.5, 1.0)


class OwnThread:
    """A daemon thread that starts when it is first needed. The thread itself calls `wait`, others call the rest.

    `wake` never waits. It may be called from a garbage collection that interrupts any of these methods.
    """

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        self._name = name
        self._run = run
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        # A Condition would deadlock in such a garbage collection: its lock is held by the code that is interrupted.
        self._tokens: SimpleQueue[None] = SimpleQueue()
        self._token_waits = False
        self.is_stopping = False
        """True once the thread is to end."""

    @property
    def started(self) -> bool:
        """True once the thread was started."""
        return self._thread is not None

    def start(self) -> None:
        """Start the thread, unless it was started. Raises RuntimeError if the process ends or may have no more
        threads."""
        # Never waits, because a signal handler may interrupt the holder of the lock, which starts the thread anyway.
        if self._thread is not None or not self._starting.acquire(blocking=False):
            return
        try:
            # Looked at again: another thread may have started it just before.
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        except RuntimeError:
            self._thread = None
            raise
        finally:
            self._starting.release()

    def wake(self) -> None:
        """End the thread's `wait`, or the next one."""
        if not self._token_waits:
            self._token_waits = True
            self._tokens.put(None)

    def wait(self, timeout: float, *, gather: float = 0.0) -> bool:
        """Sleep until another thread calls `wake`, and `gather` seconds more. False if none did within `timeout`
        seconds.

        After it, the thread sees whatever was changed before the `wake`. A later `wake` ends the next `wait`.
        """
        try:
            self._tokens.get(timeout=timeout)
            if gather:
                time.sleep(gather)
        except Empty:
            return False
        finally:
            # Also after a timeout: an exception in an agent's thread may have stopped a `wake` before its token was
            # put.
            self._token_waits = False
        return True

    def stop(self) -> None:
        """Tell the thread to end, and wait at most STOP_TIMEOUT seconds until it has."""
        self.is_stopping = True
        self.wake()
        self.join(STOP_TIMEOUT)

    def join(self, timeout: float) -> None:
        """Wait at most `timeout` seconds for the end of the thread. Does nothing if the thread calls it, or is not
        alive."""
        thread = self._thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join(timeout)


@contextmanager
def suppressing_instrumentation() -> Iterator[None]:
    """Keep instrumentation from making spans of our own requests.

    Most instrumentations look for the plain key, some for the private key of the API.
    """
    context = context_api.set_value("suppress_instrumentation", True)
    key = getattr(context_api, "_SUPPRESS_INSTRUMENTATION_KEY", None)
    token = context_api.attach(context if key is None else context_api.set_value(key, True, context))
    try:
        yield
    finally:
        context_api.detach(token)


MAX_WAIT: Final = 1.0
"""Seconds that a fork and our threads wait for each other. After that, both go on."""


class ForkGate:
    """Makes forks wait while a thread of ours is `inside`, so that no child inherits its work half done.

    A fork and a thread wait for each other at most `max_wait` seconds.
    """

    def __init__(self, max_wait: float = MAX_WAIT) -> None:
        self._max_wait = max_wait
        self.renew()

    @contextmanager
    def inside(self, interrupt: Callable[[], object] | None = None) -> Iterator[None]:
        """Make forks wait during the block. A fork calls `interrupt` on its own thread, to end a long operation."""
        token = object()
        with self._changed:
            self._changed.wait_for(lambda: not self._forks, self._max_wait)
            self._inside[token] = interrupt
        try:
            yield
        finally:
            with self._changed:
                # In a child that this very thread forked, the token is gone already.
                self._inside.pop(token, None)
                self._changed.notify_all()

    def before_fork(self) -> None:
        """Let no thread in, and wait until all are out, at most `max_wait` seconds."""
        with self._changed:
            self._forks += 1
            interrupts = [interrupt for interrupt in self._inside.values() if interrupt is not None]
        for interrupt in interrupts:
            interrupt()
        with self._changed:
            self._changed.wait_for(lambda: not self._inside, self._max_wait)

    def after_fork(self) -> None:
        """Let our threads in again, in the parent."""
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()

    def renew(self) -> None:
        """Start afresh in the child, which has no other threads."""
        # The Condition's lock is re-entrant: a signal handler may fork on a thread that holds it.
        self._changed = threading.Condition()
        self._inside: dict[object, Callable[[], object] | None] = {}
        self._forks = 0


_gate = ForkGate()
forks_wait: Final = _gate.inside

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_gate.before_fork, after_in_parent=_gate.after_fork, after_in_child=_gate.renew)
