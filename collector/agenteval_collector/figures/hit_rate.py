"""Measure whether an agent's sessions with error findings fail more often than its other sessions.

In: of each session, what is known of its end, and whether it has a finding of severity `error`. Out: the rates of
failure with and without such a finding, each with Wilson's score interval (Wilson 1927).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from agenteval_collector.model.sessions import SessionEnding
from otel_agenteval.metrics.wilson import wilson

ENOUGH_ENDS = 30
"""Sessions with a known end that are needed to measure a rate."""
FAILED_BELOW = 0.5
"""A session with a label of task completion below this has failed."""


@dataclass(frozen=True, slots=True)
class FailureRate:
    """`failed` of `sessions` failed. `rate` and its 95 % interval are None without any session."""

    sessions: int
    failed: int

    @property
    def rate(self) -> float | None:
        return self.failed / self.sessions if self.sessions else None

    @property
    def interval(self) -> tuple[float, float] | None:
        return wilson(self.failed / self.sessions, self.sessions) if self.sessions else None


@dataclass(frozen=True, slots=True)
class HitRate:
    """The failures among sessions with an error finding, and among those without one."""

    with_error: FailureRate
    without_error: FailureRate


def hit_rate(ends: Iterable[SessionEnding]) -> HitRate | None:
    """Return the rates; None if fewer than `ENOUGH_ENDS` sessions have a known end."""
    known_ends = [(end.has_error, failed) for end in ends if (failed := has_failed(end)) is not None]
    if len(known_ends) < ENOUGH_ENDS:
        return None
    by_error = [[failed for has_error, failed in known_ends if has_error is error] for error in (True, False)]
    return HitRate(*(FailureRate(len(turns), sum(turns)) for turns in by_error))


def has_failed(end: SessionEnding) -> bool | None:
    """Return whether a session failed, by its run report, else by its labels, else by the judge. None: nobody says."""
    if end.reported is not None:
        return not end.reported
    if end.labelled is not None:
        return end.labelled < FAILED_BELOW
    return None if end.judged is None else not end.judged
