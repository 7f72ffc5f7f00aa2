"""The judge's canaries in the store."""

from collections.abc import Iterable

from sqlalchemy import delete, exists, select

from agenteval_collector.model.drift import Canary, CanaryAnswer
from agenteval_collector.model.labels import LabelSource
from agenteval_collector.stores.access import TenantDatabase, delete_one
from agenteval_collector.stores.judged_outcomes import NOT_ESCALATED, SCORED, read_judged
from agenteval_collector.stores.rows import FieldMap
from agenteval_collector.stores.schema import CAME, canary_answers, judge_canaries, labels, own, traces
from otel_agenteval.outcome import Evaluation

_CANARY = FieldMap(Canary, judge_canaries)
_ANSWER = FieldMap(CanaryAnswer, canary_answers)


class JudgeCanaryStore:
    """The canaries, and the judge's answers about them. Raises Unavailable.

    Each answer is kept by trace, evaluator, version and model.
    """

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database

    def canaries(self) -> list[Canary]:
        """Return all canaries, ordered by trace id."""
        columns = (judge_canaries.c[name] for name in _CANARY.names)
        query = select(*columns).where(own(judge_canaries)).order_by(judge_canaries.c.trace_id)
        return [Canary(**row) for row in self._database.mappings(query)]

    def add_canary(self, canary: Canary, frozen: bytes, answers: Iterable[CanaryAnswer]) -> None:
        """Keep a canary with its frozen trace, and with the answers that it has already."""
        with self._database.writing() as connection:
            connection.upsert(judge_canaries, [{**_CANARY.columns_of(canary), "frozen": frozen}])
            connection.upsert(canary_answers, map(_ANSWER.columns_of, answers))

    def frozen(self, trace_id: str) -> bytes | None:
        """Return the frozen trace of a canary. Return None if the trace is not a canary any more."""
        query = select(judge_canaries.c.frozen).where(own(judge_canaries), judge_canaries.c.trace_id == trace_id)
        frozen: bytes | None = self._database.value(query)
        return frozen

    def drop_canary(self, trace_id: str) -> None:
        """Forget a canary with its frozen trace. Its answers stay."""
        self._database.change(delete_one(judge_canaries), {"trace_id": trace_id})

    def answers(self) -> list[CanaryAnswer]:
        """Return all answers, including those about traces that are no longer canaries."""
        rows = self._database.mappings(select(canary_answers).where(own(canary_answers)))
        return [CanaryAnswer(**_ANSWER.fields_in(row)) for row in rows]

    def keep_answers(self, answers: Iterable[CanaryAnswer]) -> None:
        """Keep these as the newest answers. The first answers stay."""
        with self._database.writing() as connection:
            connection.upsert(canary_answers, map(_ANSWER.columns_of, answers))

    def forget_answers(self, *, before: int) -> None:
        """Forget each answer whose newest score was given before that time (ns)."""
        self._database.change(delete(canary_answers).where(own(canary_answers), canary_answers.c.last_at < before))

    def candidates(self, *, labelled: bool, limit: int) -> list[list[Evaluation]]:
        """Return the judge's scores of the newest traces that were never canaries, grouped by trace.

        These are traces that people have labelled, or else any. Traces that were judged because of a finding are left
        out of the latter.
        """
        is_canary = exists().where(own(canary_answers), canary_answers.c.trace_id == traces.c.trace_id)
        by_person = labels.c.source == LabelSource.PERSON
        has_label = exists().where(own(labels), labels.c.trace_id == traces.c.trace_id, by_person)
        of_trace, of_outcome = ([has_label], [SCORED]) if labelled else ([], [SCORED, NOT_ESCALATED])
        with self._database.reading() as connection:
            return read_judged(connection, [~is_canary, *of_trace], of_outcome, limit, newest=CAME)
