"""Time as a parameter: everything that waits or stamps takes a `Clock`, so that tests move time instead of sleeping."""

import time
from typing import Protocol


class Clock(Protocol):
    """Two readings of time. Deadlines use `monotonic`, whatever is shown or stored uses `now`."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary point; never goes back."""
        ...

    def now(self) -> int:
        """Nanoseconds since the Unix epoch, UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> int:
        return time.time_ns()


class ManualClock:
    """A clock that stands still until it is told to advance; for tests and for replay."""

    def __init__(self, now: int = 1_700_000_000_000_000_000) -> None:
        self._now = now
        self._monotonic = 0.0

    def monotonic(self) -> float:
        return self._monotonic

    def now(self) -> int:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move both readings forward."""
        self._monotonic += seconds
        self._now += round(seconds * 1e9)
