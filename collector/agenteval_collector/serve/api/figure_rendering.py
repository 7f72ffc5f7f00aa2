"""Make the documents of figures: of sessions, of agents over time and over runs, of problems, and of evaluators."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, Literal
from urllib.parse import quote

from agenteval_collector.figures.assembled_run import AssembledRun
from agenteval_collector.figures.hit_rate import HitRate
from agenteval_collector.figures.version_reports import VersionComparison, VersionReport
from agenteval_collector.model.agents import (
    HOUR,
    AgentFigures,
    AgentHistory,
    AgentKey,
    Range,
    SeenAgent,
    Traffic,
    quantile,
)
from agenteval_collector.model.alarms import AgentAlarm
from agenteval_collector.model.labelled_scores import LabelledEvaluator
from agenteval_collector.model.pass_rates import VersionRate
from agenteval_collector.model.problem import Problem, ProblemState
from agenteval_collector.model.running_traces import RunningTrace
from agenteval_collector.model.trace_view import TraceView
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.runtime.times import in_calendar, rfc3339
from agenteval_collector.serve.api import figure_documents, trace_documents
from agenteval_collector.serve.api.document import document
from agenteval_collector.stores.snapshot import Snapshot
from otel_agenteval import metrics
from otel_agenteval.finding import Severity
from otel_agenteval.metrics.agreement import Half, agreement
from otel_agenteval.metrics.conversation_correctness import DEFAULT_THRESHOLD
from otel_agenteval.metrics.pass_k import Estimator
from otel_agenteval.metrics.wilson import Clusters, clustered_interval
from otel_agenteval.outcome import Status, SubjectKind

MOST_SCOPES: Final = 8
"""Scopes of a service whose spans are shown as not understood."""
NEWEST: Final = 500
"""The newest traces that `/api/v1/arrivals` counts."""
MOST_SERVICES: Final = 10
"""Services with an agent of one name that an error names."""
MAX_K: Final = 10
"""pass@k and pass^k of a session are given for k up to this number and the number of interactions."""

WORST: Final = 5
"""The most tasks that are listed below a figure, and the most runs that are listed with a violation."""

BY_TASK: Final = ("success_rate", "C_out", "C_traj_d", "C_traj_s", "C_conf", "C_res")
_PUT_OFF: Final = (ProblemState.MUTED, ProblemState.RESOLVED)
_DIGITS: Final = 6
"""Decimals of sums of money and time, without the rounding error of floats."""
ESTIMATORS: Final[tuple[Estimator, ...]] = ("plugin", "unbiased")


def interactions_document(correctness: Sequence[bool]) -> trace_documents.InteractionsDocument | None:
    """Return pass@k and pass^k over the interactions of a session, by both estimators and the Beta posterior; None
    without an interaction.

    An interaction is a trace with ground truth. It is correct if all that ground truth says of it holds: the expected
    tools and the expected answer, each from its evaluator's threshold on. `threshold` is the published one of answers.
    """
    if not correctness:
        return None
    n, c = len(correctness), sum(correctness)
    ks = range(1, min(n, MAX_K) + 1)
    return {
        "interactions": n,
        "correct": c,
        "threshold": DEFAULT_THRESHOLD,
        "conversation_correct": c == n,
        "pass_at_k": {
            estimator: {str(k): metrics.pass_at_k(n, c, k, estimator) for k in ks} for estimator in ESTIMATORS
        },
        "pass_hat_k": {
            estimator: {str(k): metrics.pass_hat_k(n, c, k, estimator) for k in ks} for estimator in ESTIMATORS
        },
        "posterior": {
            str(k): document(trace_documents.PosteriorDocument, metrics.pass_k_posterior(n, c, k)) for k in ks
        },
    }


def hit_rate_document(found: HitRate) -> trace_documents.HitRateDocument:
    """Return failure rates of an agent's sessions with an error finding and without one."""
    return {
        "with_error": document(trace_documents.FailureRateDocument, found.with_error),
        "without_error": document(trace_documents.FailureRateDocument, found.without_error),
    }


def agreement_document(evaluator: LabelledEvaluator) -> figure_documents.AgreementDocument:
    """Return the agreement of an evaluator's scores with labels."""
    found = agreement(evaluator.scores)
    older, newer = map(_half, found.halves or (None, None))
    return document(
        figure_documents.AgreementDocument,
        found,
        name=evaluator.name,
        method=evaluator.method,
        evaluator_version=evaluator.version,
        model=evaluator.model,
        source=evaluator.source,
        labels=found.n,
        labelled_by=[document(figure_documents.LabellerDocument, labeller) for labeller in evaluator.labelled_by],
        older=older,
        newer=newer,
    )


def _half(half: Half | None) -> figure_documents.HalfDocument | None:
    if half is None:
        return None
    return document(
        figure_documents.HalfDocument, half, labels=half.n, first=rfc3339(half.first), last=rfc3339(half.last)
    )


def quality_document(found: VersionRate) -> figure_documents.QualityDocument:
    """Return the pass rate of an agent's version by an evaluator."""
    return document(
        figure_documents.QualityDocument,
        found.rate,
        **found.rated._asdict(),
        models=list(found.models),
        unscored=found.unscored,
        by_judge=found.by_judge
        and document(
            figure_documents.JudgeRateDocument,
            found.by_judge.rate,
            judged=found.by_judge.judged,
            guessed=found.by_judge.guessed,
            auroc=found.by_judge.auroc,
            uncertain=list(found.by_judge.uncertain),
        ),
    )


def reliability_document(found: VersionReport) -> figure_documents.ReliabilityDocument:
    """Return an item of `/api/v1/reliability`."""
    version, report = found.runs, found.report
    return document(
        figure_documents.ReliabilityDocument,
        report,
        **version.whose._asdict(),
        tasks=report.counts["tasks"],
        runs=report.counts["runs"],
        window=found.window,
        estimator="unbiased",
        estimated={
            "outcomes": sum(run.outcome_estimated for run in version.runs),
            "confidences": sum(run.confidence_estimated for run in version.runs),
        },
        without_confidence=Counter(run.no_confidence for run in version.runs if run.no_confidence),
        left_out={**version.left_out, **found.unmatched},
        worst_tasks={name: _worst(report, name) for name in BY_TASK},
        safety=_safety(version.runs),
    )


def comparison_document(compared: VersionComparison) -> figure_documents.ComparisonDocument:
    """Return the answer of `/api/v1/reliability/comparison`."""
    comparison = compared.comparison
    return document(
        figure_documents.ComparisonDocument,
        compared,
        variant=comparison.variant,
        primary=comparison.primary,
        tasks=comparison.tasks,
        runs={"before": comparison.runs_before, "after": comparison.runs_after},
        figures={
            name: document(figure_documents.ComparedFigureDocument, figure)
            for name, figure in comparison.figures.items()
        },
    )


def _worst(report: metrics.ReliabilityReport, name: str) -> list[figure_documents.TaskFigure]:
    """Return the tasks furthest below the mean over tasks, worst first; of equals, the one with more runs first."""
    values = {task: (facts[name], facts["runs"]) for task, facts in report.by_task.items() if facts[name] is not None}
    if not values:
        return []
    mean = sum(value or 0.0 for value, _ in values.values()) / len(values)
    below = [
        (value, -(runs or 0), task) for task, (value, runs) in values.items() if value is not None and value < mean
    ]
    return [{"task_id": task, "value": value, "runs": int(-runs)} for value, runs, task in sorted(below)[:WORST]]


def _safety(runs: Sequence[AssembledRun]) -> figure_documents.SafetyDocument:
    """Return the basis of the safety figures: the judge, or exact detectors, which find only what they look for."""
    judged = sum(run.judged for run in runs)
    analysed = sum(item.run.violations is not None for item in runs)
    method: Literal["exact", "llm", "mixed"] = "mixed"
    if judged in (0, analysed):
        method = "llm" if judged else "exact"
    violated = sorted((run for run in runs if run.evidence), key=lambda run: run.trace_ids)
    constraints = Counter(name for run in violated for name in {violation.constraint for violation in run.evidence})
    return {
        "method": method if analysed else None,
        "judged_runs": judged,
        "violated_runs": dict(sorted(constraints.items())),
        "examples": [
            document(
                figure_documents.ViolatedRun,
                violating.run,
                trace_ids=list(violating.trace_ids),
                violations=[
                    document(figure_documents.ViolationDocument, violation) for violation in violating.evidence
                ],
            )
            for violating in violated[:WORST]
        ],
    }


def overview_document(
    snapshot: Snapshot, chosen: Range, environment: str | None, *, now: int
) -> figure_documents.OverviewDocument:
    """Return what all agents do together."""
    first = chosen.first(now)
    found = snapshot.overview(first * chosen.step, chosen.step, environment)
    return {
        **_range(chosen, now),
        **_traffic(found.total),
        "environment": environment,
        "environments": snapshot.environments(),
        "seconds": {"p50": quantile(found.steps, 0.5), "p95": quantile(found.steps, 0.95)},
        "points": [
            {**_traffic(found.points.get(point, Traffic())), "at": in_calendar(point * chosen.step * HOUR)}
            for point in range(first, first + chosen.points)
        ],
        "deploys": [
            {
                "agent": deploy.key.agent or "",
                "service": deploy.key.service,
                "version": deploy.version,
                "before": deploy.before,
                "first_at": in_calendar(deploy.began * HOUR),
                "errors": _share(deploy.errors, deploy.traces),
                "errors_before": _share(deploy.errors_before, deploy.traces_before),
            }
            for deploy in found.deploys
        ],
    }


def _traffic(found: Traffic) -> figure_documents.TrafficDocument:
    return {
        "traces": found.traces,
        "sessions": found.sessions,
        "errors": _share(found.errors, found.traces),
        "usd": round(found.usd, _DIGITS) if found.priced else None,
        "unpriced": found.traces - found.priced,
    }


def _share(count: int, traces: int) -> figure_documents.ShareDocument:
    return {"traces": traces, "count": count, "rate": count / traces if traces else None}


def agent_page(
    snapshot: Snapshot, chosen: Range, environment: str | None, *, now: int, limit: int, cursor: str | None
) -> figure_documents.AgentPage:
    """Return a page of agents, newest telemetry first. Raises InvalidRequest for a foreign cursor."""
    page = snapshot.agents(cursor, limit, environment)
    items = _items(snapshot, page.items, chosen, environment, now)
    return {**_range(chosen, now), "items": items, "next_cursor": page.next_cursor}


def agent_document(
    snapshot: Snapshot, agent: str, service: str | None, chosen: Range, environment: str | None, *, now: int
) -> figure_documents.AgentDocument | None:
    """Return an agent; None if it is unknown. Raises InvalidRequest if several services have an agent of this name, and
    `service` is none of them."""
    known = snapshot.agent(agent)
    seen = [one for one in known if service in (None, one.service)]
    if not seen:
        return None
    if len(seen) > 1:
        names = ", ".join(repr(one.service or "") for one in seen[:MOST_SERVICES])
        raise InvalidRequest(f"several services have an agent {agent[:200]!r}: {names}; give service")
    [item] = _items(snapshot, seen, chosen, environment, now)
    return {**_range(chosen, now), **item}


def _items(
    snapshot: Snapshot, agents: Sequence[SeenAgent], chosen: Range, environment: str | None, now: int
) -> list[figure_documents.AgentItem]:
    first, problems = chosen.first(now), _open_problems(snapshot, now)
    since = first * chosen.step
    histories = [snapshot.agent_history(seen.key, since, chosen.step, environment) for seen in agents]
    return [
        {
            **_figures(history.total),
            "agent": versioned.agent,
            "service": versioned.service,
            "last_seen_at": in_calendar(versioned.last_seen_at),
            "problems": problems.get(versioned.key, {"error": 0, "warning": 0}),
            "versions": _versions(history),
            "points": [_point(history, first + number, chosen.step) for number in range(chosen.points)],
        }
        for versioned, history in zip(agents, histories, strict=True)
    ]


def _open_problems(snapshot: Snapshot, now: int) -> dict[AgentKey, figure_documents.OpenProblemsDocument]:
    found: dict[AgentKey, figure_documents.OpenProblemsDocument] = {}
    for state, severity, agent, count in snapshot.problem_counts(now):
        if state not in _PUT_OFF:
            counts = found.setdefault(agent, {"error": 0, "warning": 0})
            counts["error" if severity is Severity.ERROR else "warning"] += count
    return found


def _range(chosen: Range, now: int) -> figure_documents.RangeDocument:
    return {"range": chosen.value, "since": in_calendar(chosen.since(now)), "step_seconds": chosen.step * 3600}


def _point(history: AgentHistory, number: int, step: int) -> figure_documents.PointDocument:
    return {**_figures(history.points.get(number, AgentFigures())), "at": in_calendar(number * step * HOUR)}


def _versions(history: AgentHistory) -> list[figure_documents.AgentVersionDocument]:
    """Return the versions, newest beginning first."""
    newest_first = sorted(history.versions, key=lambda version: (history.began[version], version), reverse=True)
    return [
        {
            **_figures(history.versions[version]),
            "version": version or None,
            "first_at": in_calendar(history.began[version] * HOUR),
        }
        for version in newest_first
    ]


def _figures(found: AgentFigures) -> figure_documents.FiguresDocument:
    together = found.hours_per_session
    usd = round(found.usd, _DIGITS) if found.priced else None
    return {
        "sessions": found.sessions,
        "errors": _rate(found.errors, together),
        "pass_rates": {name: _rate(sums, together) for name, sums in sorted(found.rates.items())},
        "usd": usd,
        "usd_per_session": None if usd is None else round(usd / found.sessions, _DIGITS),
        "unpriced": found.errors.trials - found.priced,
        "seconds": {"p50": quantile(found.steps, 0.5), "p95": quantile(found.steps, 0.95)},
    }


def _rate(sums: Clusters, together: float) -> figure_documents.RateDocument:
    interval = clustered_interval(sums, together)
    return {
        "traces": sums.trials,
        "count": sums.hits,
        "rate": sums.hits / sums.trials if sums.trials else None,
        "interval": None if interval is None else list(interval),
    }


def problem_document(
    problem: Problem, cause: figure_documents.ProblemCauseDocument | None = None
) -> figure_documents.ProblemDocument:
    """Return a problem as the API shows it. A `cause` that is given replaces its own."""
    key, own = problem.key, problem.cause
    if cause is None and own is not None:
        cause = document(figure_documents.ProblemCauseDocument, own)
    return document(
        figure_documents.ProblemDocument,
        problem,
        problem_id=key.problem_id,
        agent=key.agent,
        service=key.service,
        title=key.title,
        kind=key.kind,
        tool=key.tool,
        merged=list(problem.merged),
        split_from=key.split_from,
        first_seen=rfc3339(problem.first_seen),
        last_seen=rfc3339(problem.last_seen),
        usd=round(problem.usd, _DIGITS),
        seconds=round(problem.seconds, _DIGITS),
        cause=cause,
        followed=[{"kind": kind, "traces": traces} for kind, traces in problem.followed.items()],
        muted_until=rfc3339(problem.muted_until),
    )


def alarm_document(alarm: AgentAlarm) -> figure_documents.AlarmDocument:
    """Return an alarm as the API shows it."""
    watched = alarm.key.watched
    return document(
        figure_documents.AlarmDocument,
        alarm,
        kind=str(alarm.key.kind),
        **watched._asdict(),
        since=rfc3339(alarm.since),
        until=rfc3339(alarm.until),
        link=_alarm_link(alarm),
    )


def _alarm_link(alarm: AgentAlarm) -> str:
    """Return the page that shows most of an alarm."""
    if alarm.problem_id is not None:
        return f"/problems/{alarm.problem_id}"
    agent = alarm.key.watched.agent
    return "/sessions" if agent is None else f"/agents/{quote(agent.encode(errors='replace'), safe='')}"


def arrivals(snapshot: Snapshot, running: Iterable[RunningTrace]) -> list[figure_documents.ArrivalDocument]:
    """Return what has arrived from each service, the one seen last first."""
    views: dict[str | None, list[tuple[int, TraceView]]] = {}
    for seen_at, view in snapshot.newest_traces(NEWEST):
        views.setdefault(view.service, []).append((seen_at, view))
    open_traces = [trace.service for trace in running]
    services = [*views, *(fromkey for fromkey in dict.fromkeys(open_traces) if fromkey not in views)]
    return [_arrival(snapshot, service, views.get(service, []), open_traces.count(service)) for service in services]


def _not_understood(views: Iterable[TraceView]) -> list[trace_documents.UnknownSpansDocument]:
    """Return the spans of traces that are not understood by scope, the scope with most of them first."""
    spans: Counter[str] = Counter()
    looks: defaultdict[str, set[str]] = defaultdict(set)
    for unknown in (unknown for view in views for unknown in view.not_understood):
        spans[unknown.scope] += unknown.spans
        looks[unknown.scope].update(unknown.looks_like)
    return [
        {"scope": scope, "spans": count, "looks_like": sorted(looks[scope])}
        for scope, count in spans.most_common(MOST_SCOPES)
    ]


def _arrival(
    snapshot: Snapshot, service: str | None, agents_seen: Sequence[tuple[int, TraceView]], running: int
) -> figure_documents.ArrivalDocument:
    genai = [view for _, view in agents_seen if any(not turn.is_orphan for turn in view.turns)]
    silent = [view for view in genai if not any(turn.input or turn.output for turn in view.turns)]
    return {
        "service": service,
        "last_seen_at": rfc3339(max((at for at, _ in agents_seen), default=None)),
        "traces": len(agents_seen),
        "genai": len(genai),
        "with_content": len(genai) - len(silent),
        "with_session": sum(view.names_session for view in genai),
        "running": running,
        "content_switch": _switch(snapshot, silent[0].trace_id) if silent else None,
        "not_understood": _not_understood(view for _, view in agents_seen),
    }


def _switch(snapshot: Snapshot, trace_id: str) -> str | None:
    """Return how to record content, as the outcomes of a trace without content say it behind their reason."""
    for evaluation in snapshot.evaluations(SubjectKind.TRACE, [trace_id])[trace_id]:
        outcome = evaluation.outcome
        if outcome.status == Status.NO_CONTENT and (switch := outcome.reason.partition("; ")[2]):
            return switch
    return None
