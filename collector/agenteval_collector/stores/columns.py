"""Convert dataclasses to columns and back: plain fields under their own names, other values as JSON."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, Table


class SameNames:
    """The fields of a dataclass that a table has as columns of the same names and values, `but` for some."""

    def __init__(self, kind: type[Any], table: Table, but: Collection[str] = ()) -> None:
        self.names = [each.name for each in fields(kind) if each.name in table.c and each.name not in but]
        self._values = attrgetter(*self.names)

    def columns_of(self, made: object) -> dict[str, Any]:
        """Return these columns of the row of an object."""
        return dict(zip(self.names, self._values(made), strict=True))

    def fields_in(self, row: Mapping[Any, Any]) -> dict[str, Any]:
        """Return these fields of the object that a row was made from."""
        return {name: row[name] for name in self.names}


def has(column: ColumnElement[str], value: str | None) -> ColumnElement[bool]:
    """Make the condition that a column has this value, or none. An index leads there in every database: for IS NOT
    DISTINCT FROM it does not."""
    return column.is_(None) if value is None else column == value


def _plain(value: Any) -> Any:
    if names := _field_names(value.__class__):
        return {name: getattr(value, name) for name in names}
    return dict(value) if isinstance(value, Mapping) else list(value)


@cache
def _field_names(kind: type[Any]) -> Sequence[str]:
    return [each.name for each in fields(kind)] if is_dataclass(kind) else ()


# Made once, as a new one would be at each call. Nothing is copied before: what tools return may be large.
to_json = json.JSONEncoder(default=_plain).encode
"""Return a value as JSON, with dataclasses as objects of their fields."""
