"""Keep how far a process has come in its partitions of a topic."""

from collections.abc import Collection, Mapping


class Offsets:
    """The partitions of a topic that this process has, and in each the number of the message that is to be done next.

    Any thread notes numbers; the reader saves them for the group.
    """

    def __init__(self) -> None:
        self.partitions: frozenset[int] = frozenset()
        self.is_stale = False
        """True if messages have to be read again, from the noted numbers on. The reader does that."""
        self._begun: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._noted: dict[int, int] = {}
        self._saved: dict[int, int] = {}

    def note(self, partition: int, number: int) -> None:
        """Note that all messages of a partition below `number` are done with."""
        if partition in self.partitions:
            self._noted[partition] = number

    def unsaved(self) -> Mapping[int, int]:
        """Return the numbers that were noted and not saved, by partition."""
        return {
            partition: number for partition, number in list(self._noted.items()) if self._saved.get(partition) != number
        }

    def saved(self, numbers: Mapping[int, int]) -> None:
        """Note that the group has these numbers now, or was sent them."""
        self._saved.update(numbers)

    def refused(self, partitions: Collection[int]) -> None:
        """Note that the group has not taken the numbers that it was sent for these partitions."""
        for partition in partitions:
            self._saved.pop(partition, None)

    def take(self, partitions: Collection[int]) -> None:
        """Add partitions."""
        self.partitions |= {*partitions}

    def saw(self, partition: int, begin: int, end: int) -> None:
        """Note the end of a partition, and the message that the group goes on from."""
        if partition in self.partitions:
            self._begun.setdefault(partition, begin)
            self._ends[partition] = end

    def lags(self) -> Mapping[int, int]:
        """Return how many messages are not done with, by partition whose end was seen. From any thread."""
        return {
            partition: max(0, end - self._noted.get(partition, self._begun.get(partition, end)))
            for partition, end in list(self._ends.items())
        }

    def drop(self, partitions: Collection[int]) -> None:
        """Forget partitions that another process has now."""
        self.partitions -= {*partitions}
        for partition in partitions:
            for offsets in (self._begun, self._ends, self._noted, self._saved):
                offsets.pop(partition, None)
