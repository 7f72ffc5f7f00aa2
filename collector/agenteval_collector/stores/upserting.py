"""Rows that replace those of the same key."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite import insert

from agenteval_collector.stores.access import TenantConnection
from agenteval_collector.stores.schema import findings, outcomes, progress, sessions, trace_views, traces


def upsert(connection: TenantConnection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Keep `rows`, each with every column of the table by its name."""
    connection.insert_sql(_UPSERTS[table.name], rows)


def _upsert_sql(table: Table, keep: Sequence[str] = (), keep_true: Sequence[str] = ()) -> str:
    """`keep` names columns that a newer row does not change, `keep_true` those it cannot make false again.

    SQL with a parameter for every column, by its name: rows need nothing done to them, and looking at each for what
    might be done takes SQLAlchemy as long as SQLite takes to write it.
    """
    statement = insert(table)
    replaced: dict[str, ColumnElement[Any]] = {
        column.name: statement.excluded[column.name]
        for column in table.columns
        if not column.primary_key and column.name not in keep
    }
    for name in keep_true:
        replaced[name] = table.c[name] | statement.excluded[name]
    statement = statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=replaced)
    return str(statement.compile(dialect=sqlite.dialect(paramstyle="named")))


_UPSERTS: Final = {
    "traces": _upsert_sql(traces),
    "trace_views": _upsert_sql(trace_views),
    "outcomes": _upsert_sql(outcomes, keep_true=("counted",)),
    # Going on is no reason to forget that a session's scores were counted, or that it was reported ended.
    "sessions": _upsert_sql(sessions, keep=("finalized_at", "ended_at")),
    "progress": _upsert_sql(progress),
    "findings": _upsert_sql(findings),
}
