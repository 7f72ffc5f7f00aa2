"""The seams between stages: the protocols by which stages know each other, and those of requests from outside.

Stages never import one another. They hold one of these protocols, and the composition root (`service.py`) decides
what stands behind it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.findings.effort import Effort
from agenteval_collector.session_filter import EVERY_SESSION, SessionFilter
from otel_agenteval.finding import Finding, Severity
from otel_agenteval.outcome import Evaluation


class Signal(IntEnum):
    """The kind of telemetry in a request."""

    TRACES = 1
    LOGS = 2


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """A request with its place in the log; `body` is a serialized OTLP export request."""

    offset: int
    tenant: str
    signal: Signal
    received_at: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Origin:
    """Where spans or log records came from; one object is shared by all that came together.

    `resource` is the serialized Resource, `scope` the name of the instrumentation scope, `process` the process that
    our processor named in the resource, None where no processor of ours sent them. `service` is empty where the
    resource names none.
    """

    resource: bytes
    scope: str
    process: str | None
    service: str = ""


class Arrival(NamedTuple):
    """A span that has arrived for the first time; its trace may still be open. Nobody changes the span."""

    span: Span
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """The death of a trace's agent: every process that had spans open fell silent.

    `reason` says so in a sentence, `open_spans` are the documents of what was open, by start. `heard_at` is when one
    of them was heard of last. None: no start that was reported tells it. Times in nanoseconds since the Unix epoch.
    """

    reason: str
    session_id: str | None
    agent: str | None
    service: str | None
    started_at: int
    heard_at: int
    open_spans: Sequence["Document"]


class ClosedBy(StrEnum):
    """Why a trace was taken for complete."""

    COUNT = "count"
    ROOT = "root"
    SHORT = "short"
    LOGS = "logs"
    SILENCE = "silence"
    MAX_AGE = "max_age"
    MEMORY = "memory"
    DEATH = "death"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """Why a trace was taken for complete: `reason` in words, without a full stop; `senders` are sentences on what is
    known of the senders of spans whose parents or log records had not come. `partial`: more of it was expected."""

    by: ClosedBy
    reason: str
    partial: bool = False
    senders: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembledTrace:
    """All of a trace at one revision: serialized spans and log records with their origins, in order of arrival.

    `offsets` are the requests they came in. `missing` counts spans that their sender says it handed over and that
    did not come. `complete` is False for a look at a trace that is still open. `death`: its agent died in the middle;
    there may be no spans then. `received_at` is when the newest of all this was received, or the agent last heard of
    (ns since the Unix epoch, by the clock of the collector: those of agents may say anything). `closing` is None for
    such a look, and for one at an earlier revision; `waits_for` tells, in a look at an open one, what it waits for.
    """

    trace_id: str
    tenant: str
    revision: int
    spans: Sequence[tuple[bytes, Origin]]
    logs: Sequence[tuple[bytes, Origin]]
    offsets: Sequence[int]
    received_at: int
    missing: int = 0
    complete: bool = True
    death: Death | None = None
    closing: Closing | None = None
    waits_for: Sequence[str] = ()

    @property
    def processes(self) -> frozenset[str]:
        """The processes that it has spans of, as far as our processor named them."""
        return frozenset(origin.process for _, origin in self.spans if origin.process is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanStart:
    """A span that a process says it has begun. None: not known at its start. `started_at` in nanoseconds since the
    Unix epoch."""

    trace_id: str
    span_id: str
    name: str
    session_id: str | None
    agent: str | None
    started_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartsReport:
    """A process's report of the spans that are open in it; an empty one says that it is alive.

    `all_open`: whatever else it has begun before has ended.
    """

    process_id: str
    service: str | None
    starts: Sequence[SpanStart]
    findings: Sequence[Finding]
    all_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTrace:
    """A trace that is not complete; `stopped` says why it will not go on, None while it may."""

    trace_id: str
    session_id: str
    user_id: str | None
    agent: str | None
    service: str | None
    started_at: int
    stopped: str | None = None


Document: TypeAlias = dict[str, Any]
"""A JSON object in a shape of docs/api.md: plain dicts, lists, strings, numbers, booleans and None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a listing, in its order; `next_cursor` is None on the last one."""

    items: list[Document]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The reported outcome of a run, and when it was reported. None: not said."""

    task_id: str
    run_id: str
    condition: str = "baseline"
    agent: str | None = None
    service_version: str | None = None
    success: bool | None = None
    confidence: float | None = None
    session_id: str | None = None
    reported_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The value in [0, 1] that a person says the score `name` of a trace should have. None: not said."""

    trace_id: str
    name: str
    value: float
    author: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejudging:
    """The number of traces that wait for the judge by a request to judge again, and whether there are more."""

    traces: int
    more: bool


class Queries(Protocol):
    """Queries of the HTTP API, the page and the gRPC service. Thread-safe; never blocks on ingestion."""

    def trace(self, trace_id: str) -> Document | None:
        """The trace document with its outcomes and labels; None where it is unknown."""
        ...

    def judgements(self, trace_id: str) -> list[Document] | None:
        """The judge's exchanges about a trace, in the order of asking; None where the trace is unknown."""
        ...

    def session(self, session_id: str) -> Document | None:
        """The session document; None where it is unknown."""
        ...

    def sessions(self, wanted: SessionFilter = EVERY_SESSION, *, limit: int = 50, cursor: str | None = None) -> Page:
        """The wanted sessions in the wanted order. Raises InvalidRequest for a cursor of another listing."""
        ...

    def hit_rate(self, agent: str) -> Document | None:
        """The failure rates of the agent's sessions with an error finding, and without one; None while the ends of too
        few are known."""
        ...

    def reliability(
        self,
        *,
        agent: str | None = None,
        version: str | None = None,
        variant: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page:
        """Reliability over runs, by agent and version, those with the newest trace first.

        Raises InvalidRequest for an unknown variant, and for a cursor that is none of ours.
        """
        ...

    def reliability_comparison(
        self, before: str, after: str, *, agent: str | None = None, variant: str | None = None
    ) -> Document:
        """Version `after` of an agent beside version `before`.

        Raises NotFound where one of them has no runs, InvalidRequest for an unknown variant and where several agents
        have these versions.
        """
        ...

    def agreement(self, *, name: str | None = None) -> list[Document]:
        """The agreement of scores with labels: by name, method, version and model of the evaluator."""
        ...


class Reports(Protocol):
    """Reports from outside beside telemetry. Durable when the call returns; raises RetryableError."""

    def report_run(self, report: RunReport) -> None: ...

    def end_session(self, session_id: str) -> bool:
        """The session has had its last turn. Whether it is known: otherwise that is not durable, and holds for what is
        on the way."""
        ...

    def label(self, label: Label) -> None:
        """Keep a label instead of an earlier one of the same author."""
        ...

    def judge_again(self, trace_ids: Sequence[str], failed_since: int) -> Rejudging:
        """Have the judge score what it has not: of these traces, or, where there are none, of all that failed or were
        left out by the budget since that time (ns). Raises InvalidRequest where there is no judge."""
        ...

    def starts(self, report: StartsReport) -> None:
        """Take note of what runs: not durable but for its findings."""
        ...


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
    """A trace or a session that counts now, by its worst finding; None where nothing was found."""

    severity: Severity | None
    agent: str | None
    service: str | None
    service_version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """The news of a commit to the store: nobody was told of it before.

    `told` are new findings that are told live, `counted` those that instruments count now, `traces` and `sessions`
    those that were complete, or over, for the first time; `efforts` is what these sessions took, with their agents.
    """

    evaluations: Sequence[CommittedEvaluation] = ()
    told: Sequence[Finding] = ()
    counted: Sequence[Finding] = ()
    traces: Sequence[WorstFinding] = ()
    sessions: Sequence[WorstFinding] = ()
    efforts: Sequence[tuple[str, Effort]] = ()


class NewsSink(Protocol):
    """Emits what is committed. Thread-safe; must not block or raise."""

    def accept(self, news: News) -> None: ...


def has_event(finding: Finding) -> bool:
    """Whether an event leaves for a finding: it was told live, or is an error."""
    return finding.mode is not None or finding.severity is Severity.ERROR


class Telemetry(Protocol):
    """Counters of the stages' own work; each call is one addition to one counter. Thread-safe."""

    def received(self, spans: int) -> None:
        """Spans and log records of an acknowledged request."""
        ...

    def rejected(self, spans: int) -> None:
        """Spans and log records that were refused one by one (invalid ids, too large)."""
        ...

    def refused(self, error_type: str) -> None:
        """A request that was refused as a whole, by the type of the error."""
        ...

    def own_scope(self, spans: int) -> None:
        """Spans and log records of our own instrumentation scopes, dropped so that we never evaluate ourselves."""
        ...

    def unread(self, kind: str, values: int) -> None:
        """Recorded values that no dialect could read, by a short name of what they were."""
        ...

    def late(self, spans: int) -> None:
        """Spans and log records that came after their trace was scored."""
        ...

    def replayed(self, requests: int) -> None:
        """Requests read again from the log after a restart."""
        ...

    def released_early(self, traces: int) -> None:
        """Traces scored before they were complete, to keep memory bounded or because they grew too old."""
        ...
