"""The JSON documents of traces, their spans, and sessions (docs/api.md). Pages, commands and users see no other shape.

Times are RFC 3339 in UTC. None is null: there is no value, or it is not known.
"""

from typing import Any, Final, Literal, NotRequired, TypeAlias, final

# Pydantic makes the description of the API from these; before Python 3.12 it cannot from those of `typing`.
from typing_extensions import TypedDict

from agenteval_collector.serve.api.answers import Interval, Listing

JUDGE_TROUBLE: Final = "judge_trouble"
"""The key, in the metadata of an outcome that waits for the judge, under which the judge's trouble stands."""

Worst: TypeAlias = Literal["error", "warning", "info", "none"]
TraceStatus: TypeAlias = Literal["running", "pending", "scored", "failed", "unscored"]
SessionStatus: TypeAlias = Literal["running", "active", "idle", "ended"]


CallOutcomeName: TypeAlias = Literal[
    "worked", "failed", "verdict", "nothing", "refused", "cancelled", "waiting", "unknown"
]


class CallDocument(TypedDict):
    """A tool call. `arguments` are decoded JSON, or the raw text if it cannot be decoded.

    `outcome` says what came of the call, and `told_by` what tells so; `error` is None unless the call failed.
    """

    name: str
    agent: str | None
    arguments: Any
    result: Any
    error: str | None
    outcome: CallOutcomeName
    told_by: str | None
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
    """Says how much of each sort of content was recorded; null if there was nothing to record."""

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


class LabelItem(LabelDocument):
    """A label in a listing: it is about a trace, or else about a session."""

    trace_id: str | None
    session_id: str | None


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


class CauseDocument(TypedDict):
    """The first decisive step of what went wrong. `turn` counts from 0 within the trace; `told_by` is the kind of
    finding that shows it, `unsaid_figures`, or `goal_success` if the judge says it. Null if it is not known."""

    trace_id: str | None
    span_id: str | None
    turn: int | None
    agent: str | None
    what: str
    told_by: str


class UsageDocument(TypedDict):
    """The tokens and the money of a trace or a session, part by part; null if it was not recorded.

    `input` is what was sent afresh, `output` has the tokens of `reasoning` in it. `embedding` is what embedding models
    were sent. `other` are tokens of other modalities than text, which are in the others too. `cost_source`: `billed` if
    most of the money is from providers' own bills, `priced` if it is from price lists. `is_lower_bound`: a part is not
    known.
    """

    input: int | None
    cache_read: int | None
    cache_write: int | None
    output: int | None
    reasoning: int | None
    embedding: int | None
    other: dict[str, int]
    cost_usd: float | None
    cost_source: Literal["billed", "priced"] | None
    is_lower_bound: bool


class EffortDocument(TypedDict):
    """The effort of a trace or a session: model and tool calls, tokens, seconds in its turns, US dollars. Null if
    part of it is not known."""

    steps: float | None
    tokens: float | None
    seconds: float | None
    usd: float | None


class UnknownSpansDocument(TypedDict):
    """Spans of one instrumentation scope that are not understood, and the facts that their attributes look like."""

    scope: str
    spans: int
    looks_like: list[str]


class TraceDocument(TypedDict):
    """A trace with its outcomes."""

    trace_id: str
    session_id: str
    user_id: str | None
    service: str | None
    environment: str | None
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
    usage: UsageDocument | None
    outcomes: list[OutcomeDocument]
    labels: list[LabelDocument]
    findings: list[FindingDocument]
    findings_count: SeverityCounts
    worst: Worst
    cause: CauseDocument | None
    seen: SeenDocument
    open_spans: list[OpenSpanDocument]
    not_understood: list[UnknownSpansDocument]
    status_reason: str | None
    names_session: bool
    continues_turn: bool
    turn_goes_on: bool


class SessionFields(TypedDict):
    """The fields of a session, in a listing and by itself. Its agent runs in `service`; `services` are all of it."""

    session_id: str
    user_id: str | None
    agent: str | None
    service: str | None
    services: list[str]
    versions: list[str]
    environment: str | None
    status: SessionStatus
    status_reason: str | None
    started_at: str | None
    last_seen_at: str | None
    effort: EffortDocument
    usage: UsageDocument
    blind: bool
    running_traces: list[str]
    outcomes: list[OutcomeDocument]
    flagged_traces: list[str]
    judged_failures: int
    findings: list[FindingDocument]
    findings_count: SeverityCounts
    worst: Worst


class PlaceDocument(TypedDict):
    """The reason why a session stands where it stands, in one sentence."""

    reason: str


class AttentionDocument(TypedDict):
    """How good the order by attention is: the number of known ends that it was learnt from (0: too few), and its
    cross-validated AUROC (0.5 is no better than chance) and precision among the first 20; null while nothing is learnt.
    """

    learnt_from: int
    auroc: float | None
    precision_at_20: float | None


@final
class SessionItem(SessionFields):
    """A session in a listing. `attention` is null unless the order is by attention."""

    trace_count: int
    attention: PlaceDocument | None


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
    cause: CauseDocument | None
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
    """The failure rate of sessions; `rate` and its 95 % interval are null if there are none."""

    sessions: int
    failed: int
    rate: float | None
    interval: Interval | None


class HitRateDocument(TypedDict):
    """Failure rates of an agent's sessions, with an error finding and without one."""

    with_error: FailureRateDocument
    without_error: FailureRateDocument


class SessionPage(Listing[SessionItem]):
    """A page of sessions; it has `hit_rate` if one agent was asked for, and `attention` if also the order is that."""

    hit_rate: NotRequired[HitRateDocument | None]
    attention: NotRequired[AttentionDocument]


RoleName: TypeAlias = Literal["agent", "workflow", "chain", "model", "tool", "plan", "retrieval"]


class SpanFields(TypedDict):
    """The fields of a span, in a listing and by itself.

    `parent_id` is null if the parent is not among the trace's spans. `depth` counts the spans around it, `below`
    those under it. `agent` is the agent that the span itself names. `role` and what follows from it are null if no
    dialect recognises the span. `usd` is null if the price or the tokens are not known.
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
    """A tool call that a message requests; `arguments` are decoded JSON, or the raw text if it cannot be decoded."""

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


class LinkDocument(TypedDict):
    """A span that another one names beside its parent, often one of another trace that it goes on from."""

    trace_id: str
    span_id: str
    attributes: dict[str, Any]


@final
class SpanDocument(SpanFields):
    """A span by itself. `input` and `output` are the messages of a model call, or the question and the answer of an
    agent; null if none were recorded. `attributes` are all that were recorded, messages included."""

    instructions: Any
    input: list[MessageDocument] | None
    output: list[MessageDocument] | None
    arguments: Any
    result: Any
    scope: str
    attributes: dict[str, Any]
    resource: dict[str, Any]
    events: list[EventDocument]
    links: list[LinkDocument]


class SpanPage(Listing[SpanItem]):
    """A page of a trace's spans, parents before children. `span_count` is null if the spans were forgotten: the log
    keeps them for `log.retention`, while scores and findings stay."""

    span_count: int | None
