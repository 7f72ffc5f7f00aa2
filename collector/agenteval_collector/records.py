"""What is kept: the objects that pass between evaluation, aggregation and the store."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agenteval_collector.pipeline import Document
from otel_agenteval.metrics import LoopText
from otel_agenteval.model import RunIdentity
from otel_agenteval.outcome import Evaluation, Score, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRecord:
    """A scored trace. `risk` is its step risk in the session, None where nothing of it has weight there."""

    trace_id: str
    session_id: str
    started_at: int
    revision: int
    document: Document
    offsets: Sequence[int]
    risk: float | None
    run: RunIdentity | None
    scored_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A session as it is after its newest trace. Times in nanoseconds since the Unix epoch."""

    session_id: str
    user_id: str | None
    agent: str | None
    services: Sequence[str]
    started_at: int
    last_seen_at: int
    trace_count: int
    finalized_at: int | None = None
    ended_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrace:
    """What a session has to know again of one of its traces; `answers` only where they were asked for."""

    trace_id: str
    started_at: int
    signals: dict[str, Evaluation]
    answers: Sequence[str | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A session as the store holds it: its traces by start, the newest of them with their answers."""

    record: SessionRecord
    traces: Sequence[StoredTrace]


@dataclass(slots=True, kw_only=True)
class Member:
    """A trace in its session: what it answered, turn by turn, and what came of the signals of session scores."""

    trace_id: str
    started_at: int
    answers: Sequence[LoopText | None]
    signals: dict[str, Evaluation] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, float]:
        """The signals that have a score."""
        scored = {name: each.outcome for name, each in self.signals.items()}
        return {name: outcome.value for name, outcome in scored.items() if isinstance(outcome, Score)}

    @property
    def not_applicable(self) -> frozenset[str]:
        """The signals that cannot exist for this trace: coverage does not expect them."""
        statuses = {name: each.outcome.status for name, each in self.signals.items()}
        return frozenset(name for name, status in statuses.items() if status is Status.NOT_APPLICABLE)

    @property
    def place(self) -> tuple[int, str]:
        """Where it stands among the traces of its session."""
        return self.started_at, self.trace_id


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUpdate:
    """A session after one of its traces: what to store of it, and its scores."""

    record: SessionRecord
    evaluations: Sequence[Evaluation]


@dataclass(slots=True, kw_only=True)
class Commit:
    """Everything that one pass of the evaluation found, to be kept together or not at all.

    `risks` are changed step risks of traces that were kept before. `emptied` are sessions whose only trace turned
    out to belong to another session.
    """

    traces: list[TraceRecord] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    sessions: dict[str, SessionUpdate] = field(default_factory=dict)
    risks: dict[str, float | None] = field(default_factory=dict)
    emptied: set[str] = field(default_factory=set)

    def add(self, update: SessionUpdate) -> None:
        """Keep a session as it is now, instead of as it was earlier in this pass."""
        self.sessions[update.record.session_id] = update


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
    """What came of a job: every pending outcome replaced by a final one, and what was asked and answered for it."""

    job: JudgeJob
    evaluations: tuple[Evaluation, ...]
    exchanges: tuple[Exchange, ...]
