"""The order in which the evaluation takes what waits: sessions take turns, and none waits for all of another one."""

import heapq
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """A `Line` that serves sessions in rounds, one item each. Items of one session, or of one trace, keep their order.

    `of` returns the keys of an item, such as its session and its trace. None makes it a barrier: it comes after all
    that came before it, and before all that comes later. Each turn costs the logarithm of what waits.
    """

    def __init__(self, of: Callable[[T], Sequence[Hashable] | None]) -> None:
        self._of = of
        # By round, and in a round by arrival. In a round each has one turn; who is new joins the present one.
        self._waiting: list[tuple[int, int, T]] = []
        self._arrivals = self._round = 0
        # The rounds of the newest items that wait, by what they are of.
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
