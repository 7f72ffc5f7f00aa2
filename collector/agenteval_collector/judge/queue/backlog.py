"""Traces that wait for the judge: bounded, the urgent ones first, then the oldest."""

from collections.abc import Container
from dataclasses import dataclass

from agenteval_collector.model.judge_jobs import JobKey, JudgeJob


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


def _rank(waiting: Waiting) -> tuple[bool, int]:
    return not waiting.job.urgent, waiting.arrival


def _rank_to_probe(waiting: Waiting) -> tuple[int, bool, int]:
    return waiting.tries, *_rank(waiting)


class Backlog:
    """At most `capacity` jobs, one for each trace or session, and one to recheck it. Not thread-safe.

    A job is looked for among all that wait: a millisecond or two for thousands, beside a judge that takes seconds.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.closed = False
        self._by_key: dict[JobKey, Waiting] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def close(self) -> None:
        """Take no new jobs."""
        self.closed = True

    def add(self, waiting: Waiting) -> Waiting | None:
        """Add a new job, unless the backlog is closed. Return the job that has no place; None where all have one.

        An urgent job takes the place of the newest job that is neither urgent nor was tried. Without such a job, and
        for any other job, it is the new one that has no place. A newer revision takes the place of the older one.
        """
        if self.closed:
            return None
        displaced: Waiting | None = None
        before = self._by_key.get(waiting.job.key)
        if before is not None:
            if before.job.revision > waiting.job.revision:
                return None  # It came late: what it would be asked about has been replaced.
            waiting.arrival = before.arrival
        else:
            if len(self) >= self.capacity:
                displaced = self._displaceable() if waiting.job.urgent else None
                if displaced is None:
                    return waiting
                del self._by_key[displaced.job.key]
            self._arrivals += 1
            waiting.arrival = self._arrivals
        self._by_key[waiting.job.key] = waiting
        return displaced

    def put_back(self, waiting: Waiting, due: float) -> None:
        """Have a job that was taken wait again in its old place, until `due` at least, also over the capacity.

        It is dropped where a newer revision of its trace waits.
        """
        waiting.due = due
        self._by_key.setdefault(waiting.job.key, waiting)

    def forget(self, subject_ids: Container[str]) -> None:
        """Drop the jobs of these traces and sessions."""
        for key in [key for key in self._by_key if key[1] in subject_ids]:
            del self._by_key[key]

    def take(self, now: float, *, probe: bool = False) -> Waiting | None:
        """Take the next job that may be judged; None where there is none.

        To `probe` whether the judge is back, it is one of those that were tried least: a trace that itself makes the
        judge fail must not be the probe each time.
        """
        ready = (each for each in self._by_key.values() if each.due <= now)
        first = min(ready, key=_rank_to_probe if probe else _rank, default=None)
        return None if first is None else self._by_key.pop(first.job.key)

    def next_due(self) -> float | None:
        """Find when the first job may be judged; None where none waits."""
        return min((each.due for each in self._by_key.values()), default=None)

    def _displaceable(self) -> Waiting | None:
        others = (each for each in self._by_key.values() if not each.job.urgent and not each.tries)
        return max(others, key=_rank, default=None)
