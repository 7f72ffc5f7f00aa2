"""Keep what the judge has used up, by hour and model."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import partial
from typing import Final

from sqlalchemy import bindparam, func, select

from agenteval_collector.model.judge_jobs import Exceeded, Spend, SpendLimit, exceeded
from agenteval_collector.stores.access import TenantConnection, TenantDatabase
from agenteval_collector.stores.schema import judge_ledger, own

_SPENT: Final = (func.coalesce(func.sum(judge_ledger.c[field.name]), 0).label(field.name) for field in fields(Spend))
_SPENT_SINCE: Final = select(*_SPENT).where(own(judge_ledger), judge_ledger.c.hour >= bindparam("hour"))


class JudgeLedgerStore:
    """What the judge has used up, by hour and model. An hour is counted from the Unix epoch, UTC."""

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database

    def spend(self, hour: int, model: str, spend: Spend, limits: Sequence[SpendLimit] = ()) -> Exceeded | None:
        """Add to what was spent, and return None. If a limit is exceeded before, add nothing and return that limit.

        The addition is durable on return, even if the process is killed right after. Nobody else spends between the
        look at the limits and the addition, in this process or another one.
        """
        with self._database.sharing("judge_ledger") as connection:
            over = exceeded(limits, partial(_spent_since, connection))
            if over is None:
                connection.upsert(judge_ledger, [{"hour": hour, "model": model, **asdict(spend)}])
        return over

    def spent_since(self, hour: int) -> Spend:
        """Sum up what was spent from the beginning of that hour to now, over all models."""
        with self._database.reading() as connection:
            return _spent_since(connection, hour)


def _spent_since(connection: TenantConnection, hour: int) -> Spend:
    return Spend(**connection.execute(_SPENT_SINCE, {"hour": hour}).one()._mapping)
