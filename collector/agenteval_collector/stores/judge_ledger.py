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
    """What the judge has used up, by hour and model. An hour is counted from the Unix epoch, UTC."""

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database

    def spend(
        self, hour: int, model: str, spend: Spend, fits: Callable[[Callable[[int], Spend]], bool] | None = None
    ) -> bool:
        """Add to what was spent if `fits` agrees, and return whether it did. None always agrees.

        The addition is durable on return, even if the process is killed right after. The errors of `fits` are raised,
        and nothing is added then. Nobody else spends in between, in this process or another one.
        """
        with self._database.sharing("judge_ledger") as connection:
            has_room = fits is None or fits(partial(_spent_since, connection))
            if has_room:
                connection.upsert(judge_ledger, [{"hour": hour, "model": model, **asdict(spend)}])
        return has_room

    def spent_since(self, hour: int) -> Spend:
        """Sum up what was spent from the beginning of that hour to now, over all models."""
        with self._database.reading() as connection:
            return _spent_since(connection, hour)


def _spent_since(connection: TenantConnection, hour: int) -> Spend:
    return Spend(**connection.execute(_SPENT_SINCE, {"hour": hour}).one()._mapping)
