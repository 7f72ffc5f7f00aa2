"""Read from rows what waits for the judge, and what it has not scored."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import ColumnElement, and_, exists, literal_column, select

from agenteval_collector.model.judging import JudgeJob, job_of
from agenteval_collector.stores.access import TenantConnection
from agenteval_collector.stores.rows import evaluation_of
from agenteval_collector.stores.schema import outcomes, own, traces
from otel_agenteval.outcome import Evaluation, Method, Status, Subject

LEFT_TO_JUDGE = (Status.PENDING, Status.SCORED, Status.OVER_BUDGET, Status.FAILED)
"""The statuses of outcomes that were left to the judge, whatever came of it."""

_NEWEST = and_(
    traces.c.tenant == outcomes.c.tenant,
    traces.c.trace_id == outcomes.c.subject_id,
    traces.c.revision == outcomes.c.revision,
)


def read_pending(connection: TenantConnection, before: int, after: str, limit: int) -> list[JudgeJob]:
    """The newest revisions that wait for the judge since before that time (ns), by trace id from `after` on."""
    waiting: tuple[ColumnElement[bool], ...] = (
        own(outcomes),
        outcomes.c.subject == Subject.TRACE,
        # As the index of pending outcomes has it, which SQLite takes for a constant only.
        literal_column("outcomes.status = 'pending'"),
        outcomes.c.evaluated_at < before,
    )
    some = select(outcomes.c.subject_id).distinct().join(traces, _NEWEST)
    some = some.where(*waiting, outcomes.c.subject_id > after).order_by(outcomes.c.subject_id).limit(limit)
    query = select(outcomes).join(traces, _NEWEST).where(*waiting, outcomes.c.subject_id.in_(some))
    query = query.order_by(outcomes.c.subject_id)
    return [job_of(pending) for pending in _by_trace(connection.execute(query).mappings().all())]


def is_left_to_judge(connection: TenantConnection, session_id: str) -> bool:
    """Return whether a trace of the session was left to the judge, whatever came of it."""
    query = select(outcomes.c.status).where(
        *_of_judge(),
        outcomes.c.session_id == session_id,
        outcomes.c.status.in_(LEFT_TO_JUDGE),
    )
    return connection.execute(query.limit(1)).first() is not None


def read_judged(
    connection: TenantConnection,
    of_trace: Sequence[ColumnElement[bool]],
    of_outcome: Sequence[ColumnElement[bool]],
    limit: int,
) -> list[list[Evaluation]]:
    """Judged outcomes by trace: of the newest of these traces that have any, at most `limit`."""
    # By the traces: grouped outcomes would have SQLite walk those of all traces there are.
    some = select(traces.c.trace_id).where(own(traces), *of_trace, exists().where(_NEWEST, *_of_judge(), *of_outcome))
    some = some.order_by(traces.c.started_at.desc()).limit(limit)
    query = select(outcomes).where(*_of_judge(), *of_outcome, outcomes.c.subject_id.in_(some))
    query = query.order_by(outcomes.c.subject_id)
    return list(_by_trace(connection.execute(query).mappings().all()))


def _of_judge() -> tuple[ColumnElement[bool], ...]:
    return (
        own(outcomes),
        outcomes.c.subject == Subject.TRACE,
        outcomes.c.method == Method.LLM,
    )


def _by_trace(rows: Iterable[Mapping[Any, Any]]) -> Iterable[list[Evaluation]]:
    for _, found in groupby((evaluation_of(row) for row in rows), key=lambda each: each.subject_id):
        yield list(found)
