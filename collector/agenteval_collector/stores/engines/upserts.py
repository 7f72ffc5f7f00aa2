"""The statement that keeps a row in place of the one of the same key, whatever the database."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlalchemy import ColumnElement, Table, func

from agenteval_collector.stores.schema import ON_CONFLICT

_CHANGED: Final[Mapping[str, Callable[[Any, Any], ColumnElement[Any]]]] = {
    "replace": lambda old, new: new,
    "or": lambda old, new: old | new,
    "add": lambda old, new: old + new,
    "fill": lambda old, new: func.coalesce(new, old),
}
"""The value of a column after a row of the same key came, from the old and the new one; see `schema.ON_CONFLICT`."""


def upsert_of(table: Table, insert: Callable[[Table], Any]) -> Any:
    """Return the statement, made from the dialect's own `insert`."""
    statement = insert(table)
    changes = {
        column.name: _CHANGED[column.info.get(ON_CONFLICT, "replace")](column, statement.excluded[column.name])
        for column in table.columns
        if not column.primary_key and column.info.get(ON_CONFLICT) != "keep"
    }
    return statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=changes)
