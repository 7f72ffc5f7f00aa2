"""The JSON documents of agents over time."""

from typing import Literal

from typing_extensions import TypedDict

from agenteval_collector.api.documents import Interval, Listing


class RateDocument(TypedDict):
    """The share `count` of `traces`, with its 95 % interval; null where fewer than two sessions tell how it
    spreads."""

    traces: int
    count: int
    rate: float | None
    interval: Interval | None


class SecondsDocument(TypedDict):
    """The time in the turns of a trace, in seconds, that half and 95 % of the traces did not exceed."""

    p50: float | None
    p95: float | None


class FiguresDocument(TypedDict):
    """Sums over traces. `errors` counts those with an error finding, `pass_rates` those that the judge passes, by
    evaluator, of the ones drawn at random. `usd` is null where no price is known; `unpriced` traces have none."""

    sessions: int
    errors: RateDocument
    pass_rates: dict[str, RateDocument]
    usd: float | None
    usd_per_session: float | None
    unpriced: int
    seconds: SecondsDocument


class PointDocument(FiguresDocument):
    """The traces that began from `at` on, up to the next point."""

    at: str


class AgentVersionDocument(FiguresDocument):
    """A version of an agent; `first_at` is the hour in which its first trace began, however long ago."""

    version: str | None
    first_at: str


class OpenProblemsDocument(TypedDict):
    """The numbers of problems that are neither resolved nor muted, by severity."""

    error: int
    warning: int


class AgentItem(FiguresDocument):
    """An agent over time. `versions` begin with the one that began last, `points` end with the present one."""

    agent: str
    last_seen_at: str
    problems: OpenProblemsDocument
    versions: list[AgentVersionDocument]
    points: list[PointDocument]


class RangeDocument(TypedDict):
    """The time that figures are about: from `since` up to now, with a point every `step_seconds`."""

    range: Literal["24h", "7d", "30d"]
    since: str
    step_seconds: int


class AgentDocument(AgentItem, RangeDocument):
    """An agent by itself."""


class AgentPage(Listing[AgentItem], RangeDocument):
    """A page of agents."""
