"""The outcome of an evaluation: a score, the reason for having none, or the evaluator's failure."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import TypeAlias

from otel_agenteval.checked import dataclass
from otel_agenteval.model import Json


class Method(StrEnum):
    """The way in which a score was found."""

    EXACT = "exact"
    EMBEDDING = "embedding"
    LLM = "llm"


class SubjectKind(StrEnum):
    """The kind of thing that was evaluated."""

    TRACE = "trace"
    SESSION = "session"
    TASK = "task"


class Status(StrEnum):
    """The state of an evaluation. Everything but `SCORED` and `FAILED` is a reason for having no score."""

    SCORED = "scored"
    NOT_APPLICABLE = "not_applicable"
    NO_CONTENT = "no_content"
    NO_JUDGE = "no_judge"
    SAMPLED_OUT = "sampled_out"
    OVER_BUDGET = "over_budget"
    PENDING = "pending"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Explained:
    """`coverage` is the share of the expected signals that an outcome rests on."""

    reason: str
    coverage: float | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score(_Explained):
    """A defined value in [0, 1]. `coverage` is the share of the expected signals it rests on."""

    value: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.value <= 1.0:
            raise ValueError(f"score {self.value!r} is not in [0, 1]")

    @property
    def status(self) -> Status:
        return Status.SCORED


@dataclass(frozen=True, slots=True, kw_only=True)
class Unscored(_Explained):
    """An outcome without a score: the metric is undefined here, or was not evaluated on purpose. Aggregation skips and
    counts it."""

    status: Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(_Explained):
    """The failure of the evaluator itself. `error_type` has low cardinality, `reason` tells what happened."""

    error_type: str

    @property
    def status(self) -> Status:
        return Status.FAILED


Outcome: TypeAlias = Score | Unscored | Failure


class JudgedPart(StrEnum):
    """The part of all sessions that a judged one belongs to. Rates are computed from the random part alone."""

    RANDOM = "random"
    """Drawn at random by its id."""
    ESCALATED = "escalated"
    """Judged because of what was found in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The outcome of one evaluator on one revision of one subject, with everything needed to judge its worth.

    `span_id` is the span that the evaluation event is attached to, `trace_id` that span's trace. For a trace,
    `subject_id` is its trace id, for a session its session id. `threshold` is None for values that are neither
    good nor bad by themselves. `part` says why the judge looks at it, None where it does not. `evaluated_at` is in
    nanoseconds since the Unix epoch.
    """

    name: str
    version: str
    method: Method
    subject: SubjectKind
    subject_id: str
    revision: int
    outcome: Outcome
    threshold: float | None
    session_id: str
    trace_id: str | None
    span_id: str | None
    agent: str | None
    service: str | None
    service_version: str | None
    environment: str | None = None
    model: str | None = None
    part: JudgedPart | None = None
    evaluated_at: int

    @property
    def success(self) -> bool | None:
        """True where the score reaches the threshold; None where there is no score or no threshold."""
        if isinstance(self.outcome, Score) and self.threshold is not None:
            return self.outcome.value >= self.threshold
        return None
