"""How far a process has come in the partitions that it reads."""

from collections.abc import Collection, Mapping


class Offsets:
    """The partitions of a topic that this process has, and the number of the message with which the next process shall
    go on in each. Notes come from any thread; the reader saves them."""

    def __init__(self) -> None:
        self.partitions: frozenset[int] = frozenset()
        self.is_stale = False
        """True where what was read has to be read again, from what is noted on. The reader does that."""
        self._begun: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._noted: dict[int, int] = {}
        self._saved: dict[int, int] = {}

    def note(self, partition: int, number: int) -> None:
        """Take note that all messages of a partition below the `number`th are done with."""
        if partition in self.partitions:
            self._noted[partition] = number

    def unsaved(self) -> Mapping[int, int]:
        """Return what was noted and is not saved, by partition."""
        return {each: number for each, number in list(self._noted.items()) if self._saved.get(each) != number}

    def saved(self, numbers: Mapping[int, int]) -> None:
        """Take note of what the group knows now."""
        self._saved.update(numbers)

    def take(self, partitions: Collection[int]) -> None:
        """Take note of further partitions."""
        self.partitions |= {*partitions}

    def saw(self, partition: int, begin: int, end: int) -> None:
        """Take note of a partition's end, and with which message this process has begun."""
        if partition in self.partitions:
            self._begun.setdefault(partition, begin)
            self._ends[partition] = end

    def lags(self) -> Mapping[int, int]:
        """Return how many messages are not done with, by partition, as far as the end was seen. From any thread."""
        return {
            partition: max(0, end - self._noted.get(partition, self._begun.get(partition, end)))
            for partition, end in list(self._ends.items())
        }

    def drop(self, partitions: Collection[int]) -> None:
        """Forget partitions that somebody else has now."""
        self.partitions -= {*partitions}
        for partition in partitions:
            for known in (self._begun, self._ends, self._noted, self._saved):
                known.pop(partition, None)
