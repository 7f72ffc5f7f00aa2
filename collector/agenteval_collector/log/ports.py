"""The port behind the log."""

from typing import Protocol

from agenteval_collector.model.telemetry import LoggedRequest


class RequestTaker(Protocol):
    """Takes committed requests; the assembly."""

    def take_request(self, request: LoggedRequest) -> None:
        """Take a request that is on disk. Must not block: it was acknowledged, and is kept whatever waits."""
