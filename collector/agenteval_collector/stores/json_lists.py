"""Lists in JSON, in the SQL of each database that we use."""

from typing import Any

from sqlalchemy import ColumnElement, String, TableValuedAlias, bindparam, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class _Listed(FunctionElement[str]):
    """The texts in a JSON list, as rows of one column named `value`."""

    name = "listed"
    inherit_cache = True


@compiles(_Listed, "sqlite")
def _in_sqlite(element: _Listed, compiler: SQLCompiler, **_: Any) -> str:
    return f"json_each({compiler.process(element.clause_expr.element)})"


@compiles(_Listed, "postgresql")
def _in_postgresql(element: _Listed, compiler: SQLCompiler, **_: Any) -> str:
    return f"json_array_elements_text(CAST({compiler.process(element.clause_expr.element)} AS JSON))"


def listed(texts: ColumnElement[str]) -> TableValuedAlias:
    """Return the texts in a JSON list as a table, with the column `value`."""
    return _Listed(texts).table_valued("value")


def among(column: ColumnElement[str], name: str) -> ColumnElement[bool]:
    """Make the condition that `column` is one of the texts in the JSON list that is bound as `name`.

    It is one statement for any number of texts. SQLAlchemy's `in_` builds its statement anew at every execution.
    """
    return column.in_(select(listed(bindparam(name, type_=String)).c.value))
