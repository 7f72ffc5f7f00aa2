"""Senders of spans, and the habits that are learned of them."""

from enum import StrEnum
from typing import NamedTuple


class What(StrEnum):
    """A thing that may come after a span."""

    PARENT = "local parent"
    PARENT_OF_FAILED = "local parent of failed"
    """Apart, because some instrumentations never end what was open above a failure."""
    REMOTE_PARENT = "remote parent"
    LOGS = "log records"


class Sender(NamedTuple):
    """The sender of one sort of spans. `operation` is `gen_ai.operation.name`, else the first word of their name."""

    tenant: str
    service: str
    scope: str
    operation: str


class Habit(NamedTuple):
    """A thing that a sender's spans may be followed by: what is learned, and kept, is whether they are."""

    sender: Sender
    what: What
