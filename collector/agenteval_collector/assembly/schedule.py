"""Keep the times at which open traces are looked at again. Pure: monotonic times are given."""

import heapq
import math
from collections import OrderedDict


class Schedule:
    """The last arrival of each trace, and the looks that were asked for.

    A trace has one entry among the arrivals, and few among the looks, however many items of it arrive.
    """

    def __init__(self, settle: float) -> None:
        self._settle = settle
        self._touched: OrderedDict[bytes, float] = OrderedDict()
        self._asked: dict[bytes, float] = {}
        self._heap: list[tuple[float, bytes]] = []

    def touch(self, trace_id: bytes, now: float) -> None:
        """Note an arrival: the trace is looked at when nothing more has come for the settling time."""
        self._touched[trace_id] = now
        self._touched.move_to_end(trace_id)

    def look_at(self, trace_id: bytes, at: float) -> None:
        """Ask for a look at the trace at that time or earlier. The look asks again if the trace must wait on."""
        if at < self._asked.get(trace_id, math.inf):
            self._asked[trace_id] = at
            heapq.heappush(self._heap, (at, trace_id))

    def due(self, now: float) -> list[bytes]:
        """Remove and return the traces whose time to be looked at has come."""
        first = next(iter(self._touched.values()), math.inf)
        if first + self._settle > now and not (self._heap and self._heap[0][0] <= now):
            return []
        due: dict[bytes, None] = {}
        for trace_id, touched in self._touched.items():
            if touched + self._settle > now:
                break
            due[trace_id] = None
        for trace_id in due:
            del self._touched[trace_id]
        while self._heap and self._heap[0][0] <= now:
            at, trace_id = heapq.heappop(self._heap)
            # Another time: the trace is gone, or an earlier look was asked for.
            if self._asked.get(trace_id) == at:
                del self._asked[trace_id]
                due[trace_id] = None
        return list(due)

    def drop(self, trace_id: bytes) -> None:
        """Forget the trace, which is complete."""
        self._touched.pop(trace_id, None)
        self._asked.pop(trace_id, None)

    def next(self) -> float:
        """Return the time before which `due` returns nothing; infinite if nothing is to be looked at."""
        touched = next(iter(self._touched.values()), math.inf)
        return min(touched + self._settle, self._heap[0][0] if self._heap else math.inf)
