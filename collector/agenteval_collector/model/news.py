"""The news of a commit to the store, for all who emit or show it."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from agenteval_collector.model.agent_work import AgentWork
from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.effort import Effort
from otel_agenteval.finding import Finding, Severity
from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.outcome import Evaluation


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class CommittedEvaluation:
    """An evaluation that the store holds now.

    `first` is True for the first outcome of its (trace, evaluator, version). Instruments count only that one; events
    are emitted for every revision. `final` marks a session's score once: when the session is over and none of its
    traces waits for the judge. Only then does the score enter the histogram.
    """

    evaluation: Evaluation
    first: bool
    final: bool = False


class WorstFinding(NamedTuple):
    """A trace or a session that counts from now on, with the severity of its worst finding; None without a finding."""

    severity: Severity | None
    agent: str | None
    service: str | None
    service_version: str | None
    environment: str | None = None


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """The news of a commit to the store. Each item is told once.

    `to_tell` are new findings that are to be told live, `counted` the findings that instruments count now. `traces`
    were complete for the first time, and `sessions` were over for the first time. `efforts` are those of these
    sessions, with their agents. `work` is the work of agents in these traces.
    """

    evaluations: Sequence[CommittedEvaluation] = ()
    to_tell: Sequence[Finding] = ()
    counted: Sequence[Finding] = ()
    traces: Sequence[WorstFinding] = ()
    sessions: Sequence[WorstFinding] = ()
    efforts: Sequence[tuple[AgentKey, Effort]] = ()
    work: Sequence[AgentWork] = ()


class NewsSink(Protocol):
    """Receives the news of every commit and uses the part it needs. Thread-safe; must not block or raise."""

    def take_news(self, news: News) -> None: ...


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event for the backend. `event_id` is derived from its content: two events with one id say the same.

    `trace_id` and `span_id` are those of the evaluated span, empty if there is none. `at` is in nanoseconds since
    the Unix epoch.
    """

    event_id: str
    session_id: str
    trace_id: str
    span_id: str
    at: int
    attributes: Mapping[str, str | float | int]


EventsOf: TypeAlias = Callable[[News], Sequence[Event]]
"""Makes the events for some news."""


def no_events(_: News) -> Sequence[Event]:
    """Return no events, if nothing is pushed."""
    return ()
