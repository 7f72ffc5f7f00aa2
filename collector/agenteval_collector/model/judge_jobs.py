"""Jobs for the judge, and their results."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from otel_agenteval.checked import dataclass
from otel_agenteval.model import Json
from otel_agenteval.outcome import Evaluation, JudgedPart, Outcome, Status, SubjectKind

PROBABILITY = "probability"
"""Key in the metadata of an outcome of the random part. The probability with which its trace was drawn."""


GOAL_SUCCESS = "goal_success"
"""The judged evaluator of sessions."""

GOAL = "goal"
"""Key in the metadata of its score. What the user wanted of the session."""

FAILED_TURN = "failed_turn"
"""Key in the metadata of its score. The number, from 1, of the turn in which it went wrong first; None: in none."""

PENDING_TRACES = "pending_traces"
"""Key in the metadata of a session's outcome. The number of its traces that wait for the judge, where any does."""


def waits_for_judge(outcome: Outcome) -> bool:
    """Return whether the outcome is pending, or rests on traces that are."""
    return outcome.status is Status.PENDING or PENDING_TRACES in outcome.metadata


def drawn_with(outcome: Outcome) -> Mapping[str, Json]:
    """Return what an outcome's metadata say of how its trace was drawn, to be kept in the outcome that replaces it."""
    metadata = outcome.metadata
    return {PROBABILITY: metadata[PROBABILITY]} if PROBABILITY in metadata else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Referral:
    """The outcome of one judged evaluator on a trace, as it stands before the judge is asked.

    A pending `outcome` is replaced by what the judge says; any other one is final. `model` and `part` are None where it
    is not left to the judge.
    """

    name: str
    version: str
    model: str | None
    threshold: float
    outcome: Outcome
    part: JudgedPart | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeExchange:
    """One request to the judge and its reply, for `agenteval why`. Redacted like the request itself.

    `reply` is None where none came, `problem` says what was wrong with it, or why it did not come. `cached` replies
    were given earlier to the same question, and cost nothing.
    """

    question: str
    version: str
    model: str
    asked_at: int
    instructions: str
    data: str
    reply: str | None = None
    problem: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None
    cached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """A valid reply of the judge to a question, as JSON; `model` and `temperature` as the endpoint took them."""

    reply: str
    model: str
    temperature: float | None


JobKey: TypeAlias = tuple[SubjectKind, str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeJob:
    """A committed revision of a trace, or of a session that is over, that waits for the judge.

    `pending` are its outcomes of status pending, as the store holds them; `urgent` ones, of escalated sessions, are
    judged before others. Findings do not change the order within the random part: where time or budget is short, it
    would not be random any more. A `recheck` is of a canary: it was judged before, and is asked about anew only to
    notice whether the judge drifts. Of a session, `trace_id` is its own id.
    """

    subject: SubjectKind = SubjectKind.TRACE
    trace_id: str
    session_id: str
    revision: int
    urgent: bool
    pending: tuple[Evaluation, ...]
    recheck: bool = False

    @property
    def key(self) -> JobKey:
        """Key among the jobs that wait. The subject is part of it, as a session may be called like a trace."""
        return self.subject, self.trace_id, self.recheck


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The result of a job: a final outcome for every pending one, and the exchanges with the judge."""

    job: JudgeJob
    evaluations: tuple[Evaluation, ...]
    exchanges: tuple[JudgeExchange, ...]


def job_of(pending: Sequence[Evaluation]) -> JudgeJob:
    """Return the job for the pending outcomes of one revision of a trace or session."""
    first = pending[0]
    return JudgeJob(
        subject=first.subject,
        trace_id=first.subject_id,
        session_id=first.session_id,
        revision=first.revision,
        urgent=any(each.part is JudgedPart.ESCALATED for each in pending),
        pending=tuple(pending),
    )


class BudgetLevel(NamedTuple):
    """One bound of the judge's budget, by its name in the settings: what is used up in its hour or day, and the most
    that may be."""

    name: str
    used: float
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """The requests, tokens and US dollars that were used up. Parts are negative in a correction."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0

    def __sub__(self, other: "Spend") -> "Spend":
        return Spend(
            requests=self.requests - other.requests,
            input_tokens=self.input_tokens - other.input_tokens,
            output_tokens=self.output_tokens - other.output_tokens,
            usd=self.usd - other.usd,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejudging:
    """The number of traces that wait for the judge after a request to judge them, and whether there are more."""

    traces: int
    more: bool
