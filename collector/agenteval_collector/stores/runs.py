"""The newest runs of every agent's version, and reports that no run belongs to."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Connection, Engine, Table, exists, func, or_, select, tuple_

from agenteval_collector.model.reports import RunReport
from agenteval_collector.model.runs import RunTrace, StoredRun, Stray, StrayReport, Violation
from agenteval_collector.reliability.grouping import RunGroup, grouped, reported_run
from agenteval_collector.runtime.database import in_parts
from agenteval_collector.stores.access import snapshot
from agenteval_collector.stores.run_rows import report_of, run_trace_of
from agenteval_collector.stores.schema import outcomes, run_reports, run_traces, sessions
from otel_agenteval.outcome import Status, Subject

TASK_COMPLETION, CONFIDENCE, SAFETY = "task_completion", "confidence", "safety"

AgentVersion: TypeAlias = tuple[str | None, str | None]
"""An agent's name and its service.version."""

FETCHED = 200
"""Runs read at a time while looking for the newest that count."""

_Name: TypeAlias = tuple[str, str, str]
"""Task, run and condition: what names a run of one agent's version."""

_NAME = ("task_id", "run_id", "condition")
_Scores: TypeAlias = Mapping[str, Mapping[str, Mapping[Any, Any]]]
"""The outcome that counts, by the evaluator's name and by trace."""


def run_names(connection: Connection, tenant: str) -> set[_Name]:
    """Task, run and condition of every run that has a trace."""
    query = select(*_columns(run_traces)).distinct().where(run_traces.c.tenant == tenant)
    return {(row.task_id, row.run_id, row.condition) for row in connection.execute(query)}


class StoredRuns:
    """The runs that count, read from the store's file; thread-safe, raises Unavailable.

    A run counts from the first word on what came of it, by a report or an attribute; without any, from the moment
    all its sessions are over. Of each agent's version the `window` runs are read that began last: what that costs does
    not grow with the others.
    """

    def __init__(self, engine: Engine, tenant: str, window: int, revision: Callable[[], int]) -> None:
        """`revision` gives another number than before when anything in the store may have changed."""
        self._engine = engine
        self._tenant = tenant
        self._window = window
        self.revision = revision

    def versions(self) -> list[AgentVersion]:
        """The agents and versions that traces of runs name, those with the newest trace first."""
        query = (
            select(run_traces.c.agent, run_traces.c.service_version)
            .where(run_traces.c.tenant == self._tenant)
            .group_by(run_traces.c.agent, run_traces.c.service_version)
            .order_by(func.max(run_traces.c.started_at).desc(), run_traces.c.agent, run_traces.c.service_version)
        )
        with snapshot(self._engine) as connection:
            return [(row.agent, row.service_version) for row in connection.execute(query)]

    def runs(self, version: AgentVersion) -> list[StoredRun]:
        """Those of one agent's version, the one that began last first."""
        found: list[tuple[RunGroup, list[RunReport]]] = []
        with snapshot(self._engine) as connection:
            for names in self._names(connection, version):
                found += self._counting(connection, names, version)
                if len(found) >= self._window:
                    break
            found = found[: self._window]
            ids = [trace.trace_id for group, _ in found for trace in group.traces]
            scores = self._scores(connection, ids)
        return [_stored(group, reports, scores) for group, reports in found]

    def stray_reports(self) -> list[StrayReport]:
        """Those of the newest `window` reports that no run belongs to."""
        newest = (
            select(run_reports)
            .where(run_reports.c.tenant == self._tenant)
            .order_by(run_reports.c.reported_at.desc())
            .limit(self._window)
            .subquery()
        )
        whose = exists().where(
            run_traces.c.tenant == self._tenant,
            *(run_traces.c[name] == newest.c[name] for name in _NAME),
            or_(newest.c.agent == "", run_traces.c.agent == newest.c.agent),
            or_(newest.c.service_version == "", run_traces.c.service_version == newest.c.service_version),
        )
        with snapshot(self._engine) as connection:
            reports = [report_of(row) for row in connection.execute(select(newest).where(~whose)).mappings()]
            names = list(dict.fromkeys((report.task_id, report.run_id) for report in reports))
            traces = self._traces(connection, names, ("task_id", "run_id"))
        strays = (_stray(report, traces.get((report.task_id, report.run_id), [])) for report in reports)
        return [stray for stray in strays if stray is not None]

    def _names(self, connection: Connection, version: AgentVersion) -> Iterator[list[_Name]]:
        """The runs of a version by when they began, the newest first, some at a time."""
        agent, service_version = version
        first, other = run_traces, run_traces.alias("other")
        earlier = exists().where(
            other.c.tenant == self._tenant,
            *(other.c[name] == first.c[name] for name in _NAME),
            other.c.agent.is_not_distinct_from(agent),
            other.c.service_version.is_not_distinct_from(service_version),
            tuple_(other.c.started_at, other.c.trace_id) < tuple_(first.c.started_at, first.c.trace_id),
        )
        query = (
            select(*_columns(first))
            .where(
                first.c.tenant == self._tenant,
                first.c.agent.is_not_distinct_from(agent),
                first.c.service_version.is_not_distinct_from(service_version),
                ~earlier,
            )
            .order_by(first.c.started_at.desc(), first.c.trace_id.desc())
        )
        for rows in connection.execute(query).yield_per(FETCHED).partitions():
            yield [(row.task_id, row.run_id, row.condition) for row in rows]

    def _counting(
        self, connection: Connection, names: Sequence[_Name], version: AgentVersion
    ) -> list[tuple[RunGroup, list[RunReport]]]:
        """Those of the runs that count, with what was reported of them, in order of time."""
        traces = self._traces(connection, names, _NAME)
        reports = self._reports(connection, names)
        found: list[tuple[RunGroup, list[RunReport]]] = []
        for name in names:
            groups = grouped(traces[name])
            own = [group for group in groups if (group.agent, group.service_version) == version]
            said = {id(group): list[RunReport]() for group in groups}
            for report in reports.get(name, ()):
                if (run := reported_run(groups, report)) is not None:
                    said[id(run)].append(report)
            found += [(group, said[id(group)]) for group in own]
        over = self._over(connection, [trace.session_id for group, _ in found for trace in group.traces])
        return [
            (group, said)
            for group, said in found
            if any(report.success is not None for report in said)
            or any(trace.success is not None for trace in group.traces)
            or all(trace.session_id in over for trace in group.traces)
        ]

    def _traces(
        self, connection: Connection, names: Sequence[tuple[str, ...]], by: Sequence[str]
    ) -> dict[tuple[str, ...], list[RunTrace]]:
        found: dict[tuple[str, ...], list[RunTrace]] = {}
        columns = [run_traces.c[name] for name in by]
        for some in in_parts(names):
            query = select(run_traces).where(run_traces.c.tenant == self._tenant, tuple_(*columns).in_(some))
            for row in connection.execute(query).mappings():
                found.setdefault(tuple(row[name] for name in by), []).append(run_trace_of(row))
        return found

    def _reports(self, connection: Connection, names: Sequence[_Name]) -> dict[_Name, list[RunReport]]:
        found: dict[_Name, list[RunReport]] = {}
        for some in in_parts(names):
            query = select(run_reports).where(
                run_reports.c.tenant == self._tenant, tuple_(*_columns(run_reports)).in_(some)
            )
            for row in connection.execute(query.order_by(run_reports.c.reported_at)).mappings():
                found.setdefault((row["task_id"], row["run_id"], row["condition"]), []).append(report_of(row))
        return found

    def _over(self, connection: Connection, session_ids: Sequence[str]) -> set[str]:
        """Those of the sessions that are over."""
        found: set[str] = set()
        for some in in_parts(list(dict.fromkeys(session_ids))):
            query = select(sessions.c.session_id).where(
                sessions.c.tenant == self._tenant,
                sessions.c.session_id.in_(some),
                sessions.c.finalized_at.is_not(None),
            )
            found.update(connection.execute(query).scalars())
        return found

    def _scores(self, connection: Connection, trace_ids: Sequence[str]) -> _Scores:
        """Of several versions the newest."""
        found: dict[str, dict[str, Mapping[Any, Any]]] = {TASK_COMPLETION: {}, CONFIDENCE: {}, SAFETY: {}}
        read = ("subject_id", "name", "status", "score", "success", "metadata", "evaluated_at")
        rows: list[Mapping[Any, Any]] = []
        for some in in_parts(trace_ids):
            query = select(*(outcomes.c[name] for name in read)).where(
                outcomes.c.tenant == self._tenant,
                outcomes.c.subject == Subject.TRACE,
                outcomes.c.subject_id.in_(some),
                outcomes.c.name.in_(list(found)),
            )
            rows += connection.execute(query).mappings().all()
        rows.sort(key=lambda row: row["evaluated_at"])
        for row in rows:
            found[row["name"]][row["subject_id"]] = row
        return found


def _columns(table: Table) -> list[ColumnElement[Any]]:
    return [table.c[name] for name in _NAME]


def _stray(report: RunReport, traces: Sequence[RunTrace]) -> StrayReport | None:
    """Why no run belongs to the report, and where that is to be said; None where one does."""
    same = [trace for trace in traces if trace.run.condition == report.condition]
    if reported_run(grouped(same), report) is not None:
        return None
    if same:
        return StrayReport(report=report, reason=Stray.OTHER_AGENT)
    if (run := reported_run(grouped(traces), report)) is not None:
        whose = (run.agent, run.service_version)
        return StrayReport(report=report, reason=Stray.OTHER_CONDITION, whose=whose)
    return StrayReport(report=report, reason=Stray.NO_TRACE)


def _stored(group: RunGroup, reports: Sequence[RunReport], scores: _Scores) -> StoredRun:
    ids = [trace.trace_id for trace in group.traces]
    completed, confidences, judged = (
        {each: scores[name][each] for each in ids if each in scores[name]}
        for name in (TASK_COMPLETION, CONFIDENCE, SAFETY)
    )
    return StoredRun(
        run=group.traces[0].run,
        agent=group.agent,
        service_version=group.service_version,
        traces=group.traces,
        success=_last([report.success for report in reports]),
        confidence=_last([report.confidence for report in reports]),
        completed={each: row["success"] for each, row in completed.items() if row["status"] == Status.SCORED},
        unjudged={each: Status(row["status"]) for each, row in completed.items() if row["status"] != Status.SCORED},
        confidences={each: row["score"] for each, row in confidences.items() if row["status"] == Status.SCORED},
        unsure={each: Status(row["status"]) for each, row in confidences.items() if row["status"] != Status.SCORED},
        judged={each: _judged(row) for each, row in judged.items() if row["status"] == Status.SCORED},
    )


def _last(said: Sequence[Any]) -> Any:
    return next((value for value in reversed(said) if value is not None), None)


def _judged(row: Mapping[Any, Any]) -> list[Violation]:
    return [
        Violation(constraint=each["constraint"], severity=each["severity"], evidence=each["quote"])
        for each in json.loads(row["metadata"])["violations"]
    ]
