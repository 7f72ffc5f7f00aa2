"""The judge in the store: its exchanges and what they have cost, what waits for it, and what it has not scored."""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from itertools import groupby
from typing import Any

from sqlalchemy import ColumnElement, TextClause, and_, bindparam, delete, exists, func, literal_column, or_, select

from agenteval_collector.model.judging import Exchange, JudgeJob, Judgement, Spend, job_of
from agenteval_collector.stores.access import TenantConnection, TenantDatabase
from agenteval_collector.stores.columns import SameNames
from agenteval_collector.stores.judge_answers import trim_answers
from agenteval_collector.stores.rows import evaluation_of
from agenteval_collector.stores.schema import judge_exchanges, judge_ledger, outcomes, own, sessions, traces
from otel_agenteval.outcome import Evaluation, Method, Part, Status, Subject
from otel_agenteval.text import storable

SPENT = [field.name for field in fields(Spend)]
_SPENT_SINCE = select(*(func.coalesce(func.sum(judge_ledger.c[name]), 0).label(name) for name in SPENT)).where(
    own(judge_ledger), judge_ledger.c.hour >= bindparam("hour")
)

_EXCHANGE = SameNames(Exchange, judge_exchanges)

TRIMMED = 256
"""Exchanges forgotten with each commit; more than it brings on average, so that the old ones become fewer."""


class JudgeLedgerStore:
    """`LedgerStore` on the store's file. A commit survives the process, kill -9 included."""

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database

    def spend(self, hour: int, model: str, spend: Spend) -> None:
        with self._database.sharing("judge_ledger") as connection:
            connection.upsert(judge_ledger, [{"hour": hour, "model": model, **asdict(spend)}])

    def spend_if(self, hour: int, model: str, spend: Spend, fits: Callable[[Callable[[int], Spend]], bool]) -> bool:
        with self._database.sharing("judge_ledger") as connection:
            has_room = fits(partial(_spent_since, connection))
            if has_room:
                connection.upsert(judge_ledger, [{"hour": hour, "model": model, **asdict(spend)}])
        return has_room

    def spent_since(self, hour: int) -> Spend:
        with self._database.reading() as connection:
            return _spent_since(connection, hour)


def _spent_since(connection: TenantConnection, hour: int) -> Spend:
    return Spend(**connection.execute(_SPENT_SINCE, {"hour": hour}).one()._mapping)


def write_exchanges(connection: TenantConnection, judgement: Judgement) -> None:
    """Keep these instead of what was kept of the same trace or session."""
    job = judgement.job
    forget_exchanges(connection, job.subject, job.trace_id)
    place = {"subject": job.subject, "subject_id": job.trace_id, "revision": job.revision}
    rows = ({**place, "position": position, **_row(each)} for position, each in enumerate(judgement.exchanges))
    connection.upsert(judge_exchanges, rows)


def forget_exchanges(connection: TenantConnection, subject: Subject, subject_id: str) -> None:
    """Forget what was asked about a trace or a session."""
    connection.execute(delete(judge_exchanges).where(*_about(subject, subject_id)))


def trim_exchanges(connection: TenantConnection, before: int) -> None:
    """Forget some of what was asked, and answered, before that time (ns), the oldest first."""
    trim_answers(connection, before)
    if not connection.drop_old(judge_exchanges, before):
        connection.execute(_TRIM, {"before": before})


_OLD = (own(judge_exchanges), judge_exchanges.c.asked_at < bindparam("before"))
# Made once: making it costs more than running it.
_TRIM = delete(judge_exchanges).where(
    *_OLD,
    judge_exchanges.c.subject_id.in_(
        select(judge_exchanges.c.subject_id).where(*_OLD).order_by(judge_exchanges.c.asked_at).limit(TRIMMED)
    ),
)


def read_exchanges(connection: TenantConnection, subject: Subject, subject_id: str) -> list[Exchange]:
    """Return the exchanges about a trace or a session, in the order of asking."""
    query = select(judge_exchanges).where(*_about(subject, subject_id))
    query = query.order_by(judge_exchanges.c.revision, judge_exchanges.c.position)
    return [_exchange(row) for row in connection.execute(query).mappings()]


def _about(subject: Subject, subject_id: str) -> tuple[ColumnElement[bool], ...]:
    return own(judge_exchanges), judge_exchanges.c.subject == subject, judge_exchanges.c.subject_id == subject_id


def _exchange(row: Mapping[Any, Any]) -> Exchange:
    return Exchange(**_EXCHANGE.fields_in(row) | {"data": zlib.decompress(row["data"]).decode()})


def _row(exchange: Exchange) -> dict[str, Any]:
    values = _EXCHANGE.columns_of(exchange)
    texts = {name: storable(value) for name, value in values.items() if isinstance(value, str)}
    return values | texts | {"data": zlib.compress(texts["data"].encode())}


_OF_JUDGE = (own(outcomes), outcomes.c.subject == Subject.TRACE, outcomes.c.method == Method.LLM)
_NEWEST = and_(
    traces.c.tenant == outcomes.c.tenant,
    traces.c.trace_id == outcomes.c.subject_id,
    traces.c.revision == outcomes.c.revision,
)
_NEWEST_SESSION = and_(
    sessions.c.tenant == outcomes.c.tenant,
    sessions.c.session_id == outcomes.c.subject_id,
    sessions.c.revision == outcomes.c.revision,
)


def read_pending(connection: TenantConnection, subject: Subject, before: int, after: str, limit: int) -> list[JudgeJob]:
    """Return the newest revisions that wait for the judge since before that time (ns), by their ids from `after` on."""
    table, newest = (sessions, _NEWEST_SESSION) if subject is Subject.SESSION else (traces, _NEWEST)
    waiting: tuple[ColumnElement[bool], ...] = (
        own(outcomes),
        outcomes.c.subject == subject,
        outcomes.c.method == Method.LLM,
        # As the index of pending outcomes has it, which SQLite takes for a constant only.
        literal_column("outcomes.status = 'pending'"),
        outcomes.c.evaluated_at < before,
    )
    some = select(outcomes.c.subject_id).distinct().join(table, newest)
    some = some.where(*waiting, outcomes.c.subject_id > after).order_by(outcomes.c.subject_id).limit(limit)
    query = select(outcomes).join(table, newest).where(*waiting, outcomes.c.subject_id.in_(some))
    query = query.order_by(outcomes.c.subject_id)
    return [job_of(pending) for pending in _by_trace(connection.execute(query).mappings().all())]


def read_parts(connection: TenantConnection, session_id: str) -> frozenset[Part | None]:
    """Return the parts of the sample that traces of the session belong to; None stands for those sampled out."""
    query = select(outcomes.c.part).where(
        *_OF_JUDGE,
        outcomes.c.session_id == session_id,
        or_(outcomes.c.part.is_not(None), outcomes.c.status == Status.SAMPLED_OUT),
    )
    return frozenset(part and Part(part) for part in connection.execute(query.distinct()).scalars())


def read_judged(
    connection: TenantConnection,
    of_trace: Sequence[ColumnElement[bool]],
    of_outcome: Sequence[ColumnElement[bool] | TextClause],
    limit: int,
    *,
    newest: ColumnElement[int] = traces.c.started_at,
) -> list[list[Evaluation]]:
    """Return judged outcomes by trace: of the newest of these traces that have any, at most `limit`.

    `newest` is `CAME` where these may be most of all traces: then no more of them are looked at than it takes.
    """
    # By the traces: grouped outcomes would have SQLite walk those of all traces there are.
    some = select(traces.c.trace_id).where(own(traces), *of_trace, exists().where(_NEWEST, *_OF_JUDGE, *of_outcome))
    some = some.order_by(newest.desc()).limit(limit)
    query = select(outcomes).where(*_OF_JUDGE, *of_outcome, outcomes.c.subject_id.in_(some))
    query = query.order_by(outcomes.c.subject_id)
    return list(_by_trace(connection.execute(query).mappings().all()))


def _by_trace(rows: Iterable[Mapping[Any, Any]]) -> Iterable[list[Evaluation]]:
    for _, found in groupby((evaluation_of(row) for row in rows), key=lambda each: each.subject_id):
        yield list(found)
