"""The JSON documents of figures: agents over time, problems, pass rates, agreement, reliability over runs."""

from typing import Literal

# Pydantic makes the description of the API from these; before Python 3.12 it cannot from those of `typing`.
from typing_extensions import TypedDict

from agenteval_collector.serve.api.answers import Interval, Listing
from agenteval_collector.serve.api.trace_documents import (
    CauseDocument,
    SessionDocument,
    TraceDocument,
    UnknownSpansDocument,
)


class RateDocument(TypedDict):
    """A share: `count` of `traces`, with its 95 % interval. The interval is null with fewer than two sessions, as
    nothing then tells how the share varies."""

    traces: int
    count: int
    rate: float | None
    interval: Interval | None


class SecondsDocument(TypedDict):
    """Seconds in the turns of a trace: the median and the 95th percentile over traces."""

    p50: float | None
    p95: float | None


class FiguresDocument(TypedDict):
    """Figures over traces. `errors` is the share with an error finding; `pass_rates`, by evaluator, the share that the
    judge passes of those drawn at random. `usd` is null if no price is known; `unpriced` traces have none."""

    sessions: int
    errors: RateDocument
    pass_rates: dict[str, RateDocument]
    usd: float | None
    usd_per_session: float | None
    unpriced: int
    seconds: SecondsDocument


class PointDocument(FiguresDocument):
    """The figures of traces that began between `at` and the next point."""

    at: str


class AgentVersionDocument(FiguresDocument):
    """A version of an agent; `first_at` is the hour in which its first trace began, however long ago."""

    version: str | None
    first_at: str


class OpenProblemsDocument(TypedDict):
    """The number of problems, by severity, that are neither resolved nor muted."""

    error: int
    warning: int


class AgentItem(FiguresDocument):
    """An agent over time. `versions` are newest first by their beginning; `points` are oldest first."""

    agent: str
    service: str | None
    last_seen_at: str
    problems: OpenProblemsDocument
    versions: list[AgentVersionDocument]
    points: list[PointDocument]


class RangeDocument(TypedDict):
    """The period of figures: from `since` up to now, with a point every `step_seconds`."""

    range: Literal["24h", "7d", "30d"]
    since: str
    step_seconds: int


class AgentDocument(AgentItem, RangeDocument):
    """An agent by itself."""


class AgentPage(Listing[AgentItem], RangeDocument):
    """A page of agents."""


class ShareDocument(TypedDict):
    """A share: `count` of `traces`; null if there are none."""

    traces: int
    count: int
    rate: float | None


class TrafficDocument(TypedDict):
    """What all agents did. `errors` is the share of traces with an error finding. `usd` is null if no price is known;
    `unpriced` traces have none."""

    traces: int
    sessions: int
    errors: ShareDocument
    usd: float | None
    unpriced: int


class TrafficPointDocument(TrafficDocument):
    """What all agents did between `at` and the next point."""

    at: str


class DeployDocument(TypedDict):
    """A version whose first trace began in the hour `first_at`. `before` is the version that began before it."""

    agent: str
    service: str | None
    version: str
    before: str | None
    first_at: str
    errors: ShareDocument
    errors_before: ShareDocument


class OverviewDocument(TrafficDocument, RangeDocument):
    """What all agents did together. `points` are oldest first, `deploys` newest first. `environments` are those that
    there are."""

    environment: str | None
    environments: list[str]
    seconds: SecondsDocument
    points: list[TrafficPointDocument]
    deploys: list[DeployDocument]


class ProblemCauseDocument(CauseDocument):
    """The step at which a problem began, in the newest of its traces with the agent and tool that it has most often.
    `traces` counts these traces."""

    tool: str | None
    traces: int


class FollowedDocument(TypedDict):
    """The number of traces in which findings of a kind followed from a problem."""

    kind: str
    traces: int


class ProblemDocument(TypedDict):
    """A failure that recurs, with sums over the traces in which it occurred.

    `kind` is the kind of its findings, or the name of the evaluator that fails the traces. `trend` counts traces by
    hour, the present hour last. `examples` are trace ids, newest first.
    """

    problem_id: str
    agent: str | None
    service: str | None
    title: str
    kind: str
    severity: Literal["error", "warning"]
    tool: str | None
    state: Literal["new", "ongoing", "resolved", "regressed", "muted"]
    first_seen: str
    last_seen: str
    traces: int
    sessions: int
    versions: dict[str, int]
    first_version: str | None
    usd: float
    seconds: float
    trend: list[int]
    examples: list[str]
    cause: ProblemCauseDocument | None
    followed: list[FollowedDocument]
    merged: list[str]
    split_from: str | None
    resolved_at: str | None
    resolved_by: str | None
    muted_until: str | None
    muted_by: str | None


class CommonTraitDocument(TypedDict):
    """A version, environment, user, model, agent or tool of `sessions` of the sessions with a problem, and of `others`
    of those without it. It `stands_out` if chance does not explain that it is more frequent with the problem."""

    kind: Literal["version", "environment", "user", "model", "agent", "tool"]
    value: str
    sessions: int
    others: int
    stands_out: bool


class CommonDocument(TypedDict):
    """What `sessions` sessions with a problem have in common, beside `others` of the agent without it."""

    sessions: int
    others: int
    items: list[CommonTraitDocument]


class AlarmDocument(TypedDict):
    """Something that goes wrong with an agent now, compared with its own past or with an objective.

    `until` is null while it fires. `examples` are trace ids, the first one and then the newest. `link` is an address
    on this server.
    """

    alarm_id: str
    kind: Literal["loop", "problem", "regression", "tool_failing", "failing", "slow", "spend", "silent"]
    agent: str | None
    service: str | None
    environment: str | None
    owner: str | None
    severity: Literal["critical", "warning", "info"]
    state: Literal["firing", "ended", "muted"]
    since: str
    until: str | None
    title: str
    evidence: str
    problem_id: str | None
    examples: list[str]
    link: str


class SplitDocument(TypedDict):
    """A problem after it was split; null if nothing is left in it."""

    problem: ProblemDocument | None


class HalfDocument(TypedDict):
    """The older or the newer half of the scores with a label."""

    labels: int
    first: str | None
    last: str | None
    mean_score: float
    mean_label: float


class LabellerDocument(TypedDict):
    """An author of labels, and the number of traces with a score of the evaluator that they labelled."""

    author: str | None
    labels: int


class AgreementDocument(TypedDict):
    """The agreement of an evaluator's scores with labels."""

    name: str
    method: str
    evaluator_version: str
    model: str | None
    source: str
    labels: int
    labelled_by: list[LabellerDocument]
    metrics: dict[str, float | None]
    intervals: dict[str, Interval]
    reasons: dict[str, str]
    older: HalfDocument | None
    newer: HalfDocument | None


class JudgeRateDocument(TypedDict):
    """The rate at which the judge would pass everything, of which it `judged` a random part and `guessed` are left.

    `interval` uses the guesses, `of_sample` the judged ones alone; both are of 95 % and leave out that the judge errs.
    `trust` says how far guesses count, 0 where they do not help. `auroc` is their cross-validated quality. `uncertain`
    are ids of traces, or sessions, without a verdict of which the guess is least certain."""

    estimate: float
    interval: Interval
    of_sample: Interval
    trust: float
    judged: int
    guessed: int
    auroc: float
    uncertain: list[str]


class QualityDocument(TypedDict):
    """The rate at which an agent's version passes an evaluator. `interval` is for one look, `sequence` holds however
    often one looks; `reason` says why there are none. `unscored` traces were drawn at random, but the judge gave no
    score; `models` are the judge's, newest first. `by_judge` is null where the judge was asked about everything, or
    too little to guess the rest."""

    agent: str | None
    service: str | None
    version: str | None
    name: str
    estimate: float | None
    interval: Interval | None
    sequence: Interval | None
    estimator: Literal["ppi", "labels", "uncorrected"]
    judged: int
    unscored: int
    labelled: int
    models: list[str]
    sensitivity: float | None
    sensitivity_interval: Interval | None
    specificity: float | None
    specificity_interval: Interval | None
    reason: str | None
    by_judge: JudgeRateDocument | None


class DrawDocument(TypedDict):
    """A trace or a session (`trace_id` is null) that was drawn to be labelled. `probability` is the share of those
    with the same verdict of the judge that are labelled, once this one is."""

    subject: Literal["trace", "session"]
    trace_id: str | None
    session_id: str
    name: str
    agent: str | None
    service: str | None
    version: str | None
    probability: float
    judged: int
    labelled: int


class EstimatedDocument(TypedDict):
    """The number of runs whose outcome or confidence was not reported, and is estimated."""

    outcomes: int
    confidences: int


class TaskFigure(TypedDict):
    """A task whose value is below the mean over tasks."""

    task_id: str
    value: float
    runs: int


class ViolationDocument(TypedDict):
    """A broken constraint, its severity and the evidence."""

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
    """The basis of the safety figures; `violated_runs` counts runs by constraint."""

    method: Literal["exact", "llm", "mixed"] | None
    judged_runs: int
    violated_runs: dict[str, int]
    examples: list[ViolatedRun]


class ReliabilityDocument(TypedDict):
    """Figures over the runs of an agent's version."""

    agent: str | None
    service: str | None
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


class ComparedFigureDocument(TypedDict):
    """A figure of two versions."""

    before: float | None
    after: float | None
    difference: float | None
    interval: Interval | None
    p_value: float | None
    decided: bool | None
    reason: str | None


class ComparedRuns(TypedDict):
    """The number of runs of two versions."""

    before: int
    after: int


class ComparisonDocument(TypedDict):
    """Two versions of an agent, compared over the tasks that they share."""

    agent: str | None
    service: str | None
    before: str
    after: str
    variant: str
    primary: str
    tasks: int
    runs: ComparedRuns
    figures: dict[str, ComparedFigureDocument]


class FlipDocument(TypedDict):
    """A trace that the judge passed before and fails now, or the reverse."""

    trace_id: str
    before: float
    after: float
    reason: str


class DriftDocument(TypedDict):
    """The judge's newest scores by one evaluator, compared with earlier scores of the same traces."""

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


class RunNameDocument(TypedDict):
    """The ids of a run."""

    task_id: str
    run_id: str
    condition: str


class CaseDocument(TypedDict):
    """A case of a dataset: the traces of its runs, and the kinds of findings that none of them may have."""

    task_id: str
    trace_ids: list[str]
    forbid: list[str]


class ReplayDocument(TypedDict):
    """The results of a replay; `reports_without_traces` are runs of the dataset without a trace."""

    traces: list[TraceDocument]
    sessions: list[SessionDocument]
    reliability: list[ReliabilityDocument]
    reports_without_traces: list[RunNameDocument]
    cases: list[CaseDocument]


class ArrivalDocument(TypedDict):
    """Counts of a service's traces, among the newest complete ones.

    `genai` traces have GenAI telemetry; of these, `with_content` have an input or an output, and `with_session` a
    session id. `running` traces are not complete. If some have no content, `content_switch` says how the
    instrumentation records it. `not_understood` sums the spans of these traces that no dialect knows, by scope.
    """

    service: str | None
    last_seen_at: str | None
    traces: int
    genai: int
    with_content: int
    with_session: int
    running: int
    content_switch: str | None
    not_understood: list[UnknownSpansDocument]
