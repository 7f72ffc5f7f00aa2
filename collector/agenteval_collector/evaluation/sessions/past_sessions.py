"""Counts of past sessions of each agent by score, so that new sessions can be compared with them.

For a process that does not evaluate all sessions itself, the counts are read from the store.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from threading import Lock
from typing import Final

from agenteval_collector.model.news import News
from agenteval_collector.model.sessions import PastSession, SessionLevel
from agenteval_collector.runtime.clock import Clock
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.outcome import JudgedPart, SubjectKind

KEPT_SESSIONS: Final = 1_000
"""The newest past sessions that count for one agent, service and evaluator."""
KEPT_AGENTS: Final = 1_000
"""Agents, services and evaluators that are remembered together. The longest without news are forgotten first."""

Key = tuple[str | None, str | None, str]


class PastSessions:
    """Counts past sessions, and those among them that score low. Thread-safe."""

    def __init__(self) -> None:
        self._low: LruMap[Key, deque[bool]] = LruMap(KEPT_AGENTS)
        self._lock = Lock()

    def remember(self, sessions: Iterable[PastSession]) -> None:
        """Remember these sessions, which are over. The last one counts as the newest."""
        with self._lock:
            for agent, service, evaluator, low in sessions:
                scores = self._low.get_or_make((agent, service, evaluator), lambda: deque(maxlen=KEPT_SESSIONS))
                scores.append(low)

    def take_news(self, news: News) -> None:
        """Remember the sessions that are over now, if they were drawn at random for the judge."""
        final = (item.evaluation for item in news.evaluations if item.final)
        self.remember(
            PastSession(item.agent, item.service, item.name, item.success is False)
            for item in final
            if item.subject is SubjectKind.SESSION and item.part is JudgedPart.RANDOM
        )

    def count(self, agent: str | None, service: str | None, evaluator: str) -> tuple[int, int]:
        """Return the number of past sessions, and the number of those that score low."""
        with self._lock:
            scores = self._low.peek((agent, service, evaluator)) or ()
            return len(scores), sum(scores)


LEVELS_EVERY: Final = 5.0
"""Seconds until levels are read again. One scrape asks for them three times."""
PAST_EVERY: Final = 60.0
"""Seconds until past sessions are read again. They are many, and their counts change slowly."""
SPARE_COUNTS: Final = 1_000
"""The most levels that are shown as zero after they have gone."""


class StoredSessions:
    """The levels of open sessions and the counts of past sessions, read from the store now and then. Thread-safe.

    Both methods raise the errors of the read, and read again at the next call.
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
        """Add levels that were shown before and are gone, as zero. A gauge that falls to zero has to be reported."""
        keys = {_key(level) for level in levels}
        gone = [replace(level, active=0, low=0) for level in self._levels if _key(level) not in keys]
        return levels + gone[:SPARE_COUNTS]


def _key(level: SessionLevel) -> tuple[str | None, str | None, str | None]:
    return level.agent, level.service, level.evaluator
