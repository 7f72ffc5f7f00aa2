"""What traces add to their runs, and the newest runs of every agent's version."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Engine, Select, and_, delete, exists, func, or_, select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import SQLAlchemyError

from agenteval_collector.errors import Unavailable
from agenteval_collector.records import RunTrace, StoredRun, TraceRecord, Violation
from agenteval_collector.stores.schema import outcomes, run_traces, runs, sessions
from otel_agenteval.model import RunIdentity
from otel_agenteval.outcome import Method, Status, Subject

TASK_COMPLETION, CONFIDENCE, SAFETY = "task_completion", "confidence", "safety"

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


class StoredRuns:
    """The runs that count, read from the store's file; thread-safe, raises Unavailable.

    A run counts from the first word on what came of it, by a report or an attribute; without any, from the moment
    its session is over. It belongs to the agent and version of its first trace that names an agent. Of each agent's
    version the `window` runs that began last are read.
    """

    def __init__(self, engine: Engine, tenant: str, window: int, revision: Callable[[], int]) -> None:
        """`revision` gives another number than before when anything in the store may have changed."""
        self._engine = engine
        self._tenant = tenant
        self._window = window
        self.revision = revision

    def runs(self) -> list[StoredRun]:
        """By agent and version, those of the newest run first; each one's by start, the newest first."""
        chosen = _newest_runs(self._tenant, self._window).cte("chosen")
        of_run = [column == chosen.c[column.name] for column in _RUN]
        in_run = and_(run_traces.c.tenant == self._tenant, *of_run)
        query = (
            select(
                run_traces,
                chosen.c.of_agent,
                chosen.c.of_version,
                chosen.c.began_at,
                runs.c.success.label("reported_success"),
                runs.c.confidence.label("reported_confidence"),
            )
            .join(chosen, in_run)
            .outerjoin(runs, _REPORT)
            .order_by(chosen.c.began_at.desc(), *_RUN, run_traces.c.started_at, run_traces.c.trace_id)
        )
        judged = (
            select(outcomes)
            .join(
                run_traces,
                and_(run_traces.c.tenant == outcomes.c.tenant, run_traces.c.trace_id == outcomes.c.subject_id),
            )
            .join(chosen, in_run)
            .where(
                outcomes.c.subject == Subject.TRACE,
                outcomes.c.name.in_((TASK_COMPLETION, CONFIDENCE, SAFETY)),
                outcomes.c.status == Status.SCORED,
            )
        )
        try:
            with self._engine.connect() as connection:
                connection.exec_driver_sql("BEGIN")
                rows = connection.execute(query).mappings().all()
                scores = connection.execute(judged).mappings().all()
        except SQLAlchemyError as error:
            raise Unavailable(f"the store could not be read: {error}") from error
        by_trace = {name: _by_trace(scores, name) for name in (TASK_COMPLETION, CONFIDENCE, SAFETY)}
        return [
            _run(list(of_one), by_trace)
            for _, of_one in groupby(rows, key=lambda row: (row["task_id"], row["run_id"], row["condition"]))
        ]


def _newest_runs(tenant: str, window: int) -> Select[Any]:
    """The runs that count with agent, version and beginning, no more than `window` of each agent's version."""
    said = or_(func.max(runs.c.success).is_not(None), func.max(run_traces.c.success).is_not(None))
    over = exists().where(
        sessions.c.tenant == run_traces.c.tenant,
        sessions.c.session_id == run_traces.c.session_id,
        sessions.c.finalized_at.is_not(None),
    )
    counting = (
        select(*_RUN, func.min(run_traces.c.started_at).label("began_at"))
        .outerjoin(runs, _REPORT)
        .where(run_traces.c.tenant == tenant)
        .group_by(*_RUN)
        .having(or_(said, func.max(over)))
        .cte("counting")
    )
    whose = (
        select(
            *_RUN,
            run_traces.c.agent,
            run_traces.c.service_version,
            counting.c.began_at,
            func.row_number()
            .over(
                partition_by=_RUN,
                order_by=(run_traces.c.agent.is_(None), run_traces.c.started_at, run_traces.c.trace_id),
            )
            .label("place"),
        )
        .join(counting, and_(*(column == counting.c[column.name] for column in _RUN)))
        .where(run_traces.c.tenant == tenant)
        .cte("whose")
    )
    ranked = (
        select(
            whose,
            func.row_number()
            .over(
                partition_by=(whose.c.agent, whose.c.service_version),
                order_by=(whose.c.began_at.desc(), whose.c.task_id, whose.c.run_id, whose.c.condition),
            )
            .label("rank"),
        )
        .where(whose.c.place == 1)
        .cte("ranked")
    )
    return select(
        ranked.c.task_id,
        ranked.c.run_id,
        ranked.c.condition,
        ranked.c.began_at,
        ranked.c.agent.label("of_agent"),
        ranked.c.service_version.label("of_version"),
    ).where(ranked.c.rank <= window)


def _by_trace(scores: Sequence[Mapping[Any, Any]], name: str) -> dict[str, Mapping[Any, Any]]:
    """The outcome of `name` by trace: the judge's, where it gave one, and of several versions the newest."""
    named = [row for row in scores if row["name"] == name]
    named.sort(key=lambda row: (row["method"] == Method.LLM, row["method"], row["evaluated_at"]))
    return {row["subject_id"]: row for row in named}


def _run(rows: Sequence[Mapping[Any, Any]], by_trace: Mapping[str, Mapping[str, Mapping[Any, Any]]]) -> StoredRun:
    first, ids = rows[0], [row["trace_id"] for row in rows]
    completed, confidences, judged = (
        {each: by_trace[name][each] for each in ids if each in by_trace[name]}
        for name in (TASK_COMPLETION, CONFIDENCE, SAFETY)
    )
    return StoredRun(
        run=_identity(first),
        agent=first["of_agent"],
        service_version=first["of_version"],
        traces=[_run_trace(row) for row in rows],
        success=first["reported_success"],
        confidence=first["reported_confidence"],
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
