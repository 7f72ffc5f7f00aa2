"""The port behind the log, and the one that every log has."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from agenteval_collector.model.logged_requests import LoggedRequest


class RequestTaker(Protocol):
    """Takes committed requests; the assembly."""

    def take_request(self, request: LoggedRequest) -> None:
        """Take a request that is on disk. Must not block: it was acknowledged, and is kept whatever waits."""


class Requests(Protocol):
    """A log of requests, wherever they are kept. Raises Unavailable where it cannot be read or trimmed now."""

    def read(self, start: int) -> Iterable[LoggedRequest]:
        """Return the requests from offset `start` on, as far as they are there now."""

    def last_offset(self) -> int:
        """Return the newest offset; 0 for an empty log."""

    def get(self, offsets: Sequence[int]) -> Iterable[LoggedRequest]:
        """Return the requests at these offsets that are still kept, in order."""

    def trim(self, below: int, older_than: int, batch: int) -> int:
        """Forget the first `batch` requests below an offset that are old enough; return how many there were."""

    def shutdown(self) -> None:
        """Close it."""
