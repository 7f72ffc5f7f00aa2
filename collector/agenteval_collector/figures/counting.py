"""The runs that count, and the reports that belong to no run.

A run counts once a report or an attribute gives its outcome. Without one it counts once all its sessions are over.
For each agent's version the `window` runs that began last are looked at, so the cost does not grow with older runs.

Ids of runs repeat: the next version, or another agent, runs the same suite again. Such traces are another run. A trace
that names no agent joins a run that is there. A report belongs to the run that it names. If it does not name enough,
time decides. Both rules use the times at which things happened, not the order of arrival.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, cast

from agenteval_collector.model.runs import (
    AgentVersion,
    JudgedViolation,
    RunKey,
    RunReport,
    RunTrace,
    StoredRun,
    Unmatched,
    UnmatchedReport,
    Violation,
)
from agenteval_collector.stores.access import Snapshots
from agenteval_collector.stores.runs import RunQueries
from otel_agenteval.outcome import Evaluation, JudgedPart, Method, Score, Status, Unscored

TASK_COMPLETION: Final = "task_completion"
CONFIDENCE: Final = "confidence"
SAFETY: Final = "safety"

_Scores: TypeAlias = Mapping[str, Mapping[str, Evaluation]]
"""The outcomes that count, by the evaluator's name and by trace id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGroup:
    """The traces of one run, by start, with its agent and version."""

    whose: AgentVersion
    began: int
    """The start of the agent's first trace, in nanoseconds since the Unix epoch."""
    traces: tuple[RunTrace, ...]

    @property
    def versions(self) -> frozenset[str | None]:
        """The `service.version` of the agent, and of every service that took part."""
        return frozenset((self.whose.version, *(version for trace in self.traces for version in trace.versions)))

    @property
    def senders(self) -> frozenset[str]:
        """The keys that spans of the run came with."""
        return frozenset(sender for trace in self.traces for sender in trace.senders)


class CountedRuns:
    """Finds the runs that count: the newest `window` of each version. As many reports are looked at.

    Thread-safe. Each method may raise Unavailable.
    """

    def __init__(self, store: Snapshots[RunQueries], window: int) -> None:
        self._store = store
        self._window = window

    def revision(self) -> int:
        """Return a number that changes whenever the runs or their reports may have changed."""
        return self._store.revision()

    def versions(self) -> list[AgentVersion]:
        """Return the agents and versions that traces of runs name. Those with the newest trace come first."""
        with self._store.snapshot() as reader:
            return reader.versions()

    def runs(self, version: AgentVersion) -> Sequence[StoredRun]:
        """Return the runs of one agent's version. The run that began last comes first."""
        groups_of_runs: list[tuple[RunGroup, list[RunReport]]] = []
        with self._store.snapshot() as reader:
            # A few runs at a time, because some of those read do not count.
            for names in reader.newest(version):
                groups_of_runs += _counting(reader, names, version)
                if len(groups_of_runs) >= self._window:
                    break
            groups_of_runs = groups_of_runs[: self._window]
            ids = [trace.trace_id for group, _ in groups_of_runs for trace in group.traces]
            scores = _scores(reader.evaluations(ids, (TASK_COMPLETION, CONFIDENCE, SAFETY)))
        return [_stored(group, reports, scores) for group, reports in groups_of_runs]

    def unmatched_reports(self) -> Sequence[UnmatchedReport]:
        """Return the reports, among the newest `window`, that belong to no run."""
        with self._store.snapshot() as reader:
            reports = reader.reports_without_traces(self._window)
            traces = reader.traces_in_any_condition(reports)
        unmatched = (_unmatched(report, traces.get((report.task_id, report.run_id), [])) for report in reports)
        return [run for run in unmatched if run is not None]


def _counting(
    reader: RunQueries, names: Sequence[RunKey], version: AgentVersion
) -> list[tuple[RunGroup, list[RunReport]]]:
    """Return the runs of `version` that count, each with its reports, the oldest first.

    A run counts once its success is known, or once all its sessions are over.
    """
    traces, reports = reader.traces(names), reader.reports(names)
    groups_of_runs: list[tuple[RunGroup, list[RunReport]]] = []
    for name in names:
        groups = grouped(traces[name])
        by_group = {id(group): list[RunReport]() for group in groups}
        for report in reports.get(name, ()):
            if (run := reported_run(groups, report)) is not None:
                by_group[id(run)].append(report)
        groups_of_runs += [(group, by_group[id(group)]) for group in groups if group.whose == version]
    session_ids = dict.fromkeys(trace.session_id for group, _ in groups_of_runs for trace in group.traces)
    over = reader.finalized(list(session_ids))
    return [
        (group, reports)
        for group, reports in groups_of_runs
        if any(report.success is not None for report in reports)
        or any(trace.success is not None for trace in group.traces)
        or all(trace.session_id in over for trace in group.traces)
    ]


def _scores(evaluations: Sequence[Evaluation]) -> _Scores:
    # Outcomes come oldest first, so the newest counts if several versions of an evaluator gave one.
    by_name: dict[str, dict[str, Evaluation]] = {TASK_COMPLETION: {}, CONFIDENCE: {}, SAFETY: {}}
    for evaluation in evaluations:
        by_name[evaluation.name][evaluation.subject_id] = _if_drawn(evaluation)
    return by_name


def _if_drawn(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation if its trace was drawn at random. Otherwise return it as sampled out.

    A trace that the judge looked at for another reason says nothing about the other traces.
    """
    if evaluation.method is not Method.LLM or evaluation.part is JudgedPart.RANDOM:
        return evaluation
    if not isinstance(evaluation.outcome, Score):
        return evaluation
    left_out = Unscored(status=Status.SAMPLED_OUT, reason="the trace was not drawn at random for the judge")
    return replace(evaluation, outcome=left_out)


def _unmatched(report: RunReport, traces: Sequence[RunTrace]) -> UnmatchedReport | None:
    """Return why the report belongs to no run, with the agent and version whose run in another condition it may mean.

    Return None if it belongs to a run.
    """
    same = [trace for trace in traces if trace.run.condition == report.condition]
    if reported_run(grouped(same), report) is not None:
        return None
    anybodys = replace(report, sender="")
    if same:
        is_anothers = reported_run(grouped(same), anybodys) is not None
        return UnmatchedReport(report=report, reason=Unmatched.OTHER_KEY if is_anothers else Unmatched.OTHER_AGENT)
    if (run := reported_run(grouped(traces), report)) is not None:
        return UnmatchedReport(report=report, reason=Unmatched.OTHER_CONDITION, whose=run.whose)
    return UnmatchedReport(report=report, reason=Unmatched.NO_TRACE)


def _stored(group: RunGroup, reports: Sequence[RunReport], scores: _Scores) -> StoredRun:
    ids = [trace.trace_id for trace in group.traces]
    completed, confidences, judged = (
        {run_id: scores[name][run_id] for run_id in ids if run_id in scores[name]}
        for name in (TASK_COMPLETION, CONFIDENCE, SAFETY)
    )
    return StoredRun(
        run=group.traces[0].run,
        agent=group.whose.agent,
        service=group.whose.service,
        service_version=group.whose.version,
        traces=group.traces,
        success=_last([report.success for report in reports]),
        confidence=_last([report.confidence for report in reports]),
        completed={key: value.success for key, value in completed.items() if value.success is not None},
        unjudged=_unscored(completed),
        confidences={
            key: confidence.outcome.value
            for key, confidence in confidences.items()
            if isinstance(confidence.outcome, Score)
        },
        unsure=_unscored(confidences),
        judged={key: _judged(value) for key, value in judged.items() if isinstance(value.outcome, Score)},
    )


def _unscored(evaluations: Mapping[str, Evaluation]) -> dict[str, Status]:
    return {key: of.outcome.status for key, of in evaluations.items() if not isinstance(of.outcome, Score)}


def _last(reports: Sequence[Any]) -> Any:
    return next((value for value in reversed(reports) if value is not None), None)


def _judged(evaluation: Evaluation) -> list[Violation]:
    violations = cast("list[JudgedViolation]", evaluation.outcome.metadata["violations"])
    return [
        Violation(constraint=violation["constraint"], severity=violation["severity"], evidence=violation["quote"])
        for violation in violations
    ]


def grouped(traces: Iterable[RunTrace]) -> list[RunGroup]:
    """Return the runs of traces with the same task, run id and condition, in order of their beginning."""
    ordered = sorted(traces, key=lambda trace: (trace.started_at, trace.trace_id))
    named = [trace for trace in ordered if trace.agent is not None]
    owned: dict[AgentVersion, list[RunTrace]] = {}
    for trace in named or ordered:
        owned.setdefault(AgentVersion(trace.agent, trace.service, trace.service_version), []).append(trace)
    runs = [RunGroup(whose=whose, began=own[0].started_at, traces=tuple(own)) for whose, own in owned.items()]
    joined: dict[AgentVersion, list[RunTrace]] = {}
    # A trace without an agent joins a run of its own version, or any run if its version has none.
    for trace in (trace for trace in ordered if trace.agent is None and named):
        same = [run for run in runs if run.whose.version == trace.service_version]
        run = _at(same or runs, trace.started_at)
        joined.setdefault(run.whose, []).append(trace)
    return [_with(run, joined.get(run.whose, ())) for run in runs]


def reported_run(runs: Sequence[RunGroup], report: RunReport) -> RunGroup | None:
    """Return the run that the report is about. Return None if the report names another agent or version, or if its
    sender may only write and is not one of the run.

    `runs` are in order of their beginning.
    """
    meant = [
        run
        for run in runs
        if (not report.sender or report.sender in run.senders)
        and report.agent in (None, run.whose.agent)
        and (report.service_version is None or report.service_version in run.versions)
    ]
    return _at(meant, report.reported_at or 0) if meant else None


def _at(runs: Sequence[RunGroup], moment: int) -> RunGroup:
    """Return the run that had begun last at `moment`. If none had begun yet, return the first run."""
    return runs[max(0, bisect_right(runs, moment, key=lambda run: run.began) - 1)]


def _with(run: RunGroup, traces: Sequence[RunTrace]) -> RunGroup:
    if not traces:
        return run
    together = sorted((*run.traces, *traces), key=lambda trace: (trace.started_at, trace.trace_id))
    return replace(run, traces=tuple(together))
