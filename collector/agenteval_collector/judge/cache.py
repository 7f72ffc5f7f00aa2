"""Answers that were found before, and those that are being looked for."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from otel_agenteval.lru import LruMap

T = TypeVar("T")


@dataclass(slots=True)
class _Flight(Generic[T]):
    """A value that is being looked for, and how many wait for it."""

    task: asyncio.Task[T]
    waiting: int = 0


class Cache(Generic[T]):
    """Keeps the values that were used last, which `weigh` at most `capacity` together. Belongs to one event loop."""

    def __init__(self, *, capacity: int, weigh: Callable[[T], int]) -> None:
        self._kept: LruMap[str, T] = LruMap(capacity, weigh)
        self._flights: dict[str, _Flight[T]] = {}

    async def get(self, key: str, find: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, bool]:
        """Return the value of `key`, and whether it was known, or looked for already.

        Whoever asks for it while it is looked for waits for the same search. The search is cancelled when nobody waits
        any more. An error is raised to all who wait, and is not kept.
        """
        if (kept := self._kept.get(key)) is not None:
            return kept, True
        flight = self._flights.get(key)
        known = flight is not None
        if flight is None:
            flight = self._flights[key] = _Flight(asyncio.create_task(find(), name="agenteval-judge-question"))
        flight.waiting += 1
        try:
            # Who is cancelled must not take the search from the others.
            value = await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if flight.task.done() or not flight.waiting:
                self._end(key, flight)
        self._kept.put(key, value)
        return value, known

    def clear(self) -> None:
        """Forget all values that are kept."""
        self._kept.clear()

    def _end(self, key: str, flight: _Flight[T]) -> None:
        flight.task.cancel()  # Without effect on one that is done.
        # The same may be looked for anew already.
        if self._flights.get(key) is flight:
            del self._flights[key]
