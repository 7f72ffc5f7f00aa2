"""Read the traces of runs, what was reported of them, and what evaluators say of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import ColumnElement, FromClause, exists, func, or_, select, tuple_

from agenteval_collector.model.reports import RunReport
from agenteval_collector.model.runs import AgentVersion, RunName, RunTrace
from agenteval_collector.runtime.database import in_parts
from agenteval_collector.stores.access import TenantConnection, TenantDatabase
from agenteval_collector.stores.rows import evaluation_of
from agenteval_collector.stores.run_rows import report_of, run_trace_of
from agenteval_collector.stores.schema import outcomes, own, run_reports, run_traces, sessions
from otel_agenteval.outcome import Evaluation, Subject

FETCHED: Final = 200
"""Runs read at a time while looking for the newest that count."""


class RunSnapshot:
    """Look-ups that all see the store at the same moment."""

    def __init__(self, connection: TenantConnection) -> None:
        self._connection = connection

    def names(self) -> set[RunName]:
        """The names of all runs that have a trace."""
        query = select(*_name(run_traces)).distinct().where(own(run_traces))
        return {RunName(*row) for row in self._connection.execute(query)}

    def versions(self) -> list[AgentVersion]:
        """The agents and versions that traces of runs name, those with the newest trace first."""
        query = (
            select(run_traces.c.agent, run_traces.c.service_version)
            .where(own(run_traces))
            .group_by(run_traces.c.agent, run_traces.c.service_version)
            .order_by(func.max(run_traces.c.started_at).desc(), run_traces.c.agent, run_traces.c.service_version)
        )
        return [(row.agent, row.service_version) for row in self._connection.execute(query)]

    def newest(self, version: AgentVersion) -> Iterator[list[RunName]]:
        """The runs of a version by when they began, the newest first, some at a time."""
        agent, service_version = version
        first, other = run_traces, run_traces.alias("other")
        earlier = exists().where(
            own(other),
            *(mine == theirs for mine, theirs in zip(_name(other), _name(first), strict=True)),
            other.c.agent.is_not_distinct_from(agent),
            other.c.service_version.is_not_distinct_from(service_version),
            tuple_(other.c.started_at, other.c.trace_id) < tuple_(first.c.started_at, first.c.trace_id),
        )
        query = (
            select(*_name(first))
            .where(
                own(first),
                first.c.agent.is_not_distinct_from(agent),
                first.c.service_version.is_not_distinct_from(service_version),
                ~earlier,
            )
            .order_by(first.c.started_at.desc(), first.c.trace_id.desc())
        )
        for rows in self._connection.execute(query).yield_per(FETCHED).partitions():
            yield [RunName(*row) for row in rows]

    def traces(self, names: Sequence[RunName]) -> dict[RunName, list[RunTrace]]:
        """The traces of runs, by run."""
        found: dict[RunName, list[RunTrace]] = {}
        for trace in self._traces(_name(run_traces), names):
            found.setdefault(RunName.of(trace.run), []).append(trace)
        return found

    def traces_in_any_condition(self, reports: Sequence[RunReport]) -> dict[tuple[str, str], list[RunTrace]]:
        """The traces of reported runs under whatever condition, by task and run."""
        found: dict[tuple[str, str], list[RunTrace]] = {(report.task_id, report.run_id): [] for report in reports}
        for trace in self._traces([run_traces.c.task_id, run_traces.c.run_id], list(found)):
            found[trace.run.task_id, trace.run.run_id].append(trace)
        return found

    def _traces(self, columns: Sequence[ColumnElement[Any]], values: Sequence[tuple[str, ...]]) -> Iterator[RunTrace]:
        for some in in_parts(values):
            query = select(run_traces).where(own(run_traces), tuple_(*columns).in_(some))
            yield from map(run_trace_of, self._connection.execute(query).mappings())

    def reports(self, names: Sequence[RunName]) -> dict[RunName, list[RunReport]]:
        """The reports of runs in order of time, by run."""
        found: dict[RunName, list[RunReport]] = {}
        for some in in_parts(names):
            query = select(run_reports).where(own(run_reports), tuple_(*_name(run_reports)).in_(some))
            for row in self._connection.execute(query.order_by(run_reports.c.reported_at)).mappings():
                report = report_of(row)
                found.setdefault(RunName(report.task_id, report.run_id, report.condition), []).append(report)
        return found

    def reports_without_traces(self, newest: int) -> list[RunReport]:
        """Those of the newest reports of which no trace has the run, the agent and the version that they name."""
        reports = (
            select(run_reports)
            .where(own(run_reports))
            .order_by(run_reports.c.reported_at.desc())
            .limit(newest)
            .subquery()
        )
        has_trace = exists().where(
            own(run_traces),
            *(mine == theirs for mine, theirs in zip(_name(run_traces), _name(reports), strict=True)),
            or_(reports.c.agent == "", run_traces.c.agent == reports.c.agent),
            or_(reports.c.service_version == "", run_traces.c.service_version == reports.c.service_version),
        )
        rows = self._connection.execute(select(reports).where(~has_trace)).mappings()
        return [report_of(row) for row in rows]

    def finalized(self, session_ids: Sequence[str]) -> set[str]:
        """The sessions among these that are over."""
        found: set[str] = set()
        for some in in_parts(session_ids):
            query = select(sessions.c.session_id).where(
                own(sessions), sessions.c.session_id.in_(some), sessions.c.finalized_at.is_not(None)
            )
            found.update(self._connection.execute(query).scalars())
        return found

    def evaluations(self, trace_ids: Sequence[str], names: Sequence[str]) -> list[Evaluation]:
        """The outcomes of these names on traces, the oldest first."""
        found: list[Evaluation] = []
        for some in in_parts(trace_ids):
            query = select(outcomes).where(
                own(outcomes),
                outcomes.c.subject == Subject.TRACE,
                outcomes.c.subject_id.in_(some),
                outcomes.c.name.in_(names),
            )
            found += [evaluation_of(row) for row in self._connection.execute(query).mappings()]
        return sorted(found, key=lambda evaluation: evaluation.evaluated_at)


class RunStore:
    """The runs in the store's file; thread-safe, raises Unavailable."""

    def __init__(self, database: TenantDatabase, revision: Callable[[], int]) -> None:
        """`revision` gives another number than before when anything in the store may have changed."""
        self._database = database
        self.revision = revision

    @contextmanager
    def snapshot(self) -> Iterator[RunSnapshot]:
        """Look at the runs as they are at one moment."""
        with self._database.snapshot() as connection:
            yield RunSnapshot(connection)


def _name(table: FromClause) -> list[ColumnElement[Any]]:
    return [table.c[column] for column in RunName._fields]
