"""Sums over the traces of an agent, by hour and version."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from otel_agenteval.metrics.wilson import Clusters

HOUR: Final = 3600 * 1_000_000_000
"""Nanoseconds."""
_STEPS_PER_DOUBLING: Final = 4
"""Steps of a duration until it is twice as long. So a step is 19 % longer than the one before it."""
_SHORTEST: Final = 0.001
"""Seconds; shorter durations count as this."""


class AgentKey(NamedTuple):
    """What tells an agent from others: its name, and the `service.name` that it runs in. None: nobody says.

    Two services may each have an agent of the same name.
    """

    agent: str | None
    service: str | None


class Range(StrEnum):
    """A time range that ends now, for the figures of an agent."""

    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"

    @property
    def step(self) -> int:
        """Hours between two points of a chart."""
        return {Range.DAY: 1, Range.WEEK: 6, Range.MONTH: 24}[self]

    @property
    def points(self) -> int:
        """Points of a chart, with the present one."""
        return {Range.DAY: 24, Range.WEEK: 28, Range.MONTH: 30}[self]

    def first(self, now: int) -> int:
        """Return the number of the oldest point of a chart at `now` (ns). Points are numbered from the Unix epoch."""
        return now // HOUR // self.step - self.points + 1

    def since(self, now: int) -> int:
        """Return when the oldest point of a chart at `now` begins (both in ns)."""
        return self.first(now) * self.step * HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFigures:
    """Sums over traces of an agent.

    `errors` counts the traces with an error finding, `rates` the judged traces that pass, by evaluator. One cluster is
    one hour of one session. `usd` is the cost of the `priced` traces, those whose price is known. `steps` counts
    traces by the step (`step_of`) of their duration.
    """

    sessions: int = 0
    errors: Clusters = field(default_factory=Clusters)
    rates: Mapping[str, Clusters] = field(default_factory=dict)
    usd: float = 0.0
    priced: int = 0
    steps: Mapping[int, int] = field(default_factory=dict)

    @property
    def hours_per_session(self) -> float:
        """The mean number of clusters of a session."""
        return self.errors.clusters / self.sessions if self.sessions else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHistory:
    """The figures of an agent since some hour.

    `points` are by time: hours since the Unix epoch, divided by the hours of a step. `versions` are by version; an
    empty one was not named. `began` has the first hour of each version, however long ago.
    """

    total: AgentFigures
    points: Mapping[int, AgentFigures]
    versions: Mapping[str, AgentFigures]
    began: Mapping[str, int]


class Deploy(NamedTuple):
    """A version of an agent whose first trace began in the hour `began`, and the version that came before it, if any.

    `traces` and `errors` count, since some hour, its traces and those with an error finding; `traces_before` and
    `errors_before` those of the version before it.
    """

    key: AgentKey
    version: str
    before: str | None
    began: int
    traces: int
    errors: int
    traces_before: int
    errors_before: int


class Traffic(NamedTuple):
    """Sums over the traces of all agents. `usd` is the cost of the `priced` traces."""

    sessions: int = 0
    traces: int = 0
    errors: int = 0
    usd: float = 0.0
    priced: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What all agents did since some hour. `points` are as in `AgentHistory`; `steps` counts traces by `step_of` their
    duration. `deploys` are the newest first."""

    total: Traffic
    points: Mapping[int, Traffic]
    steps: Mapping[int, int]
    deploys: Sequence[Deploy]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenAgent:
    """An agent, and when the newest telemetry of its sessions was received (ns since the Unix epoch)."""

    agent: str
    service: str | None
    last_seen_at: int

    @property
    def key(self) -> AgentKey:
        return AgentKey(self.agent, self.service)


def step_of(seconds: float) -> int:
    """Return the step of a duration on a logarithmic scale: four steps double it."""
    return math.ceil(math.log2(max(seconds, _SHORTEST)) * _STEPS_PER_DOUBLING)


def quantile(steps: Mapping[int, float], share: float) -> float | None:
    """Return the duration in seconds that this share of the traces did not exceed, to within 9 %; None without any."""
    wanted, counted = share * sum(steps.values()), 0.0
    for step in sorted(steps):
        counted += steps[step]
        if counted and counted >= wanted:
            # The geometric middle of the step.
            return float(2.0 ** ((step - 0.5) / _STEPS_PER_DOUBLING))
    return None
