"""The JSON documents of the API, as docs/api.md describes them: the only shape that page, command line and users see.

Times are RFC 3339 in UTC. None is null, and means that there is none or that it is not known.
"""

from collections.abc import Sequence
from typing import Any, Final, Generic, Literal, NotRequired, TypeAlias, TypeVar, final

# Pydantic makes the description of the API from these; before Python 3.12 it cannot from those of `typing`.
from typing_extensions import TypedDict

JUDGE_TROUBLE: Final = "judge_trouble"
"""The key, in the metadata of an outcome that waits for the judge, of what is wrong with the judge now."""

Item = TypeVar("Item")
Interval: TypeAlias = Sequence[float]
"""The lower and the upper bound, of 95 %."""
Worst: TypeAlias = Literal["error", "warning", "info", "none"]
TraceStatus: TypeAlias = Literal["running", "pending", "scored", "failed", "unscored"]
SessionStatus: TypeAlias = Literal["running", "active", "idle", "ended"]


class Listing(TypedDict, Generic[Item]):
    """A page of a listing; `next_cursor` leads to the next one, and is null on the last."""

    items: list[Item]
    next_cursor: str | None


class CallDocument(TypedDict):
    """A call of a tool; `arguments` are decoded JSON, or the raw text where it is none."""

    name: str
    arguments: Any
    result: Any
    error: str | None
    span_id: str | None


class TurnDocument(TypedDict):
    """A turn of a conversation."""

    input: str | None
    output: str | None
    tools_called: list[CallDocument]
    error: str | None


class ToolDocument(TypedDict):
    """A tool that the agent could have called."""

    name: str


class ClosingDocument(TypedDict):
    """The reason why a trace was taken for complete, and what is known of the senders that it waited for."""

    by: str
    reason: str
    senders: list[str]


FactName: TypeAlias = Literal["answers", "arguments", "results", "finish_reasons", "history"]


class SeenDocument(TypedDict):
    """For each sort of fact, how much of it was recorded; null where there was nothing to see."""

    answers: str | None
    arguments: str | None
    results: str | None
    finish_reasons: str | None
    history: str | None


class OpenSpanDocument(TypedDict):
    """A span that has begun and not ended."""

    span_id: str
    name: str
    started_at: str | None


class OutcomeDocument(TypedDict):
    """The outcome of an evaluator on a trace or a session."""

    name: str
    status: str
    score: float | None
    success: bool | None
    threshold: float | None
    reason: str | None
    error_type: str | None
    method: str
    coverage: float | None
    evaluator_version: str
    model: str | None
    part: str | None
    metadata: dict[str, Any]


class LabelDocument(TypedDict):
    """A label: the score that somebody says is right; `source` is person, user or evaluator."""

    name: str
    value: float
    source: str
    author: str | None
    note: str | None
    labelled_at: str | None


class FindingDocument(TypedDict):
    """A fact that was observed."""

    kind: str
    severity: str
    turn: int | None
    span_id: str | None
    agent: str | None
    tool: str | None
    reason: str
    metadata: dict[str, Any]
    found_at: str | None
    mode: str | None
    trace_id: str


class SeverityCounts(TypedDict):
    """The number of findings of each severity."""

    error: int
    warning: int
    info: int


class FoundDocument(TypedDict):
    """The fields that say what was found: a trace and a session have them too."""

    findings: list[FindingDocument]
    findings_count: SeverityCounts
    worst: Worst


class EffortDocument(TypedDict):
    """The effort of a trace or a session: model and tool calls, tokens, seconds of its turns, US dollars; null where a
    part of it is not known."""

    steps: float | None
    tokens: float | None
    seconds: float | None
    usd: float | None


class TraceDocument(TypedDict):
    """A trace with its outcomes."""

    trace_id: str
    session_id: str
    user_id: str | None
    service: str | None
    agent: str | None
    agents: list[str]
    input: str | None
    output: str | None
    turns: list[TurnDocument]
    complete: bool
    partial: bool
    closing: ClosingDocument | None
    waits_for: list[str]
    revision: int
    status: TraceStatus
    started_at: str | None
    ended_at: str | None
    span_count: int
    tools_called: list[CallDocument]
    available_tools: list[ToolDocument]
    model_calls: int
    effort: EffortDocument | None
    outcomes: list[OutcomeDocument]
    labels: list[LabelDocument]
    findings: list[FindingDocument]
    findings_count: SeverityCounts
    worst: Worst
    seen: SeenDocument
    open_spans: list[OpenSpanDocument]
    status_reason: str | None
    names_session: bool
    continues_turn: bool
    turn_goes_on: bool


class SessionFields(TypedDict):
    """The fields that a session has in a listing and by itself."""

    session_id: str
    user_id: str | None
    agent: str | None
    services: list[str]
    versions: list[str]
    status: SessionStatus
    status_reason: str | None
    started_at: str | None
    last_seen_at: str | None
    effort: EffortDocument
    blind: bool
    running_traces: list[str]
    outcomes: list[OutcomeDocument]
    flagged_traces: list[str]
    judged_failures: int
    findings: list[FindingDocument]
    findings_count: SeverityCounts
    worst: Worst


@final
class SessionItem(SessionFields):
    """A session in a listing, with the worst of its findings."""

    trace_count: int


class TrendDocument(TypedDict):
    """The course of the judged task completion of a session's traces."""

    stalled: bool | None
    regressed: bool | None
    best: float | None
    last: float | None
    evaluated: int
    skipped: int
    reason: str


class PosteriorDocument(TypedDict):
    """The means and the intervals (of `level`) of pass@k and pass^k by the Beta posterior."""

    pass_at_k: float | None
    pass_hat_k: float | None
    pass_at_k_interval: Interval | None
    pass_hat_k_interval: Interval | None
    level: float
    reason: str


class InteractionsDocument(TypedDict):
    """The number of a session's interactions that are correct by ground truth; chances by estimator and k."""

    interactions: int
    correct: int
    threshold: float
    conversation_correct: bool
    pass_at_k: dict[str, dict[str, float | None]]
    pass_hat_k: dict[str, dict[str, float | None]]
    posterior: dict[str, PosteriorDocument]


@final
class SessionDocument(SessionFields):
    """A session by itself."""

    trace_ids: list[str]
    turn_traces: list[list[str]]
    signals: dict[str, dict[str, float]]
    labels: list[LabelDocument]
    trend: TrendDocument | None
    interactions: InteractionsDocument | None


class ExchangeDocument(TypedDict):
    """A question to the judge with its answer."""

    question: str
    version: str
    model: str
    asked_at: str | None
    instructions: str
    data: str
    reply: str | None
    problem: str | None
    input_tokens: int | None
    output_tokens: int | None
    usd: float | None
    seconds: float | None
    cached: bool


class FailureRateDocument(TypedDict):
    """The failure rate of sessions; `rate` and its 95 % interval are null where there are none."""

    sessions: int
    failed: int
    rate: float | None
    interval: Interval | None


class HitRateDocument(TypedDict):
    """The failures among an agent's sessions with an error finding, and among those without one."""

    with_error: FailureRateDocument
    without_error: FailureRateDocument


class EstimatedDocument(TypedDict):
    """The numbers of runs whose outcome or confidence was not reported."""

    outcomes: int
    confidences: int


class TaskFigure(TypedDict):
    """A task that drags a figure down."""

    task_id: str
    value: float
    runs: int


class ViolationDocument(TypedDict):
    """A constraint that was broken, how badly, and what shows it."""

    constraint: str
    severity: str
    evidence: str


class ViolatedRun(TypedDict):
    """A run that broke constraints."""

    task_id: str
    run_id: str
    trace_ids: list[str]
    violations: list[ViolationDocument]


class SafetyDocument(TypedDict):
    """The basis of the figures of safety; `violated_runs` by constraint."""

    method: Literal["exact", "llm", "mixed"] | None
    judged_runs: int
    violated_runs: dict[str, int]
    examples: list[ViolatedRun]


class ReliabilityDocument(TypedDict):
    """The figures over the runs of one agent's version."""

    agent: str | None
    version: str | None
    variant: str
    tasks: int
    runs: int
    window: int
    estimator: Literal["unbiased"]
    metrics: dict[str, float | None]
    intervals: dict[str, Interval | None]
    pass_at_k: dict[str, float]
    pass_hat_k: dict[str, float]
    reasons: dict[str, str]
    coverage: dict[str, float | None]
    parts: dict[str, list[str]]
    tasks_used: dict[str, int]
    counts: dict[str, int]
    estimated: EstimatedDocument
    without_confidence: dict[str, int]
    left_out: dict[str, int]
    worst_tasks: dict[str, list[TaskFigure]]
    safety: SafetyDocument


class ComparedFigure(TypedDict):
    """A figure of two versions."""

    before: float | None
    after: float | None
    difference: float | None
    interval: Interval | None
    p_value: float | None
    decided: bool | None
    reason: str | None


class ComparedRuns(TypedDict):
    """The runs of two versions."""

    before: int
    after: int


class ComparisonDocument(TypedDict):
    """Two versions of an agent over the tasks that they have in common."""

    agent: str | None
    before: str
    after: str
    variant: str
    primary: str
    tasks: int
    runs: ComparedRuns
    figures: dict[str, ComparedFigure]


class FlipDocument(TypedDict):
    """A trace that the judge passed before and fails now, or the other way round."""

    trace_id: str
    before: float
    after: float
    reason: str


class DriftDocument(TypedDict):
    """The judge's newest answers for one evaluator beside earlier ones on the same traces."""

    name: str
    version: str
    model: str
    was: str
    traces: int
    higher: int
    lower: int
    p_value: float | None
    drifted: bool
    flips: list[FlipDocument]


class SessionPage(Listing[SessionItem]):
    """A page of sessions; `hit_rate` is there where one agent was asked for."""

    hit_rate: NotRequired[HitRateDocument | None]


class ErrorDetail(TypedDict):
    """The code of an error, and a sentence."""

    code: str
    message: str


class ErrorDocument(TypedDict):
    """An error."""

    error: ErrorDetail


class RunName(TypedDict):
    """A run, by what names it."""

    task_id: str
    run_id: str
    condition: str


class ReplayDocument(TypedDict):
    """The results of a replay; `reports_without_traces` are runs of the dataset that no trace belongs to."""

    traces: list[TraceDocument]
    sessions: list[SessionDocument]
    reliability: list[ReliabilityDocument]
    reports_without_traces: list[RunName]


class JudgingDocument(TypedDict):
    """The traces and sessions that wait for the judge by this request; `more`: there was no room for others."""

    traces: int
    more: bool
