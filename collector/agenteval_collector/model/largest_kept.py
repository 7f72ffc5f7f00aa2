"""Cut many values to one size, so that the largest go first and small ones stay whole."""

from collections.abc import Iterable
from typing import Final

LEAST: Final = 256
"""Bytes, or characters, that every value keeps: ids, names, numbers and the beginning of a text."""


def largest_kept(sizes: Iterable[int], over: int) -> int:
    """Return the size to which values of these sizes are cut, so that `over` bytes or characters go.

    Return `LEAST` if that is too little.
    """
    sizes = sorted(sizes, reverse=True)
    gone = 0
    for number, size in enumerate(sizes, 1):
        below = max(LEAST, sizes[number] if number < len(sizes) else LEAST)
        # The `number` largest are as large as this one by now; they are cut together to the size of the next.
        if gone + number * (size - below) >= over:
            return max(LEAST, size - -(-(over - gone) // number))
        gone += number * (size - below)
    return LEAST
