"""A bounded map that keeps the values used last."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruMap(Generic[K, V]):
    """Keeps values by key, of at most `capacity` weight together. The values that were not used for longest are
    evicted.

    Without `weigh`, each value weighs 1. Not thread-safe, except if a method says so.
    """

    def __init__(self, capacity: int, weigh: Callable[[V], int] | None = None) -> None:
        self._capacity = capacity
        self._weigh = weigh
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.weight = 0
        """The weight of all values."""

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def get(self, key: K) -> V | None:
        """Return a value and mark it as used; None if there is none."""
        value = self._kept.get(key)
        if value is None:
            return None
        self._kept.move_to_end(key)
        return value[0]

    def peek(self, key: K) -> V | None:
        """Return a value without marking it as used; None if there is none. Safe while another thread changes the
        map."""
        value = self._kept.get(key)
        return None if value is None else value[0]

    def put(self, key: K, value: V) -> list[K]:
        """Keep a value, mark it as used, and return the keys of the values that it evicts. A value that weighs more
        than the capacity is not kept."""
        weight = 1 if self._weigh is None else self._weigh(value)
        if weight > self._capacity:
            self.pop(key)
            return []
        _, before = self._kept.get(key, (None, 0))
        self._kept[key] = value, weight
        self._kept.move_to_end(key)
        self.weight += weight - before
        gone = []
        while self.weight > self._capacity:
            oldest, (_, lighter_by) = self._kept.popitem(last=False)
            self.weight -= lighter_by
            gone.append(oldest)
        return gone

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Return a value and mark it as used. If there is none, make one and keep it."""
        value = self.get(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value

    def pop(self, key: K) -> V | None:
        """Remove and return a value; None if there is none."""
        value, weight = self._kept.pop(key, (None, 0))
        self.weight -= weight
        return value

    def clear(self) -> None:
        """Forget all values."""
        self._kept.clear()
        self.weight = 0

    def newest_first(self) -> list[V]:
        """Return all values, the newest used first. Safe while another thread changes the map."""
        return [value for value, _ in reversed(list(self._kept.values()))]

    def items(self) -> list[tuple[K, V]]:
        """Return all keys and values, the newest used last. Safe while another thread changes the map."""
        return [(key, value) for key, (value, _) in list(self._kept.items())]
