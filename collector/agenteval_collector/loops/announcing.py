"""The one way by which a verdict becomes known."""

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from agenteval_collector.pipeline import FoundVerdict


class KeptVerdicts(Protocol):
    """What the announcer knows of the store."""

    def keep(self, found: Sequence[FoundVerdict]) -> list[FoundVerdict]: ...


class Announcer:
    """Keeps verdicts and tells those that are new: a loop may be found live, at completion, and in a replay of the
    log, and is told once. Thread-safe."""

    def __init__(self, store: KeptVerdicts, tell: Callable[[Sequence[FoundVerdict]], None]) -> None:
        """`tell` is called by one thread at a time, and must not block or raise."""
        self._store = store
        self._tell = tell
        # They are told in the order in which they were kept, whichever thread found them.
        self._lock = threading.Lock()

    def announce(self, found: Sequence[FoundVerdict]) -> None:
        """Raises RetryableError where they could not be kept; nobody was told then."""
        with self._lock:
            new = self._store.keep(found)
            if new:
                self._tell(new)
