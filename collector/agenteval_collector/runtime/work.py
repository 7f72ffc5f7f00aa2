"""The account of the memory that work takes beside what is kept: pieces of work reserve it before they begin."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from agenteval_collector.runtime.errors import Unavailable

_MIB: Final = 1024 * 1024
SMALL: Final = _MIB
"""Bytes of work that need no reservation."""
SCORING: Final = 20
"""Bytes that scoring takes at most for each byte of a trace; measured for traces of messages, whose parts are objects
while they are read."""
ASSEMBLING: Final = 8
"""Bytes that sorting spans into traces takes at most for each byte of requests."""
ERASING: Final = 4
"""Bytes that taking traces out of requests takes at most for each byte of them."""
SPANS: Final = 10
"""Bytes that an answer about spans takes at most for each byte of a trace, until it is encoded."""
ANSWER: Final = 32 * _MIB
"""Bytes that any other answer takes at most, until it is encoded."""
READ_WITHIN: Final = 4.0
"""Seconds that an answer waits for memory: less than those after which the web port gives up."""
LOOK_AGAIN: Final = 0.05
"""Seconds after which one that waits looks at the process's memory again."""
MAY_USE: Final = 0.95
"""Share of the limit that the process may reach with everything that is reserved."""


class WorkAccount:
    """Reserves memory for pieces of work, so that those that run at the same time never add up to more than there is.

    Work that does not fit waits, the longest first. Work that runs alone always fits: a wait would not make its cost
    smaller. `used` returns the bytes that the process takes now, of at most `limit`; `give_back` gives what it has
    freed back to the system, before work that would not fit otherwise. `waited` counts the pieces that
    had to wait, and `refused` those that gave up. Thread-safe.
    """

    def __init__(self, limit: int, used: Callable[[], int], give_back: Callable[[], object] = lambda: None) -> None:
        self.waited = 0
        self.refused = 0
        self._limit = limit
        self._used = used
        self._give_back_freed = give_back
        self._reserved = 0
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()
        self._own = threading.local()

    @property
    def reserved(self) -> int:
        """The bytes that are reserved now."""
        return self._reserved

    @contextmanager
    def reserve(self, size: int, patience: float | None = None) -> Iterator[None]:
        """Reserve `size` bytes until the end of the `with`. Raises Unavailable if there is no room for them within
        `patience` seconds; None waits for as long as it takes.

        A thread that has reserved memory already gives it back before it waits for more, so that two never wait for
        each other.
        """
        if size < SMALL:
            yield
            return
        before: int = getattr(self._own, "size", 0)
        self._give_back(before)
        try:
            self._take(max(size, before), patience)
        except Unavailable:
            self._regain(before)
            raise
        self._own.size = max(size, before)
        try:
            yield
        finally:
            self._own.size = before
            self._give_back(max(size, before) - before)

    @staticmethod
    def reserve_nothing(size: int, patience: float | None = None) -> AbstractContextManager[None]:
        """Do as `reserve` of an account without a bound does."""
        return nullcontext()

    def _take(self, size: int, patience: float | None) -> None:
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                if self._used() + self._reserved + size > MAY_USE * self._limit:
                    self._give_back_freed()
                if self._fits(ticket, size):
                    self._reserved += size
                    return
                self.waited += 1
                self._await(ticket, size, patience)
                self._reserved += size
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    def _await(self, ticket: object, size: int, patience: float | None) -> None:
        until = None if patience is None else time.monotonic() + patience
        while not self._fits(ticket, size):
            if until is not None and time.monotonic() >= until:
                self.refused += 1
                raise Unavailable(
                    f"other work has the memory that this takes, about {size // _MIB} of {self._limit // _MIB} MiB "
                    "(server.memory_limit); ask again later"
                )
            # Memory of the process is freed without a word, so it is looked at again.
            self._changed.wait(LOOK_AGAIN)

    def _fits(self, ticket: object, size: int) -> bool:
        if self._waiting[0] is not ticket:
            return False
        return not self._reserved or self._used() + self._reserved + size <= MAY_USE * self._limit

    def _give_back(self, size: int) -> None:
        if size:
            with self._changed:
                self._reserved -= size
                self._changed.notify_all()

    def _regain(self, size: int) -> None:
        """Count memory again that was given back, without a wait: what it was reserved for is there still."""
        with self._changed:
            self._reserved += size
