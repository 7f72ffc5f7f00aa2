"""A clock that tests move, so that nothing sleeps."""


class ManualClock:
    """A `Clock` that stands still until it is told to advance."""

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
