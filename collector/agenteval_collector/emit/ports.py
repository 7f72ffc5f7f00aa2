"""The ports of the emission: levels that are shown, and parts that are asked or told beside the news."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from agenteval_collector.model.logged_requests import LogLag
from agenteval_collector.model.news import Event


class Assembling(Protocol):
    """The traces that are open. Asked by any thread; must not block."""

    @property
    def open_traces(self) -> int:
        """Traces held in memory, waiting to be complete."""

    def lag(self) -> LogLag: ...


class PastSessionCounts(Protocol):
    """Source of how past sessions ended. Called from any thread at each scrape and push, so it must not block."""

    def count(self, agent: str | None, service: str | None, evaluator: str) -> tuple[int, int]:
        """Return the number of past sessions that count, and of low ones among them."""


class Queue(Protocol):
    """A queue whose length is shown. Asked by any thread; must not block."""

    @property
    def waiting(self) -> int:
        """The number of items that wait now."""


class JudgeQueue(Queue, Protocol):
    """The traces that wait for the judge."""

    @property
    def paused(self) -> bool:
        """True while the judge does not answer and requests are held back."""


class ProcessesIn(Protocol):
    """The processes that take part in sessions, as far as our processor named them. Thread-safe."""

    def processes_in(self, session_id: str) -> frozenset[str]: ...


class EventOutbox(Protocol):
    """The events that have not arrived yet. Raises RetryableError."""

    def oldest(self, limit: int) -> Sequence[Event]:
        """Return the `limit` oldest events."""

    def remove(self, events: Iterable[Event]) -> None:
        """Forget events that have arrived."""

    def drop(self, count: int) -> None:
        """Forget the `count` oldest events, which have not arrived."""

    def size(self) -> int:
        """Return how many events wait."""
