"""Answers that were found before, and those that are being looked for."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Flight(Generic[T]):
    """A value that is being looked for, and how many wait for it."""

    task: asyncio.Task[T]
    waiting: int = 0


class Cache(Generic[T]):
    """Keeps the values that were used last, which `weigh` at most `capacity` together. Belongs to one event loop."""

    def __init__(self, *, capacity: int, weigh: Callable[[T], int]) -> None:
        self._capacity = capacity
        self._weigh = weigh
        self._kept: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._weight = 0
        self._flights: dict[str, _Flight[T]] = {}

    async def get(self, key: str, find: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, bool]:
        """Return the value of `key`, and whether it was known, or looked for already.

        Who asks meanwhile waits for the same search, which ends with the last of them. An error is not kept.
        """
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key][0], True
        flight = self._flights.get(key)
        known = flight is not None
        if flight is None:
            flight = self._flights[key] = _Flight(asyncio.create_task(find(), name="agenteval-judge-question"))
        flight.waiting += 1
        try:
            value = await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if flight.task.done() or not flight.waiting:
                self._end(key, flight)
        self._keep(key, value)
        return value, known

    def _end(self, key: str, flight: _Flight[T]) -> None:
        flight.task.cancel()  # Without effect on one that is done.
        # The same may be looked for anew already.
        if self._flights.get(key) is flight:
            del self._flights[key]

    def _keep(self, key: str, value: T) -> None:
        weight = self._weigh(value)
        if key in self._kept or weight > self._capacity:
            return
        self._kept[key] = value, weight
        self._weight += weight
        while self._weight > self._capacity:
            _, (_, gone) = self._kept.popitem(last=False)
            self._weight -= gone
