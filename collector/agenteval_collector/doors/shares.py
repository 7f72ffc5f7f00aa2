"""Share places, threads and memory between callers, so that none can take all."""

import threading
from collections import Counter
from contextvars import ContextVar
from typing import Final

from agenteval_collector.model.callers import ANONYMOUS, Caller

TIMES_FREE: Final = 3
"""A caller may hold at most so many times what stays free. Alone it gets three quarters of all; two callers get three
sevenths each."""

SHARER: ContextVar[str] = ContextVar("agenteval_sharer", default="")
"""Names the caller that the call or request under way counts for. The doors set it."""


def sharer_of(caller: Caller, address: str) -> str:
    """Return who a caller counts for: the holder of a key or certificate for itself, wherever it calls from; where
    none is asked for, everybody at an address (without its port) together."""
    return address if caller is ANONYMOUS else caller.name


class Shares:
    """`total` of something that callers take from and give back, from any thread.

    A caller that holds nothing gets whatever is free. One that holds some gets more, as long as all it holds is at most
    three times what stays free. So a caller alone may have most of it, and there is room for the next one.
    """

    def __init__(self, total: int) -> None:
        self._free = total
        self._held: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, who: str, size: int = 1) -> bool:
        """Take so much for somebody. Returns whether there was enough."""
        with self._lock:
            left, held = self._free - size, self._held[who]
            if left < 0 or (held and held + size > TIMES_FREE * left):
                return False
            self._free = left
            self._held[who] += size
            return True

    def give_back(self, who: str, size: int = 1) -> None:
        """Give back so much of what somebody holds."""
        with self._lock:
            self._free += size
            self._held[who] -= size
            # Each address is a name of its own: kept for ever, they would fill the memory.
            if not self._held[who]:
                del self._held[who]
