"""The memory of the process: how much it takes, and what gives way before it takes too much."""

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import Overloaded
from agenteval_collector.runtime.machine import resident_bytes
from agenteval_collector.runtime.ports import Holder
from agenteval_collector.runtime.work import WorkAccount

REFUSE: Final = 0.85
"""Share of the limit from which on requests are refused."""
RELEASE: Final = 0.92
"""Share of the limit from which on open traces are released early."""
SLACK: Final = 1 / 16
"""Share of the limit that items may take however large the process is. Otherwise the collector would wait for ever for
memory that was freed and that the allocator does not give back."""
MEASURED_EVERY: Final = 0.05
"""Seconds for which a measurement of the process's memory holds."""
GIVE_BACK_EVERY: Final = 1.0
"""Seconds between two attempts to give freed memory back to the system."""
MIB: Final = 1024 * 1024


class MemoryGuard:
    """Keeps the process below `limit` bytes of resident memory. Thread-safe.

    First it refuses requests; `excess` says how much has to be released as well.
    """

    def __init__(
        self,
        limit: int,
        clock: Clock,
        *,
        resident: Callable[[], int] = resident_bytes,
        give_back: Callable[[], object] | None = None,
    ) -> None:
        self.limit = limit
        self._clock = clock
        self._resident = resident
        self._give_back = give_back or _malloc_trim
        self._holders: tuple[Holder, ...] = ()
        self._in_work = 0
        self._used = resident()
        self._look_at = self._give_back_at = clock.monotonic()
        self._lock = threading.Lock()
        self.work = WorkAccount(limit, lambda: self.used, self._give_back_freed)
        """What work takes beside what is kept."""

    def watch(self, *holders: Holder) -> None:
        """Add parts whose items take memory until they are worked off."""
        self._holders += holders

    @property
    def used(self) -> int:
        """Bytes of resident memory."""
        with self._lock:
            now = self._clock.monotonic()
            if now >= self._look_at:
                self._used = self._resident()
                self._look_at = now + MEASURED_EVERY
                if self._used > REFUSE * self.limit:
                    self._give_back_at_times(now)
            return self._used

    @property
    def is_short(self) -> bool:
        """True while the process takes more than the share from which on requests are refused."""
        return self.used > REFUSE * self.limit

    @property
    def excess(self) -> int:
        """Bytes that have to be released early; 0 while refusals are enough."""
        return max(0, round(self.used - RELEASE * self.limit)) if self._holds_much else 0

    @property
    def health(self) -> str | None:
        """None while requests are taken, else a sentence that says why not."""
        return self._refusal(0)

    @contextmanager
    def room(self, size: int) -> Iterator[None]:
        """Count `size` bytes as taken until the end of the `with`. Raises Overloaded if there is no room for
        them."""
        if (refusal := self._refusal(size)) is not None:
            raise Overloaded(f"{refusal}; send again later")
        with self._lock:
            self._in_work += size
        try:
            yield
        finally:
            with self._lock:
                self._in_work -= size

    @property
    def _holds_much(self) -> bool:
        return sum(holder.held for holder in self._holders) > SLACK * self.limit

    def _give_back_freed(self) -> None:
        """Give freed memory back, and look at once how much is taken then."""
        with self._lock:
            if self._give_back_at_times(self._clock.monotonic()):
                self._used = self._resident()

    def _give_back_at_times(self, now: float) -> bool:
        if is_time := now >= self._give_back_at:
            self._give_back_at = now + GIVE_BACK_EVERY
            self._give_back()
        return is_time

    def _refusal(self, size: int) -> str | None:
        used = self.used
        if used + self._in_work + size <= REFUSE * self.limit or not (self._in_work or self._holds_much):
            return None
        return f"the collector takes {used // MIB} of {self.limit // MIB} MiB of memory (server.memory_limit)"


def _malloc_trim() -> None:
    """Give the memory that was freed back to the system, if the C library can."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)
