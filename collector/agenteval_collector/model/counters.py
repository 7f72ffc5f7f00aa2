"""The port to the counters of the stages' own work."""

from typing import Protocol


class Telemetry(Protocol):
    """The counters of the stages' own work. Each call adds to one counter. Thread-safe."""

    def received(self, spans: int) -> None:
        """Count spans and log records of an acknowledged request."""

    def rejected(self, spans: int) -> None:
        """Count spans and log records that were refused one by one (invalid ids, too large)."""

    def refused(self, error_type: str) -> None:
        """Count a request that was refused as a whole, by the type of the error."""

    def own_scope(self, spans: int) -> None:
        """Count spans and log records of our own instrumentation scopes, which are never evaluated."""

    def result_left_out(self, reason: str, results: int) -> None:
        """Count results of other evaluators that could not be kept, by a short word for why."""

    def unread(self, kind: str, values: int) -> None:
        """Recorded values that no dialect could read, by a short name of what they were."""

    def late(self, spans: int) -> None:
        """Count spans and log records that came after their trace was scored."""

    def replayed(self, requests: int) -> None:
        """Count requests read again from the log after a restart."""

    def released_early(self, traces: int) -> None:
        """Count traces scored before they were complete, to keep memory bounded or because they grew too old."""

    def dropped(self, queue: str, count: int) -> None:
        """Count items that a full queue lost, by its name."""

    def escalation(self, has_place: bool) -> None:
        """Count a session outside the sample whose findings call for the judge, and whether there was a place."""


class NoTelemetry:
    """Telemetry that counts nothing."""

    def received(self, spans: int) -> None: ...
    def rejected(self, spans: int) -> None: ...
    def refused(self, error_type: str) -> None: ...
    def own_scope(self, spans: int) -> None: ...
    def result_left_out(self, reason: str, results: int) -> None: ...
    def unread(self, kind: str, values: int) -> None: ...
    def late(self, spans: int) -> None: ...
    def replayed(self, requests: int) -> None: ...
    def released_early(self, traces: int) -> None: ...
    def dropped(self, queue: str, count: int) -> None: ...
    def escalation(self, has_place: bool) -> None: ...
