"""Share slots, threads and memory between callers, so that none of them can take all."""

import threading
from collections import Counter
from contextvars import ContextVar
from typing import Final

from agenteval_collector.model.callers import ANONYMOUS, Caller

TIMES_FREE: Final = 3
"""A caller may hold at most so many times the amount that stays free. A single caller gets three quarters of all; two
callers get three sevenths each."""

SHARER: ContextVar[str] = ContextVar("agenteval_sharer", default="")
"""The name that the call or request under way counts for. The doors set it."""


def sharer_of(caller: Caller, address: str) -> str:
    """Return the name that a caller counts for. A key or certificate counts for itself, wherever it is used. If none
    is needed, all callers at one address (without its port) count together."""
    return address if caller is ANONYMOUS else caller.name


class Shares:
    """An amount, `total`, that callers take from and give back to. From any thread.

    A caller that holds nothing gets whatever is free. One that holds some gets more, as long as everything it holds is
    at most three times the amount that stays free. So a single caller may have most of it, and there is room for
    another.
    """

    def __init__(self, total: int) -> None:
        self._free = total
        self._held: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, who: str, size: int = 1) -> bool:
        """Take `size` for a caller. Returns False if it may not have so much."""
        with self._lock:
            free, held = self._free - size, self._held[who]
            if free < 0 or (held and held + size > TIMES_FREE * free):
                return False
            self._free = free
            self._held[who] += size
            return True

    def give_back(self, who: str, size: int = 1) -> None:
        """Give back `size` of the amount that a caller holds."""
        with self._lock:
            self._free += size
            self._held[who] -= size
            # Each address is a name of its own: kept for ever, names would fill the memory.
            if not self._held[who]:
                del self._held[who]
