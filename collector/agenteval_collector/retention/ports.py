"""The ports of the retention: the store, its files, and whatever holds traces.

Every call may raise Unavailable; nothing is done then.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from agenteval_collector.model.deletions import DeletionFilter, Receipt


class Deletions(Protocol):
    """The deletions that were asked for, and the old traces, in the store."""

    def add(self, deletion_id: str, wanted: DeletionFilter, by: str | None) -> str:
        """Keep that this is to be deleted. Returns the deletion's id: another one where it is under way already."""

    def pending(self) -> Sequence[tuple[str, DeletionFilter]]:
        """Return the deletions that are not done, the oldest first."""

    def receipt(self, deletion_id: str) -> Receipt | None:
        """Return what a deletion has removed so far; None where it is unknown."""

    def sessions_of(self, wanted: DeletionFilter) -> Sequence[str]:
        """Return the sessions that go as a whole."""

    def add_removed(self, deletion_id: str, removed: Mapping[str, int]) -> None:
        """Add to what a deletion has removed."""

    def clean_said_index(self) -> None:
        """Take the pieces of deleted texts out of the index of what was said."""

    def mark_done(self, deletion_id: str) -> None:
        """Note that a deletion is done, and forget what it was about."""

    def forget_content(self, before: int, limit: int) -> int:
        """Forget what was said in the oldest traces scored before that time (ns), at most `limit`; return how many."""

    def oldest_content(self, limit: int) -> int | None:
        """Return the time (ns) up to which the `limit` oldest traces with content were scored; None where none has."""

    def forget_receipts(self, before: int) -> None:
        """Forget deletions that were done before that time (ns)."""


class File(Protocol):
    """A file that gives back the space of what was removed."""

    @property
    def used_bytes(self) -> int:
        """The bytes of the file that hold something."""

    def give_back(self, most: int) -> int:
        """Give at most `most` bytes that hold nothing back to the disk; return how many."""

    def scrub(self, start: int) -> int | None:
        """Overwrite what is left of removed rows in a part of the file; return where the next part begins, None at the
        end."""


class Erasure(Protocol):
    """Everything that holds traces in memory, on its way into the store."""

    def erase(self, deletion_id: str, wanted: DeletionFilter, session_ids: Sequence[str]) -> bool:
        """Erase some of the traces that a deletion covers, from memory and the store; return whether there may be
        more. The sessions `session_ids` go as a whole, with its last traces."""

    def erase_from_log(self, start: int) -> tuple[int | None, Mapping[str, int]]:
        """Erase what was erased from the store from some requests of the log, from offset `start` on. Returns where to
        go on, None at the end, and what was removed."""

    def mark_erased(self) -> None:
        """Note that the log holds nothing any more of what was deleted so far."""

    def erase_older(self, before: int) -> bool:
        """Erase some traces scored before that time (ns), and sessions that were not seen since; return whether there
        may be more."""

    def trim_log(self, received_before: int) -> bool:
        """Forget some requests that were received before that time (ns) and are scored; return whether there may be
        more."""
