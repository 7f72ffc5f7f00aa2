"""Senders of spans, and their habits that the collector learns."""

import json
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple


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

    @property
    def digest(self) -> str:
        """The name under which the store keeps the habit.

        Names of services, scopes and spans outlive the traces that they come from, so they are not kept there.
        """
        return _digest(self)


@lru_cache(maxsize=10_000)
def _digest(habit: Habit) -> str:
    sender = habit.sender
    parts = json.dumps((sender.service, sender.scope, sender.operation, habit.what))
    return blake2b(parts.encode(), digest_size=16).hexdigest()
