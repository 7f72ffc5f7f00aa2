"""Senders of spans, and their habits that the collector learns."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, Protocol


class Awaited(StrEnum):
    """A thing that may come after a span."""

    PARENT = "local parent"
    PARENT_OF_FAILED = "local parent of failed"
    """Apart from `PARENT`, because some instrumentations never end the spans above a failure."""
    REMOTE_PARENT = "remote parent"
    LOGS = "log records"


class Sender(NamedTuple):
    """The source of one kind of span. `operation` is `gen_ai.operation.name`, else the first word of the span's
    name."""

    tenant: str
    service: str
    scope: str
    operation: str


class Habit(NamedTuple):
    """A sender, and a thing that may follow its spans. The collector learns whether it usually does."""

    sender: Sender
    what: Awaited


class HabitMemory(Protocol):
    """Keeps the habits of senders from one process to the next. A port of the assembly, and of the Kafka log for it."""

    def save(self, histories: Mapping[Habit, str]) -> None:
        """Keep what was learned; an empty history forgets its habit. Raises RetryableError."""
