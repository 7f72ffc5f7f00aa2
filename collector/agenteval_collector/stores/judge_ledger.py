"""Keep what the judge has used up, by hour and model."""

from collections.abc import Callable
from dataclasses import asdict, fields
from functools import partial
from typing import Final

from sqlalchemy import bindparam, func, select

from agenteval_collector.model.judge_jobs import Spend
from agenteval_collector.stores.access import TenantConnection, TenantDatabase
from agenteval_collector.stores.schema import judge_ledger, own

_SPENT: Final = (func.coalesce(func.sum(judge_ledger.c[field.name]), 0).label(field.name) for field in fields(Spend))
_SPENT_SINCE: Final = select(*_SPENT).where(own(judge_ledger), judge_ledger.c.hour >= bindparam("hour"))


class JudgeLedgerStore:
    """`LedgerStore` on the store's database. A commit survives the process, kill -9 included."""

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database

    def spend(
        self, hour: int, model: str, spend: Spend, fits: Callable[[Callable[[int], Spend]], bool] | None = None
    ) -> bool:
        with self._database.sharing("judge_ledger") as connection:
            has_room = fits is None or fits(partial(_spent_since, connection))
            if has_room:
                connection.upsert(judge_ledger, [{"hour": hour, "model": model, **asdict(spend)}])
        return has_room

    def spent_since(self, hour: int) -> Spend:
        with self._database.reading() as connection:
            return _spent_since(connection, hour)


def _spent_since(connection: TenantConnection, hour: int) -> Spend:
    return Spend(**connection.execute(_SPENT_SINCE, {"hour": hour}).one()._mapping)
