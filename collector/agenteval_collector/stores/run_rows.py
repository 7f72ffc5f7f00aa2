"""The rows of what traces add to their runs, and of run reports."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import delete, exists
from sqlalchemy.dialects.sqlite import insert

from agenteval_collector.model.commit import TraceRecord
from agenteval_collector.model.reports import RunReport
from agenteval_collector.model.runs import RunTrace, Violation
from agenteval_collector.stores.access import TenantConnection
from agenteval_collector.stores.schema import own, run_reports, run_traces
from otel_agenteval.model import RunIdentity

_FACTS = ("confidence", "seconds", "model_calls", "model_seconds", "errors", "usd")
_UPSERT = insert(run_traces)
_UPSERT = _UPSERT.on_conflict_do_update(
    index_elements=list(run_traces.primary_key),
    set_={column.name: _UPSERT.excluded[column.name] for column in run_traces.columns if not column.primary_key},
)


def write_run_traces(connection: TenantConnection, traces: Sequence[TraceRecord]) -> None:
    """Keep what the traces add to their runs; a revision that names no run any more takes back what was added."""
    connection.insert(_UPSERT, (_trace_row(trace.run_trace) for trace in traces if trace.run_trace is not None))
    for trace in traces:
        if trace.run_trace is None and trace.revision > 1:
            connection.execute(delete(run_traces).where(own(run_traces), run_traces.c.trace_id == trace.trace_id))


def write_run_report(connection: TenantConnection, report: RunReport, *, now: int) -> None:
    """Keep the report beside those of other times; what is said again of the same time adds to it."""
    row = {
        "task_id": report.task_id,
        "run_id": report.run_id,
        "condition": report.condition,
        "agent": report.agent or "",
        "service_version": report.service_version or "",
        "reported_at": now if report.reported_at is None else report.reported_at,
        "success": report.success,
        "confidence": report.confidence,
        "session_id": report.session_id,
    }
    said = {key: value for key, value in row.items() if value is not None}
    statement = insert(run_reports)
    connection.insert(statement.on_conflict_do_update(index_elements=list(run_reports.primary_key), set_=said), [row])


def trim_run_reports(connection: TenantConnection, before: int) -> None:
    """Forget the reports of before that time (ns) that are about runs of which there is no trace at all."""
    same = (run_traces.c[name] == run_reports.c[name] for name in ("tenant", "task_id", "run_id"))
    connection.execute(
        delete(run_reports).where(own(run_reports), run_reports.c.reported_at < before, ~exists().where(*same))
    )


def report_of(row: Mapping[Any, Any]) -> RunReport:
    """Return the run report of a row."""
    return RunReport(
        task_id=row["task_id"],
        run_id=row["run_id"],
        condition=row["condition"],
        agent=row["agent"] or None,
        service_version=row["service_version"] or None,
        success=row["success"],
        confidence=row["confidence"],
        session_id=row["session_id"],
        reported_at=row["reported_at"],
    )


def run_trace_of(row: Mapping[Any, Any]) -> RunTrace:
    """Return what a trace adds to its run, from its row."""
    facts = json.loads(row["facts"])
    found = facts.pop("violations")
    return RunTrace(
        trace_id=row["trace_id"],
        session_id=row["session_id"],
        run=RunIdentity(task_id=row["task_id"], run_id=row["run_id"], condition=row["condition"]),
        agent=row["agent"],
        service_version=row["service_version"],
        started_at=row["started_at"],
        success=row["success"],
        violations=None if found is None else [_violation(*each) for each in found],
        **facts,
    )


def _violation(constraint: str, severity: str, evidence: str, values: Sequence[str] = ()) -> Violation:
    return Violation(constraint=constraint, severity=severity, evidence=evidence, values=tuple(values))


def _trace_row(trace: RunTrace) -> dict[str, Any]:
    found = trace.violations
    facts = {
        **{name: getattr(trace, name) for name in _FACTS},
        "actions": list(trace.actions),
        "violations": None if found is None else [[v.constraint, v.severity, v.evidence, v.values] for v in found],
        "versions": list(trace.versions),
        "said": list(trace.said),
    }
    return {
        "trace_id": trace.trace_id,
        "task_id": trace.run.task_id,
        "run_id": trace.run.run_id,
        "condition": trace.run.condition,
        "session_id": trace.session_id,
        "agent": trace.agent,
        "service_version": trace.service_version,
        "started_at": trace.started_at,
        "success": trace.success,
        "facts": json.dumps(facts),
    }
