"""Input that is set aside: it is kept, and nobody works on it until somebody asks for that."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class InputKind(StrEnum):
    """The kind of input."""

    REQUEST = "request"
    TRACE = "trace"
    ROW = "row"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineItem:
    """A piece of input that is set aside. `trace_id` is the trace that it is about, if it is about one.

    `key` is the offset of a request in the log, the id of a trace, or the table of a row and a
    digest of its key. `since` is in
    nanoseconds since the Unix epoch. `size` is in bytes; None if nothing has measured it. `reason` is a sentence.
    `is_retried`: somebody has asked to try it again, and it is not done.
    """

    kind: InputKind
    key: str
    since: int
    size: int | None
    reason: str
    trace_id: str | None = None
    is_retried: bool = False

    @property
    def item_id(self) -> str:
        """The id by which people name it."""
        return item_id(self.kind, self.key)

    @property
    def trace_ids(self) -> Sequence[str]:
        """The traces that are known to be part of it. What is in a request is not known, as nobody reads it."""
        return () if self.trace_id is None else (self.trace_id,)


def item_id(kind: InputKind, key: str) -> str:
    """Return the id of an item."""
    return f"{kind}-{key}"
