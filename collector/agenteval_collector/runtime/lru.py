"""What was of use lately."""

from collections import OrderedDict
from typing import Generic, TypeVar

V = TypeVar("V")


class Recent(Generic[V]):
    """At most `capacity` values by key; the one that was not used for longest goes. Not thread-safe."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[str, V] = OrderedDict()

    def get(self, key: str) -> V | None:
        """The value, used by that; None where there is none, or none any more."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, key: str, value: V) -> None:
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > self._capacity:
            self._kept.popitem(last=False)
