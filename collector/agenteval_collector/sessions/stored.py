"""Sessions as the store has them, for a process that does not evaluate all of them itself."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from threading import Lock
from typing import Final

from agenteval_collector.model.sessions import PastSession, SessionLevel
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.sessions.past import PastSessions

LEVELS_EVERY: Final = 5.0
"""Seconds for which levels are shown as they were read: one scrape asks three times."""
PAST_EVERY: Final = 60.0
"""Seconds for which past sessions are counted as they were read; they change slowly, and are many."""
SPARE_COUNTS: Final = 1_000
"""Levels of zero that are shown on."""


class StoredSessions:
    """The levels of open sessions, and counts of past ones, read again now and then. Thread-safe.

    Both raise what the reading raises, and read again the next time.
    """

    def __init__(
        self, levels: Callable[[], Iterable[SessionLevel]], past: Callable[[], Iterable[PastSession]], clock: Clock
    ) -> None:
        self._read_levels = levels
        self._read_past = past
        self._clock = clock
        self._levels: list[SessionLevel] = []
        self._past = PastSessions()
        self._next_levels = self._next_past = float("-inf")
        self._lock = Lock()

    def session_levels(self) -> Iterable[SessionLevel]:
        with self._lock:
            if self._clock.monotonic() >= self._next_levels:
                self._levels = self._with_zeros([*self._read_levels()])
                self._next_levels = self._clock.monotonic() + LEVELS_EVERY
            return self._levels

    def count(self, agent: str | None, service: str | None, evaluator: str) -> tuple[int, int]:
        with self._lock:
            if self._clock.monotonic() >= self._next_past:
                past = PastSessions()
                past.remember(self._read_past())
                self._past, self._next_past = past, self._clock.monotonic() + PAST_EVERY
            return self._past.count(agent, service, evaluator)

    def _with_zeros(self, levels: list[SessionLevel]) -> list[SessionLevel]:
        """Add what was shown before and is gone: a gauge that falls to zero must say so."""
        known = {_key(each) for each in levels}
        gone = [replace(each, active=0, low=0) for each in self._levels if _key(each) not in known]
        return levels + gone[:SPARE_COUNTS]


def _key(level: SessionLevel) -> tuple[str | None, str | None, str | None]:
    return level.agent, level.service, level.evaluator
