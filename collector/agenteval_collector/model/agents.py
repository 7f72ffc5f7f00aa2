"""Sums over the traces of agents, by time."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from otel_agenteval.metrics import Clusters

HOUR: Final = 3600 * 1_000_000_000
"""Nanoseconds."""
_STEPS_PER_DOUBLING: Final = 4
_SHORTEST: Final = 0.001
"""Seconds; what took less counts as this."""


class Range(StrEnum):
    """The time that figures of agents are about, up to now."""

    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"

    @property
    def step(self) -> int:
        """Hours from one point of a chart to the next."""
        return {Range.DAY: 1, Range.WEEK: 6, Range.MONTH: 24}[self]

    @property
    def points(self) -> int:
        """Points of a chart, the present one included."""
        return {Range.DAY: 24, Range.WEEK: 28, Range.MONTH: 30}[self]

    def first(self, now: int) -> int:
        """Return the number of the oldest point of a chart at `now` (ns); points are numbered from the Unix epoch on,
        one for each step."""
        return now // HOUR // self.step - self.points + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFigures:
    """Sums over traces of an agent.

    `errors` counts the traces with an error finding, `rates` the judged ones that pass, by evaluator. Their clusters
    are the hours of `sessions`. `usd` is the money of the `priced` traces, those whose price is known. `steps` counts
    traces by the step (`step_of`) of the time in their turns.
    """

    sessions: int = 0
    errors: Clusters = field(default_factory=Clusters)
    rates: Mapping[str, Clusters] = field(default_factory=dict)
    usd: float = 0.0
    priced: int = 0
    steps: Mapping[int, int] = field(default_factory=dict)

    @property
    def hours_per_session(self) -> float:
        """The clusters of a session, on average."""
        return self.errors.clusters / self.sessions if self.sessions else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHistory:
    """The figures of an agent since some hour.

    `points` are apart by time, in hours since the Unix epoch divided by those of a step. `versions` are apart by
    version (empty: not named), with the hour in which each began, however long ago, in `began`.
    """

    total: AgentFigures
    points: Mapping[int, AgentFigures]
    versions: Mapping[str, AgentFigures]
    began: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenAgent:
    """An agent, and when the newest telemetry of its sessions was received (ns since the Unix epoch)."""

    agent: str
    last_seen_at: int


def step_of(seconds: float) -> int:
    """Return the step of a duration: four of them double it."""
    return math.ceil(math.log2(max(seconds, _SHORTEST)) * _STEPS_PER_DOUBLING)


def quantile(steps: Mapping[int, int], share: float) -> float | None:
    """Return the duration in seconds that this share of the traces did not exceed, to within 9 %; None without any."""
    wanted, counted = share * sum(steps.values()), 0
    for step in sorted(steps):
        counted += steps[step]
        if counted and counted >= wanted:
            # The middle of the step, as logarithms have it.
            return float(2.0 ** ((step - 0.5) / _STEPS_PER_DOUBLING))
    return None
