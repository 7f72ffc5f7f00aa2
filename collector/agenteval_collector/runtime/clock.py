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
