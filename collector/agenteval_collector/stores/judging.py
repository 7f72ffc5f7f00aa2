"""The exchanges with the judge, and what they have cost."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import bindparam, delete, func, insert, select
from sqlalchemy.dialects.sqlite import insert as upsert

from agenteval_collector.model.judging import Exchange, Spend
from agenteval_collector.stores.access import TenantConnection, TenantDatabase
from agenteval_collector.stores.schema import judge_exchanges, judge_ledger, own
from otel_agenteval.text import storable

SPENT = [field.name for field in fields(Spend)]

_INSERT = upsert(judge_ledger)
_ADD = _INSERT.on_conflict_do_update(
    index_elements=list(judge_ledger.primary_key),
    set_={name: judge_ledger.c[name] + _INSERT.excluded[name] for name in SPENT},
)

TRIMMED = 256
"""Exchanges forgotten with each commit; more than it brings on average, so that the old ones become fewer."""


class JudgeLedgerStore:
    """`LedgerStore` on the store's file. A commit survives the process, kill -9 included."""

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database

    def spend(self, hour: int, model: str, spend: Spend) -> None:
        with self._database.writing() as connection:
            connection.insert(_ADD, [{"hour": hour, "model": model, **asdict(spend)}])

    def spent_since(self, hour: int) -> Spend:
        sums = (func.coalesce(func.sum(judge_ledger.c[name]), 0).label(name) for name in SPENT)
        query = select(*sums).where(own(judge_ledger), judge_ledger.c.hour >= hour)
        with self._database.reading() as connection:
            return Spend(**connection.execute(query).one()._mapping)


def write_exchanges(connection: TenantConnection, trace_id: str, revision: int, exchanges: Sequence[Exchange]) -> None:
    """Keep these instead of what was kept of the trace."""
    of_trace = (own(judge_exchanges), judge_exchanges.c.trace_id == trace_id)
    connection.execute(delete(judge_exchanges).where(*of_trace))
    place = {"trace_id": trace_id, "revision": revision}
    rows = ({**place, "position": position, **_row(each)} for position, each in enumerate(exchanges))
    connection.insert(insert(judge_exchanges), rows)


def trim_exchanges(connection: TenantConnection, before: int) -> None:
    """Forget some of what was asked before that time (ns), the oldest first."""
    connection.execute(_TRIM, {"before": before})


_OLD = (own(judge_exchanges), judge_exchanges.c.asked_at < bindparam("before"))
# Made once: making it costs more than running it.
_TRIM = delete(judge_exchanges).where(
    *_OLD,
    judge_exchanges.c.trace_id.in_(
        select(judge_exchanges.c.trace_id).where(*_OLD).order_by(judge_exchanges.c.asked_at).limit(TRIMMED)
    ),
)


def read_exchanges(connection: TenantConnection, trace_id: str) -> list[Exchange]:
    """Return the exchanges about a trace, in the order of asking."""
    query = (
        select(judge_exchanges)
        .where(own(judge_exchanges), judge_exchanges.c.trace_id == trace_id)
        .order_by(judge_exchanges.c.revision, judge_exchanges.c.position)
    )
    return [_exchange(row) for row in connection.execute(query).mappings()]


def _exchange(row: Mapping[Any, Any]) -> Exchange:
    values = {field.name: row[field.name] for field in fields(Exchange)}
    return Exchange(**{**values, "data": zlib.decompress(row["data"]).decode()})


def _row(exchange: Exchange) -> dict[str, Any]:
    values = {name: storable(value) if isinstance(value, str) else value for name, value in asdict(exchange).items()}
    return {**values, "data": zlib.compress(values["data"].encode())}
