"""Values that were of use lately."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """At most `capacity` values by key; the one that was not used for longest goes. Not thread-safe."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value, used by that; None where there is none, or none any more."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, key: K, value: V) -> tuple[K, V] | None:
        """Keep a value, used by that. The key and the value that had to go for it; None where there was room."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        return self._kept.popitem(last=False) if len(self._kept) > self._capacity else None

    def drop(self, key: K) -> None:
        """Forget a value, if there is one."""
        self._kept.pop(key, None)

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()

    def newest_first(self) -> Iterator[V]:
        """All values, the one that was used last first."""
        return reversed(self._kept.values())
