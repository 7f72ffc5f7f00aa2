"""The sum of the largest risks of a session, while risks are added and removed."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence


def tail_size(traces: int) -> int:
    """Return 15 % of `traces`, rounded up."""
    # In whole numbers, if 15 % is exactly 3/20.
    return -(-3 * traces // 20)


class ExactSum:
    """An exact sum of floats, from which any of them can be taken back.

    Every finite double is a whole multiple of 2**-1074, the smallest double. The sum is kept as the number of these
    units. `value` rounds once, to the nearest double, ties to even, so it equals `math.fsum`.
    """

    _SHIFT = 1074
    _UNIT = 1 << _SHIFT

    def __init__(self, saved: Sequence[int] = (0, 0)) -> None:
        odd, shift = saved
        self._multiple = odd << shift

    @property
    def saved(self) -> Sequence[int]:
        """The sum as two small numbers: it is the first x 2 to the power of the second, in units of 2**-1074."""
        shift = max(0, (self._multiple & -self._multiple).bit_length() - 1)
        return self._multiple >> shift, shift

    def add(self, number: float, sign: int = 1) -> None:
        """Add `number`, or take it back if `sign` is -1."""
        numerator, denominator = number.as_integer_ratio()  # The denominator is a power of two.
        self._multiple += sign * (numerator << (self._SHIFT + 1 - denominator.bit_length()))

    @property
    def value(self) -> float:
        return self._multiple / self._UNIT


class TailRisk:
    """Risks, with the largest one and the exact sum of the `tail_size` largest. Each risk takes eight bytes."""

    def __init__(self, risks: bytes = b"", tail: Sequence[int] = (0, 0)) -> None:
        """Start without risks, or with the `saved` and `sum.saved` of another `TailRisk`."""
        # Negated, so that the largest risk is first. Inserting only moves bytes: some 20 us among 100,000 risks.
        self._negated = array("d", risks)
        self._tail = tail_size(len(self))  # The number of risks in the sum.
        self.sum = ExactSum(tail)
        """The sum of the largest risks."""

    def __len__(self) -> int:
        return len(self._negated)

    @property
    def saved(self) -> bytes:
        """The risks as bytes."""
        return self._negated.tobytes()

    @property
    def largest(self) -> float:
        """The largest risk, 0.0 if there is none."""
        return -self._negated[0] if self._negated else 0.0

    def add(self, risk: float) -> None:
        """Add a risk."""
        index = bisect_left(self._negated, -risk)
        self._negated.insert(index, -risk)
        if index < self._tail:
            self._tail += 1
            self.sum.add(risk)
        self._settle()

    def remove(self, risk: float) -> None:
        """Remove a risk that was added. Raises LookupError if there is no such risk."""
        index = bisect_left(self._negated, -risk)
        if index == len(self) or self._negated[index] != -risk:
            raise LookupError(f"{risk} is none of the {len(self)} risks")
        del self._negated[index]
        if index < self._tail:
            self._tail -= 1
            self.sum.add(risk, -1)
        self._settle()

    def _settle(self) -> None:
        # The tail grows or shrinks at its end, where its smallest risk is.
        size = tail_size(len(self))
        while self._tail > size:
            self._tail -= 1
            self.sum.add(-self._negated[self._tail], -1)
        while self._tail < size:
            self.sum.add(-self._negated[self._tail])
            self._tail += 1
