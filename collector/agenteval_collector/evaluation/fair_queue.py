"""A queue in which sessions take turns. So no session waits until all items of another session are served."""

import heapq
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Serves sessions in rounds, one item of each session in a round.

    Items of one session, or of one trace, keep their order. `of` returns the keys of an item, such as its session and
    its trace. If `of` returns None, the item is a barrier: it is served after everything that came before it, and
    before everything that comes later. The time to add or take an item grows with the logarithm of the queue's length.
    """

    def __init__(self, of: Callable[[T], Sequence[Hashable] | None]) -> None:
        self._of = of
        # Ordered by round, and within a round by arrival. A key has one item in each round; a new key joins
        # the current round.
        self._waiting: list[tuple[int, int, T]] = []
        self._arrivals = self._round = 0
        # The round of the newest waiting item of each key.
        self._last: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __getitem__(self, index: int, /) -> T:
        """Return the next item, which is at place 0. Raises IndexError if none waits."""
        return self._waiting[index][2]

    def append(self, item: T, /) -> None:
        """Add an item, which waits for its turn."""
        of = self._of(item)
        if of is None:
            # A barrier gets a round after all that wait. As it becomes the current round, later items come behind it.
            turn = self._round = 1 + max((entry[0] for entry in self._waiting), default=self._round)
        else:
            # An item with several keys comes after the newest item of each: all of them keep their order.
            turn = max((self._round, *(1 + self._last[owner] for owner in of if owner in self._last)))
            self._last.update(dict.fromkeys(of, turn))
        self._arrivals += 1
        heapq.heappush(self._waiting, (turn, self._arrivals, item))

    def popleft(self) -> T:
        """Remove and return the next item. Raises IndexError if none waits."""
        turn, _, item = heapq.heappop(self._waiting)
        self._round = max(self._round, turn)
        # A key without a waiting item is forgotten, so that the keys do not pile up.
        for owner in self._of(item) or ():
            if self._last.get(owner) == turn:
                del self._last[owner]
        return item
