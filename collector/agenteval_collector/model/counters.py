"""The port to the counters of the stages' own work."""

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
    LEFT_OUT = "results.left_out"
    DROPPED = "queue.dropped"
    FORGOTTEN = "retention.removed"
    SINK_FAILED = "sink.failures"


class Telemetry(Protocol):
    """The counters of the stages' own work. Thread-safe."""

    def count(self, what: Counted, number: int = 1, which: str = "") -> None:
        """Add to a counter; `which` tells its sorts apart: a queue, a type of error, by a short name from our code."""


class NoTelemetry:
    """Telemetry that counts nothing."""

    def count(self, what: Counted, number: int = 1, which: str = "") -> None: ...
