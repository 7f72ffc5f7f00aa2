"""The judge's answers, so that no process asks what any has asked: each by a digest of its question."""

from typing import Final

from sqlalchemy import bindparam, delete, select

from agenteval_collector.model.judging import JudgeJob, StoredAnswer
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.stores.access import TenantConnection, TenantDatabase
from agenteval_collector.stores.columns import SameNames
from agenteval_collector.stores.schema import judge_answers, own, sessions, traces
from otel_agenteval.outcome import Subject

TRIMMED: Final = 256
"""Answers that are forgotten at a time."""

_SAME = SameNames(StoredAnswer, judge_answers)
_OF_KEY = select(judge_answers).where(own(judge_answers), judge_answers.c.key == bindparam("key"))
_IS_THERE = {
    Subject.TRACE: select(traces.c.trace_id).where(own(traces), traces.c.trace_id == bindparam("id")),
    Subject.SESSION: select(sessions.c.session_id).where(own(sessions), sessions.c.session_id == bindparam("id")),
}
_OLDEST = (
    select(judge_answers.c.key)
    .where(own(judge_answers), judge_answers.c.kept_at < bindparam("before"))
    .order_by(judge_answers.c.kept_at)
    .limit(TRIMMED)
)
_TRIM = delete(judge_answers).where(own(judge_answers), judge_answers.c.key.in_(_OLDEST))


class JudgeAnswerStore:
    """The answers by the keys of their questions. Both methods raise Unavailable."""

    def __init__(self, database: TenantDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def answer(self, key: str) -> StoredAnswer | None:
        """Return the answer to a question; None where it is not known."""
        with self._database.reading() as connection:
            row = connection.execute(_OF_KEY, {"key": key}).mappings().first()
        return None if row is None else StoredAnswer(**_SAME.fields_in(row))

    def keep(self, key: str, answer: StoredAnswer, job: JudgeJob) -> None:
        """Keep an answer, with the trace or session that was asked about: it goes with that. Nothing is kept about one
        that is gone already."""
        row = {"key": key, "subject": job.subject, "subject_id": job.trace_id, "kept_at": self._clock.now()}
        with self._database.sharing(job.trace_id) as connection:
            if connection.execute(_IS_THERE[job.subject], {"id": job.trace_id}).first() is not None:
                connection.upsert(judge_answers, [row | _SAME.columns_of(answer)])


def trim_answers(connection: TenantConnection, before: int) -> None:
    """Forget some of the answers from before that time (ns), the oldest first."""
    connection.execute(_TRIM, {"before": before})
