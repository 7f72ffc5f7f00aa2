"""What traces add to their runs, and the newest runs of every agent's version."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import Connection, Engine, and_, delete, exists, func, or_, select, tuple_
from sqlalchemy.dialects.sqlite import insert

from agenteval_collector.database import in_parts
from agenteval_collector.records import RunTrace, StoredRun, TraceRecord, Violation
from agenteval_collector.stores.access import snapshot
from agenteval_collector.stores.schema import outcomes, run_traces, runs, sessions
from otel_agenteval.model import RunIdentity
from otel_agenteval.outcome import Method, Status, Subject

TASK_COMPLETION, CONFIDENCE, SAFETY = "task_completion", "confidence", "safety"

AgentVersion: TypeAlias = tuple[str | None, str | None]
"""An agent's name and its service.version."""

FETCHED = 200
"""Rows read at a time while looking for the newest runs."""

_Name: TypeAlias = tuple[str, str, str]
"""Task, run and condition: what names a run."""

_FACTS = ("confidence", "seconds", "model_calls", "model_seconds", "errors", "usd")
_RUN = (run_traces.c.task_id, run_traces.c.run_id, run_traces.c.condition)
_REPORT = and_(
    runs.c.tenant == run_traces.c.tenant,
    runs.c.task_id == run_traces.c.task_id,
    runs.c.run_id == run_traces.c.run_id,
    runs.c.condition == run_traces.c.condition,
)
_UPSERT = insert(run_traces)
_UPSERT = _UPSERT.on_conflict_do_update(
    index_elements=list(run_traces.primary_key),
    set_={column.name: _UPSERT.excluded[column.name] for column in run_traces.columns if not column.primary_key},
)


def write_run_traces(connection: Connection, tenant: str, traces: Sequence[TraceRecord]) -> None:
    """Keep what the traces add to their runs; a revision that names no run any more takes back what was added."""
    added = [_row(tenant, trace.run_trace) for trace in traces if trace.run_trace is not None]
    if added:
        connection.execute(_UPSERT, added)
    for trace in traces:
        if trace.run_trace is None and trace.revision > 1:
            connection.execute(
                delete(run_traces).where(run_traces.c.tenant == tenant, run_traces.c.trace_id == trace.trace_id)
            )


def run_names(connection: Connection, tenant: str) -> set[_Name]:
    """Task, run and condition of every run that has a trace."""
    query = select(*_RUN).distinct().where(run_traces.c.tenant == tenant)
    return {(row.task_id, row.run_id, row.condition) for row in connection.execute(query)}


class StoredRuns:
    """The runs that count, read from the store's file; thread-safe, raises Unavailable.

    A run counts from the first word on what came of it, by a report or an attribute; without any, from the moment
    a session of it is over. It belongs to the agent and version of its first trace that names an agent. Of each
    agent's version the `window` runs with the newest traces are read: what that costs does not grow with the others.
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
        """Those of one agent's version, the newest first."""
        with snapshot(self._engine) as connection:
            names = self._newest(connection, version)
            traces = self._traces(connection, names)
            scores = self._scores(connection, [row["trace_id"] for rows in traces.values() for row in rows])
            reports = self._reports(connection, names)
        by_trace = {name: _by_trace(scores, name) for name in (TASK_COMPLETION, CONFIDENCE, SAFETY)}
        found = [_run(traces[name], reports.get(name), by_trace) for name in names]
        # The others have traces of this version, but are another one's.
        return [run for run in found if (run.agent, run.service_version) == version]

    def _newest(self, connection: Connection, version: AgentVersion) -> list[_Name]:
        other = run_traces.alias("other")
        of_run = (other.c.tenant == self._tenant, *(column == other.c[column.name] for column in _RUN))
        said = exists().where(*of_run, other.c.success.is_not(None))
        over = exists().where(
            *of_run,
            sessions.c.tenant == self._tenant,
            sessions.c.session_id == other.c.session_id,
            sessions.c.finalized_at.is_not(None),
        )
        query = (
            select(*_RUN)
            .outerjoin(runs, _REPORT)
            .where(
                run_traces.c.tenant == self._tenant,
                run_traces.c.agent.is_not_distinct_from(version[0]),
                run_traces.c.service_version.is_not_distinct_from(version[1]),
                or_(runs.c.success.is_not(None), said, over),
            )
            .order_by(run_traces.c.started_at.desc())
        )
        found: dict[_Name, None] = {}
        for row in connection.execute(query).yield_per(FETCHED):
            found[row.task_id, row.run_id, row.condition] = None
            if len(found) == self._window:
                break
        return list(found)

    def _traces(self, connection: Connection, names: Sequence[_Name]) -> dict[_Name, list[Mapping[Any, Any]]]:
        found: dict[_Name, list[Mapping[Any, Any]]] = {}
        for some in in_parts(names):
            query = select(run_traces).where(run_traces.c.tenant == self._tenant, tuple_(*_RUN).in_(some))
            query = query.order_by(run_traces.c.started_at, run_traces.c.trace_id)
            for row in connection.execute(query).mappings():
                found.setdefault((row["task_id"], row["run_id"], row["condition"]), []).append(row)
        return found

    def _reports(self, connection: Connection, names: Sequence[_Name]) -> dict[_Name, Mapping[Any, Any]]:
        found: dict[_Name, Mapping[Any, Any]] = {}
        name = (runs.c.task_id, runs.c.run_id, runs.c.condition)
        for some in in_parts(names):
            query = select(*name, runs.c.success, runs.c.confidence).where(
                runs.c.tenant == self._tenant, tuple_(*name).in_(some)
            )
            for row in connection.execute(query).mappings():
                found[row["task_id"], row["run_id"], row["condition"]] = row
        return found

    def _scores(self, connection: Connection, trace_ids: Sequence[str]) -> list[Mapping[Any, Any]]:
        found: list[Mapping[Any, Any]] = []
        read = ("subject_id", "name", "method", "score", "success", "metadata", "evaluated_at")
        for some in in_parts(trace_ids):
            query = select(*(outcomes.c[name] for name in read)).where(
                outcomes.c.tenant == self._tenant,
                outcomes.c.subject == Subject.TRACE,
                outcomes.c.subject_id.in_(some),
                outcomes.c.name.in_((TASK_COMPLETION, CONFIDENCE, SAFETY)),
                outcomes.c.status == Status.SCORED,
            )
            found += connection.execute(query).mappings().all()
        return found


def _by_trace(scores: Sequence[Mapping[Any, Any]], name: str) -> dict[str, Mapping[Any, Any]]:
    """The outcome of `name` by trace: the judge's, where it gave one, and of several versions the newest."""
    named = [row for row in scores if row["name"] == name]
    named.sort(key=lambda row: (row["method"] == Method.LLM, row["method"], row["evaluated_at"]))
    return {row["subject_id"]: row for row in named}


def _run(
    rows: Sequence[Mapping[Any, Any]],
    report: Mapping[Any, Any] | None,
    by_trace: Mapping[str, Mapping[str, Mapping[Any, Any]]],
) -> StoredRun:
    ids = [row["trace_id"] for row in rows]
    completed, confidences, judged = (
        {each: by_trace[name][each] for each in ids if each in by_trace[name]}
        for name in (TASK_COMPLETION, CONFIDENCE, SAFETY)
    )
    first = next((row for row in rows if row["agent"] is not None), rows[0])
    return StoredRun(
        run=_identity(first),
        agent=first["agent"],
        service_version=first["service_version"],
        traces=[_run_trace(row) for row in rows],
        success=report["success"] if report else None,
        confidence=report["confidence"] if report else None,
        completed={each: row["success"] for each, row in completed.items()},
        confidences={each: row["score"] for each, row in confidences.items()},
        judged={each: _judged(row) for each, row in judged.items()},
    )


def _judged(row: Mapping[Any, Any]) -> list[Violation]:
    return [
        Violation(constraint=each["constraint"], severity=each["severity"], evidence=each["quote"])
        for each in json.loads(row["metadata"])["violations"]
    ]


def _identity(row: Mapping[Any, Any]) -> RunIdentity:
    return RunIdentity(task_id=row["task_id"], run_id=row["run_id"], condition=row["condition"])


def _row(tenant: str, trace: RunTrace) -> dict[str, Any]:
    found = trace.violations
    facts = {
        **{name: getattr(trace, name) for name in _FACTS},
        "actions": list(trace.actions),
        "violations": None if found is None else [[v.constraint, v.severity, v.evidence] for v in found],
    }
    return {
        "tenant": tenant,
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


def _run_trace(row: Mapping[Any, Any]) -> RunTrace:
    facts = json.loads(row["facts"])
    found = facts.pop("violations")
    return RunTrace(
        trace_id=row["trace_id"],
        session_id=row["session_id"],
        run=_identity(row),
        agent=row["agent"],
        service_version=row["service_version"],
        started_at=row["started_at"],
        success=row["success"],
        violations=None
        if found is None
        else [Violation(constraint=name, severity=severity, evidence=text) for name, severity, text in found],
        **facts,
    )
