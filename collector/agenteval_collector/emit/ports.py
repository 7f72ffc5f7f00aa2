"""The ports of `emit`: figures that are shown, and stores that it reads and changes."""

from typing import Any, Protocol, TypeVar

from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.metrics.export import MetricExportResult

Batch_contra = TypeVar("Batch_contra", contravariant=True)


class PastSessionCounts(Protocol):
    """The scores of past sessions. Called by any thread at each scrape and push; must not block."""

    def count(self, agent: str | None, service: str | None, evaluator: str) -> tuple[int, int]:
        """Return the number of past sessions with a score, and how many of them scored low."""


class Queue(Protocol):
    """A queue whose length is shown. Called by any thread; must not block."""

    @property
    def waiting(self) -> int:
        """The number of items that wait now."""


class ProcessesIn(Protocol):
    """The processes that take part in sessions and traces, each behind the name of its key
    (`model.callers.participant_of`). Thread-safe."""

    def processes_in(self, session_id: str) -> frozenset[str]: ...

    def processes_of(self, trace_id: str) -> frozenset[str]: ...


class Courier(Protocol):
    """Brings messages to one place. Called by one thread; returns within seconds."""

    def send(self, title: str, body: str) -> bool:
        """Send a message. Return whether the place has taken it."""


class Exporter(Protocol[Batch_contra]):
    """An exporter of the SDK."""

    def export(self, batch: Batch_contra, /) -> LogRecordExportResult | MetricExportResult:
        """Send a batch, and return whether the endpoint has taken it."""

    def shutdown(self) -> Any: ...
