"""Count how the last sessions of each agent scored, so that new ones can be compared with them."""

from collections import deque
from collections.abc import Iterable
from threading import Lock
from typing import Final

from agenteval_collector.model.news import News
from agenteval_collector.model.sessions import PastSession
from otel_agenteval.lru import Recent
from otel_agenteval.outcome import Part, Subject

KEPT_SESSIONS: Final = 1_000
"""Past sessions of an agent, service and evaluator that count: the newest."""
KEPT_AGENTS: Final = 1_000
"""Agents, services and evaluators that are remembered. The one without news for longest is forgotten."""

Key = tuple[str | None, str | None, str]


class PastSessions:
    """Counts of past sessions, and of the low ones among them. Thread-safe."""

    def __init__(self) -> None:
        self._low: Recent[Key, deque[bool]] = Recent(KEPT_AGENTS)
        self._lock = Lock()

    def remember(self, sessions: Iterable[PastSession]) -> None:
        """Remember sessions that are over, in this order."""
        with self._lock:
            for agent, service, evaluator, low in sessions:
                kept = self._low.get_or_make((agent, service, evaluator), lambda: deque(maxlen=KEPT_SESSIONS))
                kept.append(low)

    def take_news(self, news: News) -> None:
        """Remember the sessions that were over now, of those that were drawn at random for the judge."""
        final = (each.evaluation for each in news.evaluations if each.final)
        self.remember(
            PastSession(each.agent, each.service, each.name, each.success is False)
            for each in final
            if each.subject is Subject.SESSION and each.part is Part.RANDOM
        )

    def count(self, agent: str | None, service: str | None, evaluator: str) -> tuple[int, int]:
        """Return the number of past sessions, and of low ones among them."""
        with self._lock:
            kept = self._low.peek((agent, service, evaluator)) or ()
            return len(kept), sum(kept)
