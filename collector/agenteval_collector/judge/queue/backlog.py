"""The traces that wait for the judge. Their number is bounded. Urgent ones come first, then the oldest."""

from collections.abc import Container
from dataclasses import dataclass

from agenteval_collector.model.judge_jobs import JobKey, JudgeJob


@dataclass(slots=True, kw_only=True)
class WaitingJob:
    """A job with what happened to it so far.

    `faults` counts how often it was the first job without an answer since the judge last answered. The job is not
    judged before `due`, which is 0 until it gets no answer.
    """

    job: JudgeJob
    faults: int = 0
    due: float = 0.0
    arrival: int = 0


def _rank(waiting: WaitingJob) -> tuple[bool, int]:
    return not waiting.job.urgent, waiting.arrival


def _rank_to_probe(waiting: WaitingJob) -> tuple[float, bool, int]:
    return waiting.due, *_rank(waiting)


class Backlog:
    """Holds at most `capacity` jobs. Not thread-safe.

    Each trace or session has one job, and one more to recheck it. A job is looked for among all that wait. This takes
    a millisecond or two for thousands of jobs, which is little beside a judge that takes seconds.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.closed = False
        self._by_key: dict[JobKey, WaitingJob] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def close(self) -> None:
        """Take no new jobs."""
        self.closed = True

    def add(self, job: JudgeJob) -> bool:
        """Add a job, or replace an older revision that waits. Return False if there is no place.

        A closed backlog adds nothing. A revision that comes after a newer one is not added either.
        """
        before = self._by_key.get(job.key)
        if before is None and not self.closed and len(self) >= self.capacity:
            return False
        if not self.closed and (before is None or before.job.revision <= job.revision):
            self._arrivals += 1
            self._by_key[job.key] = WaitingJob(job=job, arrival=before.arrival if before else self._arrivals)
        return True

    def put_back(self, waiting: WaitingJob, due: float) -> None:
        """Make a job that was taken wait again in its old place, at least until `due`.

        The job may exceed the capacity. It is dropped if a newer revision of its trace waits.
        """
        waiting.due = due
        self._by_key.setdefault(waiting.job.key, waiting)

    def forget(self, subject_ids: Container[str]) -> None:
        """Drop the jobs of these traces and sessions."""
        for key in [key for key in self._by_key if key[1] in subject_ids]:
            del self._by_key[key]

    def take(self, now: float, *, probe: bool = False) -> WaitingJob | None:
        """Take the next job that may be judged. Return None if there is none.

        With `probe`, the job is to show whether the judge is back. Then it is one that was not tried yet, or else the
        one that was tried longest ago. A trace that itself makes the judge fail must not be the probe each time.
        """
        ready = (item for item in self._by_key.values() if item.due <= now)
        first = min(ready, key=_rank_to_probe if probe else _rank, default=None)
        return None if first is None else self._by_key.pop(first.job.key)

    def next_due(self) -> float | None:
        """Return when the first job may be judged. Return None if no job waits."""
        return min((item.due for item in self._by_key.values()), default=None)
