"""The ports of the retention: to the store, to its files, and to everything that holds traces.

Every call may raise Unavailable. It has done nothing then.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from agenteval_collector.model.deletions import DeletionFilter, Receipt


class Deletions(Protocol):
    """The deletions that were asked for, and the old traces, as the store has them."""

    def add(self, deletion_id: str, wanted: DeletionFilter, by: str | None) -> str:
        """Store a deletion that was asked for. Return its id, or the id of the same deletion if it is under way."""

    def pending(self) -> Sequence[tuple[str, DeletionFilter]]:
        """Return the deletions that are not done, the oldest first."""

    def receipt(self, deletion_id: str) -> Receipt | None:
        """Return the receipt of what a deletion has removed so far. Return None if the deletion is unknown."""

    def sessions_of(self, wanted: DeletionFilter) -> Sequence[str]:
        """Return the sessions that the deletion covers as a whole."""

    def add_removed(self, deletion_id: str, removed: Mapping[str, int]) -> None:
        """Add to the counts of what a deletion has removed."""

    def rebuild_said_index(self) -> None:
        """Make the index of what was said anew, without the pieces of deleted texts."""

    def mark_done(self, deletion_id: str) -> None:
        """Note that a deletion is done, and forget what it was about."""

    def forget_content(self, before: int, limit: int) -> int:
        """Forget the content of the oldest traces scored before `before` (ns), `limit` at most. Return their number."""

    def oldest_content(self, limit: int) -> int | None:
        """Return the time (ns) up to which the `limit` oldest traces with content were scored. None without any."""

    def forget_receipts(self, before: int) -> None:
        """Forget the receipts of deletions that were done before `before` (ns)."""


class File(Protocol):
    """A file of a database that gives back the space of removed rows."""

    @property
    def used_bytes(self) -> int:
        """The bytes of the file that hold data."""

    def give_back(self, most: int) -> int:
        """Give free bytes back to the disk, `most` at most. Return their number."""

    @property
    def is_small(self) -> bool:
        """True if a vacuum holds up writers for a few seconds at most."""

    def is_quiet(self) -> bool:
        """Return whether nobody has written to the file since the last call."""

    def vacuum(self) -> None:
        """Write the file anew, without the remains of deleted rows."""

    def empty_log(self) -> None:
        """Empty the write-ahead log of the file."""


class Erasure(Protocol):
    """Everything that holds traces, in memory on the way into the store, in the store and in the log."""

    def erase(self, deletion_id: str, wanted: DeletionFilter, session_ids: Sequence[str]) -> bool:
        """Erase some of the traces that a deletion covers, from memory and the store. Return whether there may be more.

        The sessions `session_ids` go as a whole, together with the last traces of the deletion.
        """

    def erase_from_log(self, start: int) -> tuple[int | None, Mapping[str, int]]:
        """Erase from the log what was erased from the store, in some of its requests from offset `start` on.

        Return the offset to go on from, None at the end, and the counts of what was removed.
        """

    def mark_erased(self) -> None:
        """Note that the log has nothing left of what was deleted so far."""

    def erase_older(self, before: int) -> bool:
        """Erase some traces scored before `before` (ns), and sessions that were not seen since.

        Return whether there may be more.
        """

    def trim_log(self, received_before: int) -> bool:
        """Forget some requests that were received before `received_before` (ns) and are scored.

        Return whether there may be more.
        """
