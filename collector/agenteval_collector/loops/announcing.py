"""The one way by which a verdict becomes known."""

import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from agenteval_collector.clock import Clock
from agenteval_collector.pipeline import FoundVerdict, ToldVerdict, TraceNames

NAMED_WITHIN: Final = 30.0
"""Seconds after which a verdict counts though its agent is not known."""
LOOK_EVERY: Final = 1.0
"""Seconds between two looks for such verdicts."""


class KeptVerdicts(Protocol):
    """What the announcer knows of the store."""

    def keep(
        self, found: Sequence[FoundVerdict], complete: Sequence[TraceNames]
    ) -> tuple[list[ToldVerdict], list[FoundVerdict]]: ...

    def overdue(self, before: int) -> list[FoundVerdict]: ...


class Announcer:
    """Keeps verdicts and tells those that are new: a loop may be found live, at completion, and in a replay of the
    log, and is told once. Whose it is may become known later: then it is told to those who could not be told before.
    It counts once, as soon as its agent is known, or after `NAMED_WITHIN`. Thread-safe.
    """

    def __init__(
        self,
        store: KeptVerdicts,
        tell: Callable[[Sequence[ToldVerdict]], None],
        count: Callable[[Sequence[FoundVerdict]], None],
        clock: Clock,
    ) -> None:
        """`tell` and `count` are called by one thread at a time, and must not block or raise."""
        self._store = store
        self._tell = tell
        self._count = count
        self._clock = clock
        self._next_look = 0.0
        # They are told in the order in which they were kept, whichever thread found them.
        self._lock = threading.Lock()

    def announce(self, found: Sequence[FoundVerdict], complete: Sequence[TraceNames] = ()) -> None:
        """Whose `complete` traces are is known now. Raises RetryableError where it could not be kept; nobody was told
        then."""
        with self._lock:
            told, counts = self._store.keep(found, complete)
            if told:
                self._tell(told)
            if counts:
                self._count(counts)

    def count_overdue(self) -> None:
        """To be called again and again, as often as one likes. Raises RetryableError; nothing was counted then."""
        with self._lock:
            now = self._clock.monotonic()
            if now < self._next_look:
                return
            self._next_look = now + LOOK_EVERY
            overdue = self._store.overdue(self._clock.now() - round(NAMED_WITHIN * 1e9))
            if overdue:
                self._count(overdue)
