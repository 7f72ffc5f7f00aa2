"""The sum of the largest risks of a session, while risks are added and removed."""

import heapq

from otel_agenteval.metrics.session import tail_size


class ExactSum:
    """A sum of floats from which any of them can be taken back without a trace.

    Every finite double is a whole multiple of 2**-1074, the smallest one. The sum counts those, and its one rounding
    is to the nearest double, ties to even: the value of `math.fsum`.
    """

    _SHIFT = 1074
    _UNIT = 1 << _SHIFT

    def __init__(self) -> None:
        self._multiple = 0

    def add(self, number: float, sign: int = 1) -> None:
        """Add `number`, or with a `sign` of -1 take it back."""
        numerator, denominator = number.as_integer_ratio()  # The denominator is a power of two.
        self._multiple += sign * (numerator << (self._SHIFT + 1 - denominator.bit_length()))

    @property
    def value(self) -> float:
        return self._multiple / self._UNIT


class TailRisk:
    """Risks by trace, with the exact sum of the `tail_size` largest and the largest of all.

    Every risk is in `_tail` or in `_rest`; none in `_rest` is greater than one in `_tail`.
    """

    def __init__(self) -> None:
        self._tail = Heap()
        self._rest = Heap()  # Negated: the largest comes first.
        self._by_size = Heap()  # All of them, negated.
        self._sum = ExactSum()

    def __len__(self) -> int:
        return len(self._by_size)

    @property
    def tail_sum(self) -> float:
        return self._sum.value

    @property
    def largest(self) -> float:
        """0.0 where there is none."""
        return -self._by_size.smallest if len(self._by_size) else 0.0

    def add(self, trace_id: str, risk: float) -> None:
        """Add the risk of a trace that has none here."""
        self._by_size.push(-risk, trace_id)
        # Through the tail into the rest: whichever is then the smallest of the tail cannot be greater than another.
        self._to_tail(risk, trace_id)
        self._demote()
        self._settle()

    def remove(self, trace_id: str) -> None:
        """Remove the risk of a trace, if it has one."""
        if trace_id not in self._by_size:
            return
        self._by_size.remove(trace_id)
        if trace_id in self._tail:
            self._sum.add(self._tail.remove(trace_id), -1)
        else:
            self._rest.remove(trace_id)
        self._settle()

    def _settle(self) -> None:
        size = tail_size(len(self))
        while len(self._tail) > size:
            self._demote()
        while len(self._tail) < size:
            negated, trace_id = self._rest.pop()
            self._to_tail(-negated, trace_id)

    def _to_tail(self, risk: float, trace_id: str) -> None:
        self._tail.push(risk, trace_id)
        self._sum.add(risk)

    def _demote(self) -> None:
        risk, trace_id = self._tail.pop()
        self._sum.add(risk, -1)
        self._rest.push(-risk, trace_id)


class Heap:
    """Names by key, the smallest key first, from which any name can be removed.

    A removed entry stays in the heap until it surfaces, or until more than half of the heap is such entries: then the
    heap is built anew. So it holds at most twice its members, and a removal costs O(log n) amortised.
    """

    def __init__(self) -> None:
        self._keys: dict[str, float] = {}
        # An entry whose name has another key now, or none, is stale. One that was removed and added again with the
        # same key stands here twice; the entries are equal, so it does not matter which of them counts.
        self._entries: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, name: str) -> bool:
        return name in self._keys

    @property
    def smallest(self) -> float:
        """The smallest key. There must be one."""
        self._drop_stale_head()
        return self._entries[0][0]

    def push(self, key: float, name: str) -> None:
        self._keys[name] = key
        heapq.heappush(self._entries, (key, name))

    def pop(self) -> tuple[float, str]:
        """Remove the entry with the smallest key. There must be one."""
        self._drop_stale_head()
        name = self._entries[0][1]
        return self.remove(name), name

    def remove(self, name: str) -> float:
        """Remove a member and return its key."""
        key = self._keys.pop(name)
        if len(self._entries) > 2 * len(self._keys):
            self._entries = [(key, name) for name, key in self._keys.items()]
            heapq.heapify(self._entries)
        return key

    def _drop_stale_head(self) -> None:
        # A removed name has no key, and None equals no key.
        while self._keys.get(self._entries[0][1]) != self._entries[0][0]:
            heapq.heappop(self._entries)
