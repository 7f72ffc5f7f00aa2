"""The ports of the log: the stage behind it, and the look-ups that every log offers."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from agenteval_collector.model.logged_requests import LoggedRequest


class RequestTaker(Protocol):
    """The assembly, which takes committed requests."""

    def take_request(self, request: LoggedRequest) -> None:
        """Take a request that is on disk. Must not block, and must not refuse it: it was acknowledged."""


class Requests(Protocol):
    """The requests of a log, in a file or in Kafka. Raises Unavailable where they cannot be read or trimmed now."""

    def read(self, start: int) -> Iterable[LoggedRequest]:
        """Return the requests from offset `start` on that are there now."""

    def last_offset(self) -> int:
        """Return the newest offset; 0 for an empty log."""

    def get(self, offsets: Sequence[int]) -> Iterable[LoggedRequest]:
        """Return the requests at these offsets that are still kept, in order."""

    def trim(self, below: int, older_than: int, batch: int) -> int:
        """Forget the first `batch` requests below offset `below` that were received before `older_than` (ns since the
        Unix epoch). Return their number."""

    def shutdown(self) -> None:
        """Close the log."""
