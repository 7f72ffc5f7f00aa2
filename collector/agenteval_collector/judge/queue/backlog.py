"""Traces that wait for the judge: bounded, the urgent ones first, then the oldest."""

from dataclasses import dataclass
from typing import TypeAlias

from sortedcontainers import SortedDict

from agenteval_collector.model.judging import JudgeJob

_Rank: TypeAlias = tuple[bool, int]
"""Not urgent, order of arrival: the smallest is first."""


@dataclass(slots=True, kw_only=True)
class Waiting:
    """A job with what happened to it.

    `tries` counts how often it got no answer, `faults` how often it was the first to get none since an answer to
    another one. It is not judged before `due`.
    """

    job: JudgeJob
    tries: int = 0
    faults: int = 0
    due: float = 0.0
    arrival: int = 0

    @property
    def rank(self) -> _Rank:
        """Its place in the order."""
        return not self.job.urgent, self.arrival


class Backlog:
    """At most `capacity` jobs, one for each trace. Not thread-safe.

    Each call takes O(log n) and a step for each job that is not due, but for a probe, which looks at all of them.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.closed = False
        self._by_trace: dict[str, Waiting] = {}
        self._in_order: SortedDict[_Rank, Waiting] = SortedDict()
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._by_trace)

    def close(self) -> None:
        """Take no new jobs."""
        self.closed = True

    def add(self, waiting: Waiting) -> Waiting | None:
        """Add a new job, unless it is closed. Returns the job that has no place, if any.

        Where an urgent job comes into a full backlog, that is the newest that is neither urgent nor was tried; else it
        is the new one. A newer revision takes the place of an older one that waits, and an older one is dropped.
        """
        if self.closed:
            return None
        before = self._by_trace.get(waiting.job.trace_id)
        if before is not None:
            if before.job.revision <= waiting.job.revision:
                self._remove(before)
                waiting.arrival = before.arrival
                self._insert(waiting)
            return None
        displaced: Waiting | None = None
        if len(self) >= self.capacity:
            displaced = self._displaceable() if waiting.job.urgent else None
            if displaced is None:
                return waiting
            self._remove(displaced)
        self._arrivals += 1
        waiting.arrival = self._arrivals
        self._insert(waiting)
        return displaced

    def put_back(self, waiting: Waiting, due: float) -> None:
        """Have a job that was taken wait again in its old place, until `due` at least, also over the capacity.

        It is dropped where a newer revision of its trace waits.
        """
        if waiting.job.trace_id not in self._by_trace:
            waiting.due = due
            self._insert(waiting)

    def take(self, now: float, *, probe: bool = False) -> Waiting | None:
        """Take the next job that may be judged; None where there is none.

        To `probe` whether the judge is back, it is one of those that were tried least: a trace that itself makes the
        judge fail must not be the probe each time.
        """
        ready = (each for each in self._in_order.values() if each.due <= now)
        first = min(ready, key=lambda each: each.tries, default=None) if probe else next(ready, None)
        if first is not None:
            self._remove(first)
        return first

    def next_due(self) -> float | None:
        """Find when the first job may be judged; None where none waits."""
        return min((each.due for each in self._in_order.values()), default=None)

    def _displaceable(self) -> Waiting | None:
        for _, last in reversed(self._in_order.items()):
            if last.job.urgent:
                break
            if not last.tries:
                found: Waiting = last
                return found
        return None

    def _insert(self, waiting: Waiting) -> None:
        self._by_trace[waiting.job.trace_id] = waiting
        self._in_order[waiting.rank] = waiting

    def _remove(self, waiting: Waiting) -> None:
        del self._by_trace[waiting.job.trace_id]
        del self._in_order[waiting.rank]
