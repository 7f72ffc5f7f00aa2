"""The ports to the log, to labels, and to what comes behind the log."""

from concurrent.futures import Future
from typing import Protocol

from agenteval_collector.model.labels import Label
from agenteval_collector.model.logged_requests import Signal


class RequestAppender(Protocol):
    """The durable log."""

    def append(self, signal: Signal, body: bytes) -> Future[int]:
        """Return the request's offset once it is on disk. Raises Overloaded where too much waits already."""


class Labels(Protocol):
    """Keeps labels; the store."""

    def label(self, *said: Label) -> None:
        """Keep each instead of an earlier one of the same author. Durable when it returns; raises RetryableError."""


class Admission(Protocol):
    """The stage behind the log, which may be behind with its work; the assembly."""

    def admit(self) -> None:
        """Raises Overloaded while it has no room for more."""
