"""When to look at which open trace again. Pure: times are given, on one monotonic clock."""

import heapq
import math
from collections import OrderedDict


class Schedule:
    """Keeps for each trace when something of it came last, and when a look at it was asked for.

    However many arrivals a trace has, it holds one place in the one and few in the other.
    """

    def __init__(self, settle: float) -> None:
        self._settle = settle
        self._touched: OrderedDict[bytes, float] = OrderedDict()
        self._asked: dict[bytes, float] = {}
        self._heap: list[tuple[float, bytes]] = []

    def touch(self, trace_id: bytes, now: float) -> None:
        """Something of the trace has come: it is looked at when nothing more did for the settling time."""
        self._touched[trace_id] = now
        self._touched.move_to_end(trace_id)

    def look_at(self, trace_id: bytes, at: float) -> None:
        """Look at the trace at that time, or earlier: a look finds out what came since, and asks again."""
        if at < self._asked.get(trace_id, math.inf):
            self._asked[trace_id] = at
            heapq.heappush(self._heap, (at, trace_id))

    def due(self, now: float) -> list[bytes]:
        """The traces to be looked at by now; each has to be asked for again."""
        due: dict[bytes, None] = {}
        for trace_id, touched in self._touched.items():
            if touched + self._settle > now:
                break
            due[trace_id] = None
        for trace_id in due:
            del self._touched[trace_id]
        while self._heap and self._heap[0][0] <= now:
            at, trace_id = heapq.heappop(self._heap)
            # Otherwise it is gone, or was asked for earlier by now.
            if self._asked.get(trace_id) == at:
                del self._asked[trace_id]
                due[trace_id] = None
        return list(due)

    def drop(self, trace_id: bytes) -> None:
        """The trace is complete."""
        self._touched.pop(trace_id, None)
        self._asked.pop(trace_id, None)

    def next(self) -> float:
        """When `due` may next return something; it may also be early. Infinite: never."""
        touched = next(iter(self._touched.values()), math.inf)
        return min(touched + self._settle, self._heap[0][0] if self._heap else math.inf)
