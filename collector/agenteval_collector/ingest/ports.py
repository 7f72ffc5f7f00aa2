"""The ports of the ingest: the log, the store of labels, and the stage behind the log."""

from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import Future
from typing import Protocol

from agenteval_collector.model.labels import Label
from agenteval_collector.model.logged_requests import LoggedRequest, Signal


class RequestAppender(Protocol):
    """The durable log."""

    def append(self, signal: Signal, body: bytes) -> Sequence[Future[int]]:
        """Append a request, in one part or several; each future has its part's offset once that is on disk. Raises
        Overloaded if too much waits."""


class Labels(Protocol):
    """Keeps labels; the store."""

    def label(self, *labels: Label) -> None:
        """Keep each label instead of an earlier one of the same author. Durable on return. Raises RetryableError."""


class Admission(Protocol):
    """The assembly, which takes requests from the log and may be late with them."""

    def admit(self) -> None:
        """Raises Overloaded while it has no room for more."""


class RequestTaker(Protocol):
    """The assembly, which takes committed requests."""

    def take_request(self, request: LoggedRequest) -> None:
        """Take a request that is on disk. Must not block, and must not refuse it: it was acknowledged."""


class Requests(Protocol):
    """The requests of a log, in a file or in Kafka. Raises Unavailable if they cannot be read or trimmed now."""

    def read(self, start: int) -> Iterable[LoggedRequest]:
        """Return the requests from offset `start` on that are there now."""

    def last_offset(self) -> int:
        """Return the newest offset; 0 for an empty log."""

    def get(self, offsets: Sequence[int]) -> Iterable[LoggedRequest]:
        """Return the requests at these offsets that are still kept, in order."""

    def trim(self, below: int, older_than: int, batch: int, but: Collection[int] = ()) -> int:
        """Forget the first `batch` requests below offset `below` that were received before `older_than` (ns since the
        Unix epoch), except those at the offsets `but`. Return their number."""

    def shutdown(self) -> None:
        """Close the log."""
