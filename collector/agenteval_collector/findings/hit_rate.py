"""Measure whether an agent's error findings go with its failures, on its own sessions, where enough ends are known.

In: of each session whose end is known, whether it failed and whether it has a finding of severity error. Out: how many
failed with such a finding and without one, each with Wilson's score interval (Wilson 1927).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist

ENOUGH_ENDS = 30
"""Sessions with a known end that it takes to measure a rate."""
_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """The end of a session, by its reported run, its labels or the judge; `error`: it has an error finding."""

    failed: bool
    error: bool


@dataclass(frozen=True, slots=True)
class FailureRate:
    """`failed` of `sessions` failed. `rate` and its 95 % interval are None where there is no session."""

    sessions: int
    failed: int

    @property
    def rate(self) -> float | None:
        return self.failed / self.sessions if self.sessions else None

    @property
    def interval(self) -> tuple[float, float] | None:
        return wilson(self.failed, self.sessions) if self.sessions else None


@dataclass(frozen=True, slots=True)
class HitRate:
    """The failures among sessions with an error finding, and among those without one."""

    with_error: FailureRate
    without_error: FailureRate


def hit_rate(ends: Iterable[SessionEnd]) -> HitRate | None:
    """None where fewer than `ENOUGH_ENDS` sessions have a known end."""
    found = list(ends)
    if len(found) < ENOUGH_ENDS:
        return None
    return HitRate(*(_rate(end for end in found if end.error is error) for error in (True, False)))


def wilson(count: int, of: int) -> tuple[float, float]:
    """The 95 % score interval of a share of `count` in `of`, which is above 0."""
    share, z2 = count / of, _Z * _Z
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = _Z * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of)) / (1 + z2 / of)
    return (max(0.0, middle - half), min(1.0, middle + half))


def _rate(ends: Iterable[SessionEnd]) -> FailureRate:
    failed = [end.failed for end in ends]
    return FailureRate(sessions=len(failed), failed=sum(failed))
