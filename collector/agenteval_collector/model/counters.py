"""The port through which stages count their own work."""

from enum import StrEnum
from typing import Protocol


class Counted(StrEnum):
    """The counters of the stages' own work, by name."""

    RECEIVED = "spans.received"
    REJECTED = "spans.rejected"
    LATE = "spans.late"
    OWN_SCOPE = "spans.own_scope"
    REPLAYED = "requests.replayed"
    RELEASED_EARLY = "traces.released_early"
    PARTIAL = "traces.partial"
    ESCALATED = "sessions.escalated"
    NOT_ESCALATED = "sessions.not_escalated"
    REFUSED = "requests.refused"
    UNREAD = "values.unread"
    PASSED_OVER = "messages.passed_over"
    LEFT_OUT = "results.left_out"
    METRICS_DROPPED = "metrics.dropped"
    DROPPED = "queue.dropped"
    FORGOTTEN = "retention.removed"
    NOT_SENT = "notifications.failed"
    SINK_FAILED = "sink.failures"


class Telemetry(Protocol):
    """Counts the stages' own work. Thread-safe."""

    def count(self, what: Counted, number: int = 1, which: str = "") -> None:
        """Add `number` to a counter. `which` is its label: a short name from our code, such as a queue or error
        type."""


class NoTelemetry:
    """Telemetry that counts nothing."""

    def count(self, what: Counted, number: int = 1, which: str = "") -> None: ...
