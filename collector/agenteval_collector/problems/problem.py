"""A problem as it is shown, and the filter of a listing of problems."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from agenteval_collector.problems.grouping import ProblemKey
from agenteval_collector.problems.state import ProblemState
from otel_agenteval.finding import Severity

HOURS: Final = 24
"""Hours of a problem's trend."""
MOST_EXAMPLES: Final = 5
"""Traces that are named as examples, the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A failure that recurs.

    Times are in nanoseconds since the Unix epoch. `traces` and `sessions` count those in which it occurred, `usd` and
    `seconds` are what these traces took, as far as that is known. `versions` counts traces by the agent's version,
    `first_version` is that of the first of them that is kept; both leave out traces without one. `trend` counts traces
    by hour: `HOURS` of them, the last one is the present hour. `examples` are trace ids, the newest first.
    """

    key: ProblemKey
    severity: Severity
    state: ProblemState
    first_seen: int
    last_seen: int
    traces: int
    sessions: int
    usd: float
    seconds: float
    versions: Mapping[str, int]
    first_version: str | None
    trend: Sequence[int]
    examples: Sequence[str]
    resolved_at: int | None
    resolved_by: str | None
    muted_until: int | None
    muted_by: str | None


class ProblemFilter(NamedTuple):
    """The filter of a listing; None: any. `version`: it occurred in that one."""

    agent: str | None = None
    state: ProblemState | None = None
    severity: Severity | None = None
    version: str | None = None


EVERY_PROBLEM: Final = ProblemFilter()
"""The filter that holds for all problems."""


class ProblemCount(NamedTuple):
    """The number of problems that have all of this in common."""

    state: ProblemState
    severity: Severity
    agent: str | None
    problems: int
