"""The judge's canaries in the store."""

from collections.abc import Iterable

from sqlalchemy import ColumnElement, delete, exists, or_, select

from agenteval_collector.model.drift import Canary, CanaryAnswer
from agenteval_collector.model.reports import LabelSource
from agenteval_collector.stores.access import TenantDatabase
from agenteval_collector.stores.columns import SameNames
from agenteval_collector.stores.judging import read_judged
from agenteval_collector.stores.schema import CAME, canary_answers, judge_canaries, labels, outcomes, own, traces
from otel_agenteval.outcome import Evaluation, Part, Status

_CANARY = SameNames(Canary, judge_canaries)
_ANSWER = SameNames(CanaryAnswer, canary_answers)


class JudgeCanaryStore:
    """`CanaryStore` on the store's file."""

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database

    def canaries(self) -> list[Canary]:
        columns = (judge_canaries.c[name] for name in _CANARY.names)
        query = select(*columns).where(own(judge_canaries)).order_by(judge_canaries.c.trace_id)
        with self._database.reading() as connection:
            return [Canary(**_CANARY.fields_in(row)) for row in connection.execute(query).mappings()]

    def add_canary(self, canary: Canary, frozen: bytes, answers: Iterable[CanaryAnswer]) -> None:
        with self._database.writing() as connection:
            connection.upsert(judge_canaries, [{**_CANARY.columns_of(canary), "frozen": frozen}])
            connection.upsert(canary_answers, map(_ANSWER.columns_of, answers))

    def frozen(self, trace_id: str) -> bytes | None:
        query = select(judge_canaries.c.frozen).where(*_is(trace_id))
        with self._database.reading() as connection:
            return connection.execute(query).scalar()

    def drop_canary(self, trace_id: str) -> None:
        with self._database.writing() as connection:
            connection.execute(delete(judge_canaries).where(*_is(trace_id)))

    def answers(self) -> list[CanaryAnswer]:
        query = select(canary_answers).where(own(canary_answers))
        with self._database.reading() as connection:
            return [CanaryAnswer(**_ANSWER.fields_in(row)) for row in connection.execute(query).mappings()]

    def keep_answers(self, answers: Iterable[CanaryAnswer]) -> None:
        with self._database.writing() as connection:
            connection.upsert(canary_answers, map(_ANSWER.columns_of, answers))

    def forget_answers(self, *, before: int) -> None:
        with self._database.writing() as connection:
            connection.execute(delete(canary_answers).where(own(canary_answers), canary_answers.c.last_at < before))

    def candidates(self, *, labelled: bool, limit: int) -> list[list[Evaluation]]:
        canary = exists().where(own(canary_answers), canary_answers.c.trace_id == traces.c.trace_id)
        of_trace: list[ColumnElement[bool]] = [~canary]
        of_outcome: list[ColumnElement[bool]] = [outcomes.c.status == Status.SCORED]
        if labelled:
            by_person = labels.c.source == LabelSource.PERSON
            of_trace.append(exists().where(own(labels), labels.c.trace_id == traces.c.trace_id, by_person))
        else:
            of_outcome.append(or_(outcomes.c.part.is_(None), outcomes.c.part != Part.ESCALATED))
        with self._database.reading() as connection:
            return read_judged(connection, of_trace, of_outcome, limit, newest=CAME)


def _is(trace_id: str) -> tuple[ColumnElement[bool], ...]:
    return own(judge_canaries), judge_canaries.c.trace_id == trace_id
