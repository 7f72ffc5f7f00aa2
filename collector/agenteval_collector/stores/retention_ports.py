"""The ports of the retention: to the store, to its files, and to everything that holds traces.

Every call may raise Unavailable. It has done nothing then.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from agenteval_collector.model.deletions import DeletionFilter


class DoomedTraces(NamedTuple):
    """What a deletion erases. The sessions `session_ids` go as a whole, together with its last traces."""

    deletion_id: str
    wanted: DeletionFilter
    session_ids: Sequence[str]


class Erasure(Protocol):
    """Everything that holds traces, in memory on the way into the store, in the store and in the log."""

    def erase(self, deletions: Sequence[DoomedTraces]) -> Collection[str]:
        """Erase some of the traces that these deletions cover, from memory and the store. Return the ids of those for
        which there may be more.
        """

    def erase_from_log(self, deletion_id: str, start: int) -> tuple[int | None, Mapping[str, int]]:
        """Erase from the log what a deletion has erased from the store, in some of its requests from offset `start` on.

        Return the offset to go on from, None at the end, and the counts of what was removed.
        """

    def mark_erased(self, deletion_id: str) -> None:
        """Note that the log has nothing left of what a deletion has erased so far."""

    def erase_older(self, before: int) -> bool:
        """Erase some traces scored before `before` (ns), and sessions that were not seen since.

        Return whether there may be more.
        """

    def trim_log(self, received_before: int) -> bool:
        """Forget some requests that were received before `received_before` (ns) and are scored.

        Return whether there may be more.
        """
