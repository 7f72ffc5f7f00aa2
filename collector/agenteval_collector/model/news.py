"""The news of a commit to the store, for everything that emits or shows it."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from agenteval_collector.model.agent_work import AgentWork
from agenteval_collector.model.effort import Effort
from otel_agenteval.checked import dataclass
from otel_agenteval.finding import Finding, Severity
from otel_agenteval.outcome import Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedEvaluation:
    """An evaluation that the store holds now.

    `first` is True at the first outcome of its (trace, evaluator, version): only then do instruments count it;
    events are emitted for every revision. `final` marks a session's score, once: when the session is idle or was
    ended, and none of its traces waits for the judge. Only then does a session score enter the score histogram.
    """

    evaluation: Evaluation
    first: bool
    final: bool = False


class WorstFinding(NamedTuple):
    """A trace or a session that counts now, with its worst finding. None where nothing was found."""

    severity: Severity | None
    agent: str | None
    service: str | None
    service_version: str | None
    environment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """The news of a commit to the store. Nobody has heard of it before.

    `told` are new findings that are told live, `counted` those that instruments count now, `traces` and `sessions`
    those that were complete, or over, for the first time; `efforts` is what these sessions took, with their agents.
    `work` is what agents did in traces that were complete for the first time.
    """

    evaluations: Sequence[CommittedEvaluation] = ()
    told: Sequence[Finding] = ()
    counted: Sequence[Finding] = ()
    traces: Sequence[WorstFinding] = ()
    sessions: Sequence[WorstFinding] = ()
    efforts: Sequence[tuple[str, Effort]] = ()
    work: Sequence[AgentWork] = ()


class NewsSink(Protocol):
    """Tells others of what is committed; each takes what it is there for. Thread-safe; must not block or raise."""

    def take_news(self, news: News) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event that leaves for the backend. `event_id` follows from what it says: two with one id say the same.

    `trace_id` and `span_id` are those of the evaluated span, empty where there is none. `at` is in nanoseconds since
    the Unix epoch.
    """

    event_id: str
    session_id: str
    trace_id: str
    span_id: str
    at: int
    attributes: Mapping[str, str | float | int]


EventsOf: TypeAlias = Callable[[News], Sequence[Event]]
"""Makes the events that tell of news."""


def no_events(_: News) -> Sequence[Event]:
    """Make none: nothing is pushed."""
    return ()
