"""Traces that wait for the judge: bounded, the urgent ones first, then the oldest."""

from dataclasses import dataclass
from typing import TypeAlias

from sortedcontainers import SortedDict

from agenteval_collector.model.judging import JudgeJob

_Rank: TypeAlias = tuple[bool, int]
"""Not urgent, order of arrival: the smallest is first."""


@dataclass(slots=True, kw_only=True)
class Waiting:
    """A job with what happened to it: how often it reached the judge in vain (`tries`), in how many of these times the
    judge had answered for other jobs since the time before (`attempts`), and for how many it had at the last time
    (`answered`; None before the first)."""

    job: JudgeJob
    tries: int = 0
    attempts: int = 0
    answered: int | None = None
    arrival: int = 0
    not_before: float | None = None


class Backlog:
    """At most `capacity` jobs, one for each trace. Each call takes O(log n). Not thread-safe."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._by_trace: dict[str, Waiting] = {}
        self._ready: SortedDict[_Rank, Waiting] = SortedDict()
        self._ready_by_tries: SortedDict[tuple[int, _Rank], Waiting] = SortedDict()
        self._delayed: SortedDict[tuple[float, int], Waiting] = SortedDict()
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._by_trace)

    def add(self, waiting: Waiting) -> Waiting | None:
        """Add a new job. What comes back has no place: the newest that is not urgent where an urgent one came into
        a full backlog, else the new one.

        A newer revision takes the place of an older one that waits, and an older one is dropped.
        """
        before = self._by_trace.get(waiting.job.trace_id)
        if before is not None:
            if before.job.revision <= waiting.job.revision:
                self._remove(before)
                self._insert(waiting, before.arrival)
            return None
        displaced: Waiting | None = None
        if len(self) >= self.capacity:
            displaced = self._displaceable() if waiting.job.urgent else None
            if displaced is None:
                return waiting
            self._remove(displaced)
        self._arrivals += 1
        self._insert(waiting, self._arrivals)
        return displaced

    def put_back(self, waiting: Waiting, not_before: float) -> None:
        """A job that was taken waits again, until `not_before` at least, also over the capacity. It is dropped where
        a newer revision of its trace waits."""
        if waiting.job.trace_id not in self._by_trace:
            waiting.not_before = not_before
            self._insert(waiting, waiting.arrival)

    def take(self, now: float, *, probe: bool = False) -> Waiting | None:
        """The next job that may be judged; None where there is none.

        To `probe` whether the judge is back, it is one of those that were tried least: a trace that is itself what
        the judge cannot bear must not be the probe each time.
        """
        while self._delayed and self._delayed.peekitem(0)[0][0] <= now:
            _, due = self._delayed.popitem(0)
            due.not_before = None
            self._make_ready(due)
        if not self._ready:
            return None
        first: Waiting = (self._ready_by_tries if probe else self._ready).peekitem(0)[1]
        self._remove(first)
        return first

    def due(self) -> float | None:
        """When the next of the delayed jobs may be judged; None where none is delayed."""
        return self._delayed.peekitem(0)[0][0] if self._delayed else None

    def _displaceable(self) -> Waiting | None:
        # The delayed ones came earlier and were tried already: they stay.
        if not self._ready:
            return None
        last: Waiting = self._ready.peekitem(-1)[1]
        return None if last.job.urgent else last

    def _insert(self, waiting: Waiting, arrival: int) -> None:
        waiting.arrival = arrival
        self._by_trace[waiting.job.trace_id] = waiting
        if waiting.not_before is None:
            self._make_ready(waiting)
        else:
            self._delayed[waiting.not_before, arrival] = waiting

    def _make_ready(self, waiting: Waiting) -> None:
        self._ready[_rank(waiting)] = waiting
        self._ready_by_tries[waiting.tries, _rank(waiting)] = waiting

    def _remove(self, waiting: Waiting) -> None:
        del self._by_trace[waiting.job.trace_id]
        if waiting.not_before is None:
            del self._ready[_rank(waiting)]
            del self._ready_by_tries[waiting.tries, _rank(waiting)]
        else:
            del self._delayed[waiting.not_before, waiting.arrival]


def _rank(waiting: Waiting) -> _Rank:
    return not waiting.job.urgent, waiting.arrival
