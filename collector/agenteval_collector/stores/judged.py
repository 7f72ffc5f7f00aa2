"""Look up what the judge has scored, and what it has not, for those who ask it again."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import ColumnElement, TextClause, or_

from agenteval_collector.stores.access import TenantDatabase
from agenteval_collector.stores.goals import read_goals
from agenteval_collector.stores.judging import read_judged
from agenteval_collector.stores.schema import CAME, JUDGED_FAILED, outcomes, sessions, traces
from otel_agenteval.outcome import Evaluation, Part, Status

_LEFT_OUT: Final = (Status.FAILED, Status.OVER_BUDGET, Status.SAMPLED_OUT, Status.NO_JUDGE)


class JudgedStore:
    """The judge's outcomes, by trace or session. Safe from any thread; raises Unavailable."""

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database

    def left_out(self, trace_ids: Sequence[str], session_ids: Sequence[str], limit: int) -> list[list[Evaluation]]:
        """Return the outcomes of these traces, and of these sessions, that the judge could still score."""
        left_out = [outcomes.c.status.in_(_LEFT_OUT)]
        with self._database.reading() as connection:
            found = read_judged(connection, [traces.c.trace_id.in_(trace_ids)], left_out, limit)
            goals = read_goals(connection, [sessions.c.session_id.in_(session_ids), *left_out], limit - len(found))
        return [*found, *([goal] for goal in goals)]

    def failed_since(self, time: int, limit: int) -> list[list[Evaluation]]:
        """Return the outcomes that failed, or had no budget, since that time (ns): of the newest traces, and of
        sessions."""
        failed: list[ColumnElement[bool] | TextClause] = [JUDGED_FAILED, outcomes.c.evaluated_at >= time]
        with self._database.reading() as connection:
            found = read_judged(connection, [], failed, limit)
            goals = read_goals(connection, failed, limit - len(found))
        return [*found, *([goal] for goal in goals)]

    def scored(self, limit: int) -> list[list[Evaluation]]:
        """Return the judge's scores of the newest traces that have any, by trace; but not of those that were judged
        because of what was found in them."""
        scored = outcomes.c.status == Status.SCORED
        at_random = or_(outcomes.c.part.is_(None), outcomes.c.part != Part.ESCALATED)
        with self._database.reading() as connection:
            return read_judged(connection, [], [scored, at_random], limit, newest=CAME)
