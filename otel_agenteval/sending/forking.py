"""A gate for forks. A child gets one thread and, of all others, whatever they had half done.

A half-done import of gRPC would be the child's for good, and gRPC readies itself for a fork only while no thread is
inside it; else the child may crash (`grpc_prefork` in its fork_posix.cc).
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

MAX_WAIT: Final = 1.0
"""Seconds that a fork and our threads wait for each other; after that, both go on."""


class ForkGate:
    """Keeps forks out while our threads do `inside` what a child must not inherit half done.

    Neither waits for the other more than `max_wait` seconds.
    """

    def __init__(self, max_wait: float = MAX_WAIT) -> None:
        self._max_wait = max_wait
        self.renew()

    @contextmanager
    def inside(self, interrupt: Callable[[], object] | None = None) -> Iterator[None]:
        """Keep forks waiting. A long operation has an `interrupt`, which a fork calls on its own thread to end it."""
        token = object()
        with self._changed:
            self._changed.wait_for(lambda: not self._forks, self._max_wait)
            self._inside[token] = interrupt
        try:
            yield
        finally:
            with self._changed:
                # Not in a child that this very thread forked.
                self._inside.pop(token, None)
                self._changed.notify_all()

    def before_fork(self) -> None:
        """Let nobody in, and wait until all are out, at most `max_wait` seconds."""
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
        """Start afresh in the child, where nobody else is."""
        # Its lock is re-entrant: a signal handler may fork on a thread that holds it.
        self._changed = threading.Condition()
        self._inside: dict[object, Callable[[], object] | None] = {}
        self._forks = 0


_gate = ForkGate()
forks_wait: Final = _gate.inside

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_gate.before_fork, after_in_parent=_gate.after_fork, after_in_child=_gate.renew)
