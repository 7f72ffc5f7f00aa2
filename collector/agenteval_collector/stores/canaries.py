"""The judge's canaries in the store."""

from collections.abc import Iterable

from sqlalchemy import ColumnElement, delete, exists, or_, select, update

from agenteval_collector.model.drift import CanaryAnswer
from agenteval_collector.model.reports import LabelSource
from agenteval_collector.stores.access import TenantDatabase
from agenteval_collector.stores.columns import SameNames
from agenteval_collector.stores.judging import read_judged
from agenteval_collector.stores.schema import judge_canaries, labels, outcomes, own, traces
from otel_agenteval.outcome import Evaluation, Part, Status

_SAME = SameNames(CanaryAnswer, judge_canaries)


class JudgeCanaryStore:
    """`CanaryStore` on the store's file."""

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database

    def canaries(self) -> list[CanaryAnswer]:
        return self._answers(~judge_canaries.c.gone)

    def answers(self) -> list[CanaryAnswer]:
        return self._answers()

    def keep_answers(self, answers: Iterable[CanaryAnswer]) -> None:
        with self._database.writing() as connection:
            connection.upsert(judge_canaries, ({**_SAME.columns_of(each), "gone": False} for each in answers))

    def drop_canary(self, trace_id: str) -> None:
        of_trace = own(judge_canaries), judge_canaries.c.trace_id == trace_id
        with self._database.writing() as connection:
            connection.execute(update(judge_canaries).where(*of_trace).values(gone=True))

    def forget_answers(self, *, before: int) -> None:
        with self._database.writing() as connection:
            connection.execute(delete(judge_canaries).where(own(judge_canaries), judge_canaries.c.last_at < before))

    def candidates(self, *, labelled: bool, limit: int) -> list[list[Evaluation]]:
        canary = exists().where(own(judge_canaries), judge_canaries.c.trace_id == traces.c.trace_id)
        of_trace: list[ColumnElement[bool]] = [~canary]
        of_outcome: list[ColumnElement[bool]] = [outcomes.c.status == Status.SCORED]
        if labelled:
            by_person = labels.c.source == LabelSource.PERSON
            of_trace.append(exists().where(own(labels), labels.c.trace_id == traces.c.trace_id, by_person))
        else:
            of_outcome.append(or_(outcomes.c.part.is_(None), outcomes.c.part != Part.ESCALATED))
        with self._database.reading() as connection:
            return read_judged(connection, of_trace, of_outcome, limit)

    def _answers(self, *which: ColumnElement[bool]) -> list[CanaryAnswer]:
        with self._database.reading() as connection:
            rows = connection.execute(select(judge_canaries).where(own(judge_canaries), *which)).mappings()
            return [CanaryAnswer(**_SAME.fields_in(row)) for row in rows]
