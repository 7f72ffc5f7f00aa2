"""Records that are kept: the objects that pass between evaluation, aggregation and the store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from agenteval_collector.findings.effort import NO_EFFORT, Effort
from agenteval_collector.links import Link, Move
from agenteval_collector.pipeline import Document, RunReport
from agenteval_collector.said import SaidTurn
from otel_agenteval.finding import Finding
from otel_agenteval.model import RunIdentity
from otel_agenteval.outcome import Evaluation, Outcome, Status

Signals = Mapping[str, Evaluation]
"""Outcomes of one trace that may be signals of session scores, by name."""

URGENT = "urgent"
"""In the metadata of a pending outcome: true where its trace is judged before others."""

PENDING_TRACES = "pending_traces"
"""In the metadata of a session's outcome: how many of its traces wait for the judge, where any does."""


def waits_for_judge(outcome: Outcome) -> bool:
    """Whether it is pending, or rests on traces that are."""
    return outcome.status is Status.PENDING or PENDING_TRACES in outcome.metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRecord:
    """A scored trace.

    `died` says that its agent died in the middle, None where it did not. `processes` are those that it has spans of.
    `findings` is all that was observed in it, its loops included, `turn_of` the number of the turn of each span that
    belongs to one, `text` what was said in it, to be searched. `agent`, `service` and `service_version` are those that
    it counts for, `in_session` is False for telemetry of no agent.
    `continues_turn`: its first turn began in the trace before it.
    """

    trace_id: str
    session_id: str
    started_at: int
    revision: int
    document: Document
    offsets: Sequence[int]
    run: RunIdentity | None
    run_trace: "RunTrace | None" = None
    died: str | None = None
    processes: Sequence[str] = ()
    continues_turn: bool = False
    scored_at: int
    findings: Sequence[Finding] = ()
    in_session: bool = True
    turn_of: Mapping[str, int] = field(default_factory=dict)
    text: str = ""
    effort: Effort = NO_EFFORT
    agent: str | None = None
    service: str | None = None
    service_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SameTrace:
    """A newer revision of a trace that says the same as the one before: its outcomes stand."""

    trace_id: str
    revision: int
    document: Document
    offsets: Sequence[int]
    processes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A constraint that a run broke, how badly (`low`, `medium`, `high`, `critical`), and what shows it.

    `values` are digests of the personal data that it is about: where all had been said before, it is no violation.
    """

    constraint: str
    severity: str
    evidence: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTrace:
    """The part of a run that one trace adds.

    `success` and `confidence` are what its spans say, None: nothing. `seconds` is its duration, `model_seconds` the
    sum of its model calls' durations. `usd` is None where a call could not be priced, `violations` None where nothing
    was looked for.
    """

    trace_id: str
    session_id: str
    run: RunIdentity
    agent: str | None
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
    """Digests of the personal data that was said in it, and may be said again in later traces of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run that counts: its traces by start, and what else is known of it, None or absent where nothing is.

    `success` and `confidence` are as reported. `completed` says by trace whether task_completion reached its
    threshold, `confidences` holds the scores of the evaluator confidence by trace, and `judged` the violations that the
    judge found in a trace, none for one that it found safe. `unjudged` says why a trace has no score of
    task_completion, `unsure` why it has none of confidence.
    """

    run: RunIdentity
    agent: str | None
    service_version: str | None
    traces: Sequence[RunTrace]
    success: bool | None
    confidence: float | None
    completed: Mapping[str, bool]
    confidences: Mapping[str, float]
    judged: Mapping[str, Sequence[Violation]]
    unjudged: Mapping[str, Status] = field(default_factory=dict)
    unsure: Mapping[str, Status] = field(default_factory=dict)


class Stray(StrEnum):
    """Why no run belongs to a report."""

    NO_TRACE = "it was reported, but no trace of it has arrived"
    OTHER_AGENT = "it was reported for an agent or a version that none of its traces names"
    OTHER_CONDITION = "it was reported under another condition than that of its traces"


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayReport:
    """A report that no run belongs to; `whose` are the agent and version of the traces that it may be about."""

    report: RunReport
    reason: Stray
    whose: tuple[str | None, str | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A session as it is after its newest trace. Times in nanoseconds since the Unix epoch; `last_seen_at` is when the
    newest of its telemetry was received. `effort` is what its traces took together, `is_unusual`: that was found to be
    more than its agent's sessions usually take. `is_blind`: nothing of any of its traces could be looked at."""

    session_id: str
    user_id: str | None
    agent: str | None
    services: Sequence[str]
    versions: Sequence[str] = ()
    started_at: int
    last_seen_at: int
    trace_count: int
    effort: Effort = NO_EFFORT
    is_unusual: bool = False
    is_blind: bool = True
    finalized_at: int | None = None
    ended_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The session of a trace's revision, and its `place` there: its start and trace id.

    `pending`: it waits for the judge, or may do so. `effort` is what it took.
    """

    session_id: str
    place: tuple[int, str]
    revision: int
    pending: bool = False
    effort: Effort = NO_EFFORT


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrace:
    """One of a session's traces, as far as the session has to know it again; `turns` are
    those of its document, only where they were asked for."""

    trace_id: str
    started_at: int
    signals: dict[str, Evaluation]
    effort: Effort = NO_EFFORT
    turns: Sequence[Document] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A session as the store holds it: its traces by start, the newest of them with their answers."""

    record: SessionRecord
    traces: Sequence[StoredTrace]


@dataclass(slots=True, kw_only=True)
class Member:
    """A trace in its session: what it said, turn by turn, and what came of the signals of session scores."""

    trace_id: str
    started_at: int
    said: Sequence[SaidTurn]
    signals: dict[str, Evaluation] = field(default_factory=dict)

    @property
    def place(self) -> tuple[int, str]:
        """Its place among the traces of its session: start and id."""
        return self.started_at, self.trace_id


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUpdate:
    """A session after one of its traces: what to store of it, and its scores."""

    record: SessionRecord
    evaluations: Sequence[Evaluation]


@dataclass(slots=True, kw_only=True)
class Commit:
    """Everything that one pass of the evaluation found, to be kept together or not at all.

    `findings` are loops that showed in traces that were kept before. `emptied` are sessions whose only trace turned
    out to belong to another session. `links` join traces to conversations, `moves` are traces that are in other
    sessions by that, both by trace id. `judgements` are those whose outcomes are among the evaluations: what they cost
    is not found again for nothing, so with any of them all is on disk when it is committed.
    """

    traces: list[TraceRecord] = field(default_factory=list)
    same: list[SameTrace] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    sessions: dict[str, SessionUpdate] = field(default_factory=dict)
    emptied: set[str] = field(default_factory=set)
    links: dict[str, Link] = field(default_factory=dict)
    moves: dict[str, Move] = field(default_factory=dict)
    judgements: list["Judgement"] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def add(self, update: SessionUpdate) -> None:
        """Keep a session as it is now, instead of as it was earlier in this pass."""
        self.sessions[update.record.session_id] = update


@dataclass(frozen=True, slots=True, kw_only=True)
class Referral:
    """One judged evaluator's outcome on a trace, as far as it is known before the judge is asked.

    A pending `outcome` is replaced by what the judge says; any other one is final. `model` is None where no model
    has a part in it.
    """

    name: str
    version: str
    model: str | None
    threshold: float
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and what came back, for `agenteval why`; redacted like the request itself.

    `reply` is None where none came, `problem` says what was wrong with it, or why it did not come. `cached` replies
    were given earlier to the same question, and cost nothing.
    """

    question: str
    version: str
    model: str
    asked_at: int
    instructions: str
    data: str
    reply: str | None
    problem: str | None
    input_tokens: int | None
    output_tokens: int | None
    usd: float | None
    seconds: float | None
    cached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeJob:
    """A committed revision of a trace that waits for the judge.

    `pending` are its outcomes of status pending, as the store holds them; `urgent` ones are judged before others.
    """

    trace_id: str
    session_id: str
    revision: int
    urgent: bool
    pending: tuple[Evaluation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The result of a job: a final outcome for every pending one, and the exchanges with the judge."""

    job: JudgeJob
    evaluations: tuple[Evaluation, ...]
    exchanges: tuple[Exchange, ...]


def job_of(pending: Sequence[Evaluation]) -> JudgeJob:
    """The job that the pending outcomes of one revision of a trace make."""
    first = pending[0]
    return JudgeJob(
        trace_id=first.subject_id,
        session_id=first.session_id,
        revision=first.revision,
        urgent=any(each.outcome.metadata.get(URGENT) is True for each in pending),
        pending=tuple(pending),
    )


class What(StrEnum):
    """A thing that may come after a span."""

    PARENT = "local parent"
    PARENT_OF_FAILED = "local parent of failed"
    """Apart, because some instrumentations never end what was open above a failure."""
    REMOTE_PARENT = "remote parent"
    LOGS = "log records"


class Sender(NamedTuple):
    """The sender of one sort of spans. `operation` is `gen_ai.operation.name`, else the first word of their name."""

    tenant: str
    service: str
    scope: str
    operation: str


class Habit(NamedTuple):
    """A thing that a sender's spans may be followed by: what is learned, and kept, is whether they are."""

    sender: Sender
    what: What
