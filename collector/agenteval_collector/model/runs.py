"""Runs of tasks, made of traces and run reports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, Self, TypedDict

from agenteval_collector.model.agents import AgentKey
from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.model import RunIdentity
from otel_agenteval.outcome import Status

LIVE_VERSIONS: Final = 3
"""The number of versions of an agent that gauges show: its newest ones."""


class AgentVersion(NamedTuple):
    """A version of an agent: its name, the service that it runs in, and its version. None: not named."""

    agent: str | None
    service: str | None
    version: str | None

    @property
    def key(self) -> AgentKey:
        """The agent."""
        return AgentKey(self.agent, self.service)


class RunKey(NamedTuple):
    """The key of a run among those of one version of an agent."""

    task_id: str
    run_id: str
    condition: str

    @classmethod
    def of(cls, run: RunIdentity) -> Self:
        """Return the key of a trace's run."""
        return cls(run.task_id, run.run_id, run.condition)


class JudgedViolation(TypedDict):
    """A violation as the judge tells it; an outcome's metadata has a list of them, as `violations`."""

    constraint: str
    severity: str
    reason: str
    quote: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A constraint that a run broke, with its severity (`low`, `medium`, `high`, `critical`) and evidence.

    `values` are digests of the personal data in the evidence. If all of it had been said before in the run, there is no
    violation.
    """

    constraint: str
    severity: str
    evidence: str
    values: tuple[str, ...] = ()


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class RunTrace:
    """The contribution of one trace to its run.

    `success` and `confidence` are from its spans; None if they say nothing. `seconds` is the trace's duration,
    `model_seconds` the sum over its model calls. `usd` is None if a call has no price, `violations` is None if
    nobody looked for any.
    """

    trace_id: str
    session_id: str
    run: RunIdentity
    agent: str | None
    service: str | None
    service_version: str | None
    started_at: int
    success: bool | None
    confidence: float | None
    actions: Sequence[str]
    seconds: float
    model_calls: int
    model_seconds: float
    errors: int
    usd: float | None
    violations: Sequence[Violation] | None
    versions: Sequence[str] = ()
    """The service.version of every service that took part."""
    said: Sequence[str] = ()
    """Digests of personal data that later traces of the run may repeat."""
    senders: Sequence[str] = ()
    """Names of the keys that its spans came with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The caller's report on a run. None: not said. `reported_at` is in nanoseconds since the Unix epoch.

    `sender` is the key of a caller who may only write: the report is about a run of that key. Empty: about any.
    """

    task_id: str
    run_id: str
    condition: str = "baseline"
    agent: str | None = None
    service_version: str | None = None
    success: bool | None = None
    confidence: float | None = None
    session_id: str | None = None
    reported_at: int | None = None
    sender: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run that counts, with its traces by start. None or absent: not known.

    `success` and `confidence` are as reported. The rest is by trace. `completed`: whether task_completion reached its
    threshold. `confidences`: the scores of the evaluator confidence. `judged`: the violations that the judge found; an
    empty list if it found the trace safe. `unjudged`: why there is no score of task_completion. `unsure`: why there
    is none of confidence.
    """

    run: RunIdentity
    agent: str | None
    service: str | None
    service_version: str | None
    traces: Sequence[RunTrace]
    success: bool | None
    confidence: float | None
    completed: Mapping[str, bool]
    confidences: Mapping[str, float]
    judged: Mapping[str, Sequence[Violation]]
    unjudged: Mapping[str, Status] = field(default_factory=dict)
    unsure: Mapping[str, Status] = field(default_factory=dict)


class Unmatched(StrEnum):
    """The reason why a run report belongs to no run."""

    NO_TRACE = "it was reported, but no trace of it has arrived"
    OTHER_AGENT = "it was reported for an agent or a version that none of its traces names"
    OTHER_KEY = "it was reported with a key that none of its traces came with; the scope label reports of all"
    OTHER_CONDITION = "it was reported under another condition than that of its traces"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmatchedReport:
    """A run report that belongs to no run. `whose` is the agent and version of traces that it may be about."""

    report: RunReport
    reason: Unmatched
    whose: AgentVersion | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFigures:
    """The figures of one version of an agent, those that are defined."""

    agent: str | None
    service: str | None
    version: str | None
    runs: int
    figures: dict[str, float]
