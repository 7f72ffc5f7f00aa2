"""What the judge was asked and answered, and what it has cost."""

import zlib
from collections.abc import Sequence
from dataclasses import asdict, fields

from sqlalchemy import Connection, Engine, bindparam, delete, func, insert, select
from sqlalchemy.dialects.sqlite import insert as upsert

from agenteval_collector.judge.ports import Spend
from agenteval_collector.model.judging import Exchange
from agenteval_collector.stores.access import reading, writing
from agenteval_collector.stores.schema import judge_exchanges, judge_ledger

SPENT = [field.name for field in fields(Spend)]

TRIMMED = 256
"""Exchanges forgotten with each commit; more than it brings on average, so that the old ones become fewer."""


class JudgeLedgerStore:
    """`LedgerStore` on the store's file. A commit survives the process, kill -9 included."""

    def __init__(self, engine: Engine, tenant: str) -> None:
        self._engine = engine
        self._tenant = tenant

    def spend(self, hour: int, model: str, spend: Spend) -> None:
        values = {"tenant": self._tenant, "hour": hour, "model": model, **asdict(spend)}
        statement = upsert(judge_ledger).values(values)
        added = {name: judge_ledger.c[name] + statement.excluded[name] for name in SPENT}
        statement = statement.on_conflict_do_update(index_elements=list(judge_ledger.primary_key), set_=added)
        with writing(self._engine) as connection:
            connection.execute(statement)

    def spent_since(self, hour: int) -> Spend:
        sums = (func.coalesce(func.sum(judge_ledger.c[name]), 0).label(name) for name in SPENT)
        query = select(*sums).where(judge_ledger.c.tenant == self._tenant, judge_ledger.c.hour >= hour)
        with reading(self._engine) as connection:
            return Spend(**connection.execute(query).one()._mapping)


def write_exchanges(
    connection: Connection, tenant: str, trace_id: str, revision: int, exchanges: Sequence[Exchange]
) -> None:
    """Keep these instead of what was kept of the trace."""
    of_trace = (judge_exchanges.c.tenant == tenant, judge_exchanges.c.trace_id == trace_id)
    connection.execute(delete(judge_exchanges).where(*of_trace))
    if exchanges:
        place = {"tenant": tenant, "trace_id": trace_id, "revision": revision}
        rows = [{**place, "position": position, **_row(each)} for position, each in enumerate(exchanges)]
        connection.execute(insert(judge_exchanges), rows)


def trim_exchanges(connection: Connection, tenant: str, before: int) -> None:
    """Forget some of what was asked before that time (ns), the oldest first."""
    connection.execute(_TRIM, {"tenant": tenant, "before": before})


_OLD = (judge_exchanges.c.tenant == bindparam("tenant"), judge_exchanges.c.asked_at < bindparam("before"))
# Made once: making it costs more than running it.
_TRIM = delete(judge_exchanges).where(
    *_OLD,
    judge_exchanges.c.trace_id.in_(
        select(judge_exchanges.c.trace_id).where(*_OLD).order_by(judge_exchanges.c.asked_at).limit(TRIMMED)
    ),
)


def read_exchanges(connection: Connection, tenant: str, trace_id: str) -> list[Exchange]:
    """What was asked about a trace, in the order of asking."""
    query = (
        select(judge_exchanges)
        .where(judge_exchanges.c.tenant == tenant, judge_exchanges.c.trace_id == trace_id)
        .order_by(judge_exchanges.c.revision, judge_exchanges.c.position)
    )
    return [
        Exchange(
            question=row.question,
            version=row.version,
            model=row.model,
            asked_at=row.asked_at,
            instructions=row.instructions,
            data=zlib.decompress(row.data).decode(),
            reply=row.reply,
            problem=row.problem,
            input_tokens=row.input_tokens,
            output_tokens=row.output_tokens,
            usd=row.usd,
            seconds=row.seconds,
            cached=row.cached,
        )
        for row in connection.execute(query)
    ]


def _row(exchange: Exchange) -> dict[str, object]:
    return {
        "question": exchange.question,
        "version": exchange.version,
        "model": _storable(exchange.model),
        "asked_at": exchange.asked_at,
        "instructions": _storable(exchange.instructions),
        "data": zlib.compress(exchange.data.encode(errors="replace")),
        "reply": _storable(exchange.reply),
        "problem": _storable(exchange.problem),
        "input_tokens": exchange.input_tokens,
        "output_tokens": exchange.output_tokens,
        "usd": exchange.usd,
        "seconds": exchange.seconds,
        "cached": exchange.cached,
    }


def _storable(text: str | None) -> str | None:
    """Replies and errors come from outside and may hold lone surrogates, which UTF-8 cannot."""
    return None if text is None else text.encode(errors="replace").decode()
