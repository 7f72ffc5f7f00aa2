"""The ports of the emission: levels that are shown, and parts that are asked or told beside the news."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from agenteval_collector.model.sessions import SessionLevel
from agenteval_collector.model.telemetry import LogLag


class Assembling(Protocol):
    """The traces that are open. Asked by any thread; must not block."""

    @property
    def open_traces(self) -> int:
        """Traces held in memory, waiting to be complete."""

    def lag(self) -> LogLag: ...


class SessionLevels(Protocol):
    """Source of the levels of open sessions. Called from any thread at each scrape and push, so it must not block."""

    def session_levels(self) -> Iterable[SessionLevel]: ...


class Queue(Protocol):
    """A queue whose length is shown. Asked by any thread; must not block."""

    @property
    def waiting(self) -> int:
        """The number of items that wait now."""


class Push(Protocol):
    """The push of one signal over OTLP. Asked by any thread; must not block."""

    @property
    def failures(self) -> int:
        """Exports that failed for good so far."""


class ProcessesIn(Protocol):
    """The processes that take part in sessions, as far as our processor named them. Thread-safe."""

    def processes_in(self, session_id: str) -> frozenset[str]: ...


class ExportedFindings(Protocol):
    """Keeps the findings whose events have left. Raises RetryableError."""

    def exported(self, keys: Sequence[tuple[str, str, str]]) -> None:
        """Keep them by trace, kind and span; the span is empty where there is none."""
