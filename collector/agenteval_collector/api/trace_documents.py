"""The JSON documents of traces, their spans, and sessions (docs/api.md). Pages, commands and users see no other shape.

Times are RFC 3339 in UTC. None is null: there is no value, or it is not known.
"""

from typing import Any, Final, Literal, NotRequired, TypeAlias, final

# Pydantic makes the description of the API from these; before Python 3.12 it cannot from those of `typing`.
from typing_extensions import TypedDict

from agenteval_collector.api.answers import Interval, Listing

JUDGE_TROUBLE: Final = "judge_trouble"
"""The key, in the metadata of an outcome that waits for the judge, under which the judge's trouble stands."""

Worst: TypeAlias = Literal["error", "warning", "info", "none"]
TraceStatus: TypeAlias = Literal["running", "pending", "scored", "failed", "unscored"]
SessionStatus: TypeAlias = Literal["running", "active", "idle", "ended"]


class CallDocument(TypedDict):
    """A tool call; `arguments` are decoded JSON, or the raw text where it cannot be decoded."""

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
    """Why a trace was taken for complete, and what is known of the senders that it waited for."""

    by: str
    reason: str
    senders: list[str]


FactName: TypeAlias = Literal["answers", "arguments", "results", "finish_reasons", "history"]


class SeenDocument(TypedDict):
    """Says how much of each sort of content was recorded; null where there was nothing to record."""

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
    """A label: the right score as somebody sees it. `source` is person, user or evaluator."""

    name: str
    value: float
    source: str
    author: str | None
    note: str | None
    labelled_at: str | None


class FindingDocument(TypedDict):
    """A finding: a fact that was observed."""

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
    """The fields about findings, which traces and sessions share."""

    findings: list[FindingDocument]
    findings_count: SeverityCounts
    worst: Worst


class EffortDocument(TypedDict):
    """The effort of a trace or a session: model and tool calls, tokens, seconds in its turns, US dollars. Null where
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
    """The fields of a session, in a listing and by itself."""

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
    """The course of the judged task completion over a session's traces."""

    stalled: bool | None
    regressed: bool | None
    best: float | None
    last: float | None
    evaluated: int
    skipped: int
    reason: str


class PosteriorDocument(TypedDict):
    """Means and intervals (at `level`) of pass@k and pass^k by the Beta posterior."""

    pass_at_k: float | None
    pass_hat_k: float | None
    pass_at_k_interval: Interval | None
    pass_hat_k_interval: Interval | None
    level: float
    reason: str


class InteractionsDocument(TypedDict):
    """Counts the interactions of a session that are correct by ground truth; pass@k and pass^k by estimator and k."""

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
    """Failure rates of an agent's sessions, with an error finding and without one."""

    with_error: FailureRateDocument
    without_error: FailureRateDocument


class SessionPage(Listing[SessionItem]):
    """A page of sessions; it has `hit_rate` where one agent was asked for."""

    hit_rate: NotRequired[HitRateDocument | None]


RoleName: TypeAlias = Literal["agent", "workflow", "chain", "model", "tool", "plan", "retrieval"]


class SpanFields(TypedDict):
    """The fields of a span, in a listing and by itself.

    `parent_id` is null where the parent is not among the trace's spans. `depth` counts the spans around it, `below`
    those under it. `agent` is the agent that the span itself names. `role` and what follows from it are null where no
    dialect recognises the span. `usd` is null where the price or the tokens are not known.
    """

    span_id: str
    parent_id: str | None
    depth: int
    below: int
    name: str
    role: RoleName | None
    agent: str | None
    model: str | None
    tool: str | None
    started_at: str | None
    seconds: float
    input_tokens: int | None
    output_tokens: int | None
    usd: float | None
    error: str | None


@final
class SpanItem(SpanFields):
    """A span in a listing."""


class RequestDocument(TypedDict):
    """A tool call that a message requests; `arguments` are decoded JSON, or the raw text where it cannot be decoded."""

    name: str
    arguments: Any


class MessageDocument(TypedDict):
    """A message as recorded; `results` are tool results that went back to the model."""

    role: str
    text: str | None
    reasoning: list[str]
    requests: list[RequestDocument]
    results: list[Any]


class EventDocument(TypedDict):
    """A span event."""

    name: str
    time: str | None
    attributes: dict[str, Any]


@final
class SpanDocument(SpanFields):
    """A span by itself. `input` and `output` are the messages of a model call, or the question and the answer of an
    agent; null where none were recorded. `attributes` are all that were recorded, messages included."""

    instructions: Any
    input: list[MessageDocument] | None
    output: list[MessageDocument] | None
    arguments: Any
    result: Any
    scope: str
    attributes: dict[str, Any]
    resource: dict[str, Any]
    events: list[EventDocument]


class SpanPage(Listing[SpanItem]):
    """A page of a trace's spans, parents before children. `span_count` is null where the spans were forgotten: the log
    keeps them for `log.retention`, while scores and findings stay."""

    span_count: int | None
