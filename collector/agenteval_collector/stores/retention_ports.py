"""The ports of the retention: to the store, to its files, and to everything that holds traces.

Every call may raise Unavailable. It has done nothing then.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from agenteval_collector.model.deletions import DeletionFilter


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
