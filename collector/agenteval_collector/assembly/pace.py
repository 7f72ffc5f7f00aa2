"""How fast requests are worked off, so that what waits can be told in seconds."""

from typing import Final

REMEMBERED: Final = 30.0
"""Seconds of work, about, from which the pace is known. Older work counts less and less."""
ENOUGH: Final = 1.0
"""Seconds of work below which nothing is known."""


class Pace:
    """The bytes that were worked off in how many seconds. One thread notes, any thread asks."""

    def __init__(self) -> None:
        self._worked = (0.0, 0.0)

    def note(self, size: int, seconds: float) -> None:
        """Note that so many bytes took so long."""
        worked, took = self._worked[0] + size, self._worked[1] + seconds
        share = min(1.0, REMEMBERED / took) if took > 0.0 else 1.0
        self._worked = worked * share, took * share

    def seconds_for(self, size: int) -> float | None:
        """Return how long so many bytes will take; None if too little is known."""
        worked, took = self._worked
        return size * took / worked if took >= ENOUGH and worked else None
