"""Jobs for the judge, and their results."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, NamedTuple, TypeAlias

from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.model import Json
from otel_agenteval.outcome import Evaluation, JudgedPart, Outcome, Status, SubjectKind

PROBABILITY = "probability"
"""Key in the metadata of an outcome of the random part: the probability with which its trace was drawn."""


GOAL_SUCCESS = "goal_success"
"""The judged evaluator of sessions."""

GOAL = "goal"
"""Key in the metadata of a goal success: the user's goal."""

FAILED_TURN = "failed_turn"
"""Key in the metadata of a goal success: the number, from 1, of the first turn that failed; None if none did."""

FAILED_STEP = "failed_step"
"""Key in the metadata of a goal success: the number of that step in the transcript; None if the judge names none."""

FAILED_AGENT = "failed_agent"
"""Key in the metadata of a goal success: the agent that took that step; None if it is not known."""

FAILED_SPAN = "failed_span_id"
"""Key in the metadata of a goal success: the span of that step; None if it is not known."""

PENDING_TRACES = "pending_traces"
"""Key in the metadata of a session's outcome: the number of its traces that wait for the judge, if any do."""


def waits_for_judge(outcome: Outcome) -> bool:
    """Return whether the outcome, or a trace that it rests on, is pending."""
    return outcome.status is Status.PENDING or PENDING_TRACES in outcome.metadata


def drawn_with(outcome: Outcome) -> Mapping[str, Json]:
    """Return the metadata about how the trace was drawn. The outcome that replaces a pending one keeps them."""
    metadata = outcome.metadata
    return {PROBABILITY: metadata[PROBABILITY]} if PROBABILITY in metadata else {}


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class Referral:
    """The outcome of one judged evaluator on a trace, before the judge is asked.

    The judge's answer replaces a pending `outcome`; any other one is final. `model` and `part` are None if the judge
    is not asked.
    """

    name: str
    version: str
    model: str | None
    threshold: float
    outcome: Outcome
    part: JudgedPart | None = None


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class JudgeExchange:
    """One request to the judge and its reply, for `agenteval why`. Redacted like the request itself.

    `reply` is None if none came. `problem` says what was wrong with the reply, or why none came. A `cached` reply
    was given earlier to the same question and cost nothing.
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


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A valid reply of the judge to a question, decoded. `model` and `temperature` are those that the endpoint took."""

    reply: Mapping[str, Any]
    model: str
    temperature: float | None


JobKey: TypeAlias = tuple[SubjectKind, str, bool]


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class JudgeJob:
    """A committed revision of a trace, or of a finished session, that waits for the judge.

    `pending` are its pending outcomes, as stored. `urgent` jobs, of escalated sessions, are judged first. Findings do
    not change the order within the random part: where time or budget is short, it would no longer be random. A
    `recheck` asks about a canary again, to notice whether the judge drifts. For a session, `trace_id` is the session's
    id.
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
        """Key among the jobs that wait. It includes the subject, because a session and a trace may have the same id."""
        return self.subject, self.trace_id, self.recheck


@checked_dataclass(frozen=True, slots=True, kw_only=True)
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
        urgent=any(evaluation.part is JudgedPart.ESCALATED for evaluation in pending),
        pending=tuple(pending),
    )


class BudgetLevel(NamedTuple):
    """One bound of the judge's budget: its name in the settings, what its hour or day has used up, and the most that it
    may."""

    name: str
    used: float
    limit: float


Measure: TypeAlias = Literal["requests", "tokens", "usd"]
"""What a limit of the judge's budget counts."""


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """Requests, tokens and US dollars that were used up. A correction has negative numbers."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0

    def __sub__(self, other: "Spend") -> "Spend":
        return Spend(**{field.name: getattr(self, field.name) - getattr(other, field.name) for field in fields(self)})

    def of(self, measure: Measure) -> float:
        """Return the part that a limit on this measure counts."""
        match measure:
            case "requests":
                return self.requests
            case "tokens":
                return self.input_tokens + self.output_tokens
            case "usd":
                return self.usd


class SpendLimit(NamedTuple):
    """A limit on what is spent from the beginning of the hour `since` (from the Unix epoch, UTC).

    What was spent, together with `beside`, may be `most`.
    """

    since: int
    measure: Measure
    beside: float
    most: float


class Exceeded(NamedTuple):
    """The limit that leaves no room, by its place among those that were given, and what was spent of it."""

    place: int
    spent: float


def exceeded(limits: Sequence[SpendLimit], spent_since: Callable[[int], Spend]) -> Exceeded | None:
    """Return the first limit that what was spent would exceed. Return None if there is room under all."""
    for place, limit in enumerate(limits):
        spent = spent_since(limit.since).of(limit.measure)
        if spent + limit.beside > limit.most:
            return Exceeded(place, spent)
    return None


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class Rejudging:
    """The number of traces that wait for the judge after somebody asked to judge again, and whether there are more."""

    traces: int
    more: bool


def lot(subject_id: str) -> bytes:
    """Draw the lot of a trace or session: random from one id to the next, and always the same for one id."""
    # Recorded ids may hold lone surrogates, which cannot be encoded otherwise.
    return hashlib.sha256(subject_id.encode(errors="surrogatepass")).digest()
