"""A queue in which sessions take turns, so that no session waits for everything of another one."""

import heapq
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Serves sessions in rounds, one item of each in a round. Items of one session, or of one trace, keep their order.

    `of` returns the keys of an item, such as its session and its trace. None makes the item a barrier: it is served
    after everything that came before it, and before everything that comes later. An item costs the logarithm of the
    queue's length.
    """

    def __init__(self, of: Callable[[T], Sequence[Hashable] | None]) -> None:
        self._of = of
        # Ordered by round, and in a round by arrival. A key has one item in each round; a new key joins this round.
        self._waiting: list[tuple[int, int, T]] = []
        self._arrivals = self._round = 0
        # By key, the round of its newest item that waits.
        self._last: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __getitem__(self, place: int, /) -> T:
        """Return the item that is next, at place 0. Raises IndexError where none waits."""
        return self._waiting[place][2]

    def append(self, item: T, /) -> None:
        """Let it wait for its turn."""
        of = self._of(item)
        if of is None:
            turn = self._round = 1 + max((each[0] for each in self._waiting), default=self._round)
        else:
            turn = max((self._round, *(1 + self._last[each] for each in of if each in self._last)))
            self._last.update(dict.fromkeys(of, turn))
        self._arrivals += 1
        heapq.heappush(self._waiting, (turn, self._arrivals, item))

    def popleft(self) -> T:
        """Return the item that is next, which waits no more. Raises IndexError where none waits."""
        turn, _, item = heapq.heappop(self._waiting)
        self._round = max(self._round, turn)
        for each in self._of(item) or ():
            if self._last.get(each) == turn:
                del self._last[each]
        return item
