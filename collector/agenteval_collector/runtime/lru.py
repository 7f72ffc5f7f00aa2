"""Values that were of use lately."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Values by key that weigh at most `capacity` together, each 1 without `weigh`; those that were not used for
    longest go. Not thread-safe."""

    def __init__(self, capacity: int, weigh: Callable[[V], int] | None = None) -> None:
        self._capacity = capacity
        self._weigh = weigh
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.weight = 0
        """The weight of all values."""

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def get(self, key: K) -> V | None:
        """Return the value, used by that; None where there is none, or none any more."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V) -> None:
        """Keep a value, used by that. One that weighs more than the capacity is not kept."""
        self.pop(key)
        weight = 1 if self._weigh is None else self._weigh(value)
        if weight > self._capacity:
            return
        self._kept[key] = value, weight
        self.weight += weight
        while self.weight > self._capacity:
            _, (_, gone) = self._kept.popitem(last=False)
            self.weight -= gone

    def pop(self, key: K) -> V | None:
        """Remove and return a value; None where there is none."""
        value, weight = self._kept.pop(key, (None, 0))
        self.weight -= weight
        return value

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()
        self.weight = 0

    def newest_first(self) -> Iterator[V]:
        """Yield all values, the one that was used last first."""
        return (value for value, _ in reversed(self._kept.values()))
