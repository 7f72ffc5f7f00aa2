"""Keep and read runs: what traces add to them, and run reports."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

from sqlalchemy import ColumnElement, FromClause, delete, exists, func, literal, or_, select, tuple_

from agenteval_collector.model.commit import ScoredTrace
from agenteval_collector.model.runs import AgentVersion, RunKey, RunReport, RunTrace, Violation
from agenteval_collector.runtime.database import in_parts
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.rows import FieldMap, evaluation_of, has, to_json
from agenteval_collector.stores.schema import outcomes, own, run_reports, run_traces, sessions, traces
from agenteval_collector.stores.unasked import read_unasked
from otel_agenteval.model import RunIdentity
from otel_agenteval.outcome import Evaluation, SubjectKind

_FIELDS = FieldMap(RunTrace, run_traces, but=("senders",))
_SAID = FieldMap(RunReport, run_reports)
_FACTS = (
    *("confidence", "seconds", "model_calls", "model_seconds", "errors", "usd"),
    *("actions", "violations", "versions", "said"),
)


def write_run_traces(connection: TenantConnection, traces: Sequence[ScoredTrace]) -> None:
    """Keep what the traces add to their runs. A revision that no longer names a run takes back what was added."""
    connection.upsert(run_traces, (run_trace_row(trace.run_trace) for trace in traces if trace.run_trace is not None))
    for trace in traces:
        if trace.run_trace is None and trace.revision > 1:
            connection.execute(delete(run_traces).where(own(run_traces), run_traces.c.trace_id == trace.trace_id))


def write_run_report(connection: TenantConnection, report: RunReport, *, now: int) -> None:
    """Keep the report beside those of other times. A second report of the same time adds to the first."""
    row = {
        **_SAID.columns_of(report),
        "agent": report.agent or "",
        "service_version": report.service_version or "",
        "reported_at": now if report.reported_at is None else report.reported_at,
    }
    connection.upsert(run_reports, [row])


def trim_run_reports(connection: TenantConnection, before: int) -> None:
    """Forget the reports from before that time (ns) about runs that have no trace at all."""
    same = (run_traces.c[name] == run_reports.c[name] for name in ("tenant", "task_id", "run_id"))
    connection.execute(
        delete(run_reports).where(own(run_reports), run_reports.c.reported_at < before, ~exists().where(*same))
    )


def is_senders_own(sender: ColumnElement[str], senders: ColumnElement[str]) -> ColumnElement[bool]:
    """Make the condition that a report of this sender may be about a run of these (`run_traces.senders`)."""
    # Not LIKE, for which a name's underscores are wildcards.
    return or_(sender == "", func.replace(senders, literal(" ").concat(sender).concat(" "), "") != senders)


def report_of(row: Mapping[Any, Any]) -> RunReport:
    """Return the run report of a row."""
    whose = {name: row[name] or None for name in ("agent", "service_version")}
    return RunReport(**_SAID.fields_in(row) | whose)


def run_trace_of(row: Mapping[Any, Any]) -> RunTrace:
    """Return what a trace adds to its run, from its row."""
    facts = json.loads(row["facts"])
    if facts["violations"] is not None:
        facts["violations"] = [Violation(**fact | {"values": tuple(fact["values"])}) for fact in facts["violations"]]
    run = RunIdentity(**{name: row[name] for name in RunKey._fields})
    return RunTrace(**_FIELDS.fields_in(row), run=run, senders=row["senders"].split(), **facts)


def run_trace_row(trace: RunTrace) -> dict[str, Any]:
    """Return the row of what a trace adds to its run."""
    return {
        **_FIELDS.columns_of(trace),
        **RunKey.of(trace.run)._asdict(),
        "senders": f" {' '.join(trace.senders)} ",
        "facts": to_json({name: getattr(trace, name) for name in _FACTS}),
    }


_VERSION: Final = (run_traces.c.agent, run_traces.c.service, run_traces.c.service_version)

FETCHED: Final = 200
"""Runs that are read at a time in the search for the newest that count."""


class RunQueries:
    """Read the stored runs as they are at one moment. Raises Unavailable."""

    def __init__(self, connection: TenantConnection) -> None:
        self._connection = connection

    def names(self) -> set[RunKey]:
        """Return the names of all runs that have a trace."""
        query = select(*_name(run_traces)).distinct().where(own(run_traces))
        return {RunKey(*row) for row in self._connection.execute(query)}

    def versions(self) -> list[AgentVersion]:
        """Return the agents and versions that traces of runs name. Those with the newest trace come first."""
        query = (
            select(*_VERSION)
            .where(own(run_traces))
            .group_by(*_VERSION)
            .order_by(func.max(run_traces.c.started_at).desc(), *(column.nulls_first() for column in _VERSION))
        )
        return [AgentVersion(*row) for row in self._connection.execute(query)]

    def newest(self, version: AgentVersion) -> Iterator[list[RunKey]]:
        """Yield the runs of a version, some at a time. The run that began last comes first."""
        first, other = run_traces, run_traces.alias("other")
        earlier = exists().where(
            *_is_of(other, version),
            *(mine == theirs for mine, theirs in zip(_name(other), _name(first), strict=True)),
            tuple_(other.c.started_at, other.c.trace_id) < tuple_(first.c.started_at, first.c.trace_id),
        )
        query = (
            select(*_name(first))
            .where(*_is_of(first, version), ~earlier)
            .order_by(first.c.started_at.desc(), first.c.trace_id.desc())
        )
        # Set on the statement, so that no driver fetches all rows at once.
        with closing(self._connection.execute(query.execution_options(yield_per=FETCHED))) as cursor:
            for rows in cursor.partitions():
                yield [RunKey(*row) for row in rows]

    def traces(self, names: Sequence[RunKey]) -> dict[RunKey, list[RunTrace]]:
        """Return the traces of runs, by run."""
        by_run: dict[RunKey, list[RunTrace]] = {}
        for trace in self._traces(_name(run_traces), names):
            by_run.setdefault(RunKey.of(trace.run), []).append(trace)
        return by_run

    def traces_in_any_condition(self, reports: Sequence[RunReport]) -> dict[tuple[str, str], list[RunTrace]]:
        """Return the traces of the reported runs in any condition, by task id and run id."""
        by_run: dict[tuple[str, str], list[RunTrace]] = {(report.task_id, report.run_id): [] for report in reports}
        for trace in self._traces([run_traces.c.task_id, run_traces.c.run_id], list(by_run)):
            by_run[trace.run.task_id, trace.run.run_id].append(trace)
        return by_run

    def _traces(self, columns: Sequence[ColumnElement[Any]], values: Sequence[tuple[str, ...]]) -> Iterator[RunTrace]:
        for some in in_parts(values):
            query = select(run_traces).where(own(run_traces), tuple_(*columns).in_(some))
            yield from map(run_trace_of, self._connection.execute(query).mappings())

    def reports(self, names: Sequence[RunKey]) -> dict[RunKey, list[RunReport]]:
        """Return the reports on runs, by run. Those of one run are in order of time."""
        by_run: dict[RunKey, list[RunReport]] = {}
        for some in in_parts(names):
            query = select(run_reports).where(own(run_reports), tuple_(*_name(run_reports)).in_(some))
            for row in self._connection.execute(query.order_by(run_reports.c.reported_at)).mappings():
                report = report_of(row)
                by_run.setdefault(RunKey(report.task_id, report.run_id, report.condition), []).append(report)
        return by_run

    def reports_without_traces(self, newest: int) -> list[RunReport]:
        """Return the reports that fit no trace, of the last `newest` reports.

        A report fits a trace that has the run, agent and version that it names.
        """
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
            is_senders_own(reports.c.sender, run_traces.c.senders),
        )
        rows = self._connection.execute(select(reports).where(~has_trace)).mappings()
        return [report_of(row) for row in rows]

    def finalized(self, session_ids: Sequence[str]) -> set[str]:
        """Return those of the sessions that are over."""
        query = select(sessions.c.session_id).where(
            own(sessions), among(sessions.c.session_id, "ids"), sessions.c.finalized_at.is_not(None)
        )
        return set(self._connection.execute(query, ids(session_ids)).scalars())

    def evaluations(self, trace_ids: Sequence[str], names: Sequence[str]) -> list[Evaluation]:
        """Return the outcomes of the evaluators `names` on traces, the oldest first."""
        query = select(outcomes).where(
            own(outcomes),
            outcomes.c.subject == SubjectKind.TRACE,
            among(outcomes.c.subject_id, "ids"),
            outcomes.c.name.in_(names),
        )
        values = ids(trace_ids)
        rows = self._connection.execute(query.order_by(outcomes.c.evaluated_at), values).mappings()
        evaluations = [evaluation_of(row) for row in rows]
        of_trace = [among(traces.c.trace_id, "ids")]
        return [*read_unasked(self._connection, of_trace, evaluations, values, names), *evaluations]


def _is_of(table: FromClause, version: AgentVersion) -> list[ColumnElement[bool]]:
    return [own(table), *(has(table.c[column.name], value) for column, value in zip(_VERSION, version, strict=True))]


def _name(table: FromClause) -> list[ColumnElement[Any]]:
    return [table.c[column] for column in RunKey._fields]
