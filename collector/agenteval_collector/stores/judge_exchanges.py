"""Keep the exchanges with the judge, and its answers by question."""

import json
import zlib
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Delete, bindparam, delete, select

from agenteval_collector.model.judge_jobs import Answer, JudgeExchange, JudgeJob, Judgement
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.stores.access import TenantConnection, TenantDatabase
from agenteval_collector.stores.rows import FieldMap
from agenteval_collector.stores.schema import judge_answers, judge_exchanges, own, sessions, traces
from otel_agenteval.internal.text import storable
from otel_agenteval.outcome import SubjectKind

TRIMMED: Final = 256
"""The most exchanges, and answers, that are forgotten with each commit. A commit brings fewer on average, so that the
old ones become fewer."""

_EXCHANGE: Final = FieldMap(JudgeExchange, judge_exchanges)
_ANSWER: Final = FieldMap(Answer, judge_answers)


def write_exchanges(connection: TenantConnection, judgement: Judgement) -> None:
    """Keep these exchanges in place of those of the same trace or session."""
    job = judgement.job
    forget_exchanges(connection, job.subject, job.trace_id)
    key = {"subject": job.subject, "subject_id": job.trace_id, "revision": job.revision}
    rows = ({**key, "position": position, **_row(exchange)} for position, exchange in enumerate(judgement.exchanges))
    connection.upsert(judge_exchanges, rows)


def forget_exchanges(connection: TenantConnection, subject: SubjectKind, subject_id: str) -> None:
    """Forget what was asked about a trace or a session."""
    connection.execute(delete(judge_exchanges).where(*_about(subject, subject_id)))


def trim_exchanges(connection: TenantConnection, before: int) -> None:
    """Forget some of the exchanges and answers from before that time (ns), the oldest first."""
    connection.execute(_TRIM_ANSWERS, {"before": before})
    if not connection.drop_old(judge_exchanges, before):
        connection.execute(_TRIM_EXCHANGES, {"before": before})


def _oldest(key: Column[str], time: Column[int]) -> Delete:
    """Make the statement that deletes the rows with the `TRIMMED` oldest keys."""
    old = (own(key.table), time < bindparam("before"))
    return delete(key.table).where(*old, key.in_(select(key).where(*old).order_by(time).limit(TRIMMED)))


# Made once: making a statement costs more than running it.
_TRIM_EXCHANGES: Final = _oldest(judge_exchanges.c.subject_id, judge_exchanges.c.asked_at)
_TRIM_ANSWERS: Final = _oldest(judge_answers.c.key, judge_answers.c.kept_at)


def read_exchanges(connection: TenantConnection, subject: SubjectKind, subject_id: str) -> list[JudgeExchange]:
    """Return the exchanges about a trace or a session, in the order of asking."""
    query = select(judge_exchanges).where(*_about(subject, subject_id))
    query = query.order_by(judge_exchanges.c.revision, judge_exchanges.c.position)
    return [
        JudgeExchange(**_EXCHANGE.fields_in(row) | {"data": zlib.decompress(row["data"]).decode()})
        for row in connection.execute(query).mappings()
    ]


def _about(subject: SubjectKind, subject_id: str) -> tuple[ColumnElement[bool], ...]:
    return own(judge_exchanges), judge_exchanges.c.subject == subject, judge_exchanges.c.subject_id == subject_id


def _row(exchange: JudgeExchange) -> dict[str, Any]:
    values = _EXCHANGE.columns_of(exchange)
    texts = {name: storable(value) for name, value in values.items() if isinstance(value, str)}
    return values | texts | {"data": zlib.compress(texts["data"].encode())}


_OF_KEY: Final = select(judge_answers).where(own(judge_answers), judge_answers.c.key == bindparam("key"))
_IS_THERE: Final = {
    SubjectKind.TRACE: select(traces.c.trace_id).where(own(traces), traces.c.trace_id == bindparam("id")),
    SubjectKind.SESSION: select(sessions.c.session_id).where(own(sessions), sessions.c.session_id == bindparam("id")),
}


class JudgeAnswerStore:
    """The judge's answers by digests of their questions, so that no process asks what any process has asked before.
    Both methods raise Unavailable."""

    def __init__(self, database: TenantDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def answer(self, key: str) -> Answer | None:
        """Return the answer to a question; None if it is not known."""
        rows = self._database.mappings(_OF_KEY, {"key": key})
        return Answer(**{**_ANSWER.fields_in(rows[0]), "reply": json.loads(rows[0]["reply"])}) if rows else None

    def keep(self, key: str, answer: Answer, job: JudgeJob) -> None:
        """Keep an answer with the trace or session that was asked about, so that both are deleted together. Keep
        nothing about one that is gone already."""
        place = {"key": key, "subject": job.subject, "subject_id": job.trace_id, "kept_at": self._clock.now()}
        row = {**place, **_ANSWER.columns_of(answer), "reply": json.dumps(answer.reply)}
        with self._database.sharing(job.trace_id) as connection:
            if connection.execute(_IS_THERE[job.subject], {"id": job.trace_id}).first() is not None:
                connection.upsert(judge_answers, [row])
