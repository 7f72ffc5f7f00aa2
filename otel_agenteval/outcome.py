"""The outcome of an evaluation: a score, a reason for having none, or the evaluator's failure."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Final, TypeAlias

from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.model import Json

MAX_REASON: Final = 500
"""Characters of an error's text that are kept as the reason of a failure."""


class Method(StrEnum):
    """The method by which a score was made: by rules, by embeddings, or by a judge."""

    EXACT = "exact"
    EMBEDDING = "embedding"
    LLM = "llm"


class SubjectKind(StrEnum):
    """The kind of subject that was evaluated."""

    TRACE = "trace"
    SESSION = "session"
    TASK = "task"


class Status(StrEnum):
    """The state of an evaluation. All but `SCORED` and `FAILED` are reasons for having no score."""

    SCORED = "scored"
    NOT_APPLICABLE = "not_applicable"
    NO_CONTENT = "no_content"
    NO_JUDGE = "no_judge"
    SAMPLED_OUT = "sampled_out"
    OVER_BUDGET = "over_budget"
    PENDING = "pending"
    FAILED = "failed"


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class _Explained:
    """The reason of an outcome, and its evidence. `coverage` is the share of the expected signals that it rests on."""

    reason: str
    coverage: float | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class Score(_Explained):
    """A value in [0, 1]; higher is better. Raises ValueError for any other value."""

    value: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.value <= 1.0:
            raise ValueError(f"score {self.value!r} is not in [0, 1]")

    @property
    def status(self) -> Status:
        return Status.SCORED


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class Unscored(_Explained):
    """An outcome without a score: the metric is undefined here, or was left out on purpose.

    Aggregation skips it and counts it.
    """

    status: Status


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class Failure(_Explained):
    """The failure of an evaluator itself. `error_type` is one of few values, and `reason` says what happened."""

    error_type: str

    @property
    def status(self) -> Status:
        return Status.FAILED


Outcome: TypeAlias = Score | Unscored | Failure


class JudgedPart(StrEnum):
    """The reason why a session is judged. Rates are computed from sessions that were drawn at random only."""

    RANDOM = "random"
    """The session was drawn at random, by its id."""
    ESCALATED = "escalated"
    """The session is judged because of its findings."""


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The outcome of one evaluator on one revision of one subject, and all that is needed to interpret it.

    `subject_id` is a trace id or a session id. `span_id` is the span that the evaluation event is attached to,
    `trace_id` is that span's trace. `threshold` is None for values that are neither good nor bad by themselves. `part`
    says why the judge is asked, None if it is not. `evaluated_at` is in nanoseconds since the Unix epoch.
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
        """True if the score reaches the threshold; None if there is no score or no threshold."""
        if isinstance(self.outcome, Score) and self.threshold is not None:
            return self.outcome.value >= self.threshold
        return None
