"""The one queue between stages: bounded by weight, taken in batches, closed once."""

import math
import threading
from collections import deque
from typing import Generic, TypeVar

from agenteval_collector.runtime.ports import ItemQueue

T = TypeVar("T")


class Inbox(Generic[T]):
    """A bounded queue with many writers and one reader.

    `capacity` is in the writers' unit of weight (bytes, traces). What does not fit is refused, never dropped: the
    writer decides what a refusal means. A single item heavier than the capacity fits while the inbox is empty. `items`
    decides in which order items are taken: by default the one that has waited longest comes first.
    """

    def __init__(self, capacity: int, items: ItemQueue[tuple[T, int]] | None = None) -> None:
        self.capacity = capacity
        self._items: ItemQueue[tuple[T, int]] = deque() if items is None else items
        self._weight = 0
        self._closed = False
        # Guards the three fields above: writers are the receiver's threads, the reader is the stage's own.
        self._changed = threading.Condition()

    @property
    def weight(self) -> int:
        """The weight of all that waits; an instant's value."""
        return self._weight

    def __len__(self) -> int:
        return len(self._items)

    @property
    def first(self) -> T | None:
        """The item that is taken next; an instant's value."""
        try:
            return self._items[0][0]
        except IndexError:
            return None

    @property
    def full(self) -> bool:
        """True if the capacity is used up at this moment."""
        return self._weight >= self.capacity

    def put(self, item: T, weight: int = 1, *, timeout: float = 0.0) -> bool:
        """Add `item` if there is room within `timeout` seconds. False if there was none, or after `close`."""
        with self._changed:
            fits = self._changed.wait_for(lambda: self._closed or self._fits(weight), timeout)
            if self._closed or not fits:
                return False
            self._add(item, weight)
            return True

    def put_regardless(self, item: T, weight: int = 1) -> None:
        """Add `item` even over the capacity: it was admitted before, and must not be lost."""
        with self._changed:
            self._add(item, weight)

    def take(self, limit: int, timeout: float | None, *, weight: float = math.inf) -> list[T]:
        """Return up to `limit` items as soon as there is one; none after `timeout` seconds, or once closed and empty.

        Once the items have `weight` together, no further one is taken.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or bool(self._items), timeout)
            items: list[T] = []
            before = self._weight
            while self._items and len(items) < limit and before - self._weight < weight:
                item, of_item = self._items.popleft()
                self._weight -= of_item
                items.append(item)
            if items:
                self._changed.notify_all()
            return items

    def close(self) -> None:
        """Refuse new items from now on; those that wait can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed

    def _fits(self, weight: int) -> bool:
        return not self._items or self._weight + weight <= self.capacity

    def _add(self, item: T, weight: int) -> None:
        self._items.append((item, weight))
        self._weight += weight
        self._changed.notify_all()
