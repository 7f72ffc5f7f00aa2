"""Read a listing page by page."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, tuple_

from agenteval_collector.model.cursors import MAX_INTEGER, Page, decode_cursor, encode_cursor
from agenteval_collector.stores.access import TenantConnection

_BEFORE_ALL: Final[dict[type, int | str]] = {int: MAX_INTEGER, str: ""}


def read_page(
    connection: TenantConnection,
    query: Select[Any],
    order: Sequence[ColumnElement[Any]],
    *,
    limit: int,
    cursor: str | None,
) -> Page[Mapping[Any, Any]]:
    """Return at most `limit` rows from where the cursor points. The rows with the largest values of `order` come first.
    `order` has columns of the query: integers, except for the last one, which is a text. Raises InvalidRequest for a
    cursor of another listing."""
    kinds = [column.type.python_type for column in order]
    if cursor is not None:
        query = query.where(tuple_(*order) < decode_cursor(cursor, *kinds))
    # One row more than wanted shows whether there is a next page.
    rows = connection.execute(query.order_by(*(column.desc() for column in order)).limit(limit + 1)).mappings().all()
    shown: list[Mapping[Any, Any]] = [*rows[:limit]]
    if len(rows) <= limit:
        return Page(items=shown, next_cursor=None)
    # If no row is shown, the next page begins with the first of all.
    end = [shown[-1][column] for column in order] if shown else [_BEFORE_ALL[kind] for kind in kinds]
    return Page(items=shown, next_cursor=encode_cursor(end))
