"""Sessions that were reported ended while spans of theirs may still be on the way."""

from typing import Final

MAX_ENDINGS: Final = 10_000
"""Sessions that wait for their end. Above that the one that was reported first is over at once."""


class Endings:
    """Sessions that end `hold` seconds after they were reported: what comes meanwhile was said before. Not
    thread-safe."""

    def __init__(self, hold: float) -> None:
        self._hold = hold
        self._over_at: dict[str, float] = {}  # In order of time.

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._over_at

    def put(self, session_id: str, now: float) -> None:
        """Note that the session was reported ended at `now` (monotonic)."""
        self._over_at.pop(session_id, None)
        self._over_at[session_id] = now + self._hold

    def forget(self, session_id: str) -> None:
        """Forget that the session was reported ended."""
        self._over_at.pop(session_id, None)

    def over(self, now: float) -> list[str]:
        """Remove and return the sessions that have ended at `now`."""
        found: list[str] = []
        for session_id, over_at in self._over_at.items():
            if over_at > now and len(self._over_at) - len(found) <= MAX_ENDINGS:
                break
            found.append(session_id)
        for session_id in found:
            del self._over_at[session_id]
        return found
