"""How SQLite goes about the statements of a store."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Engine, event


def plan_of(engine: Engine, look_up: Callable[[], object]) -> list[str]:
    """The steps of the statements by which `look_up` asks; `engine` is any on the same file."""
    asked: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
        asked.append((statement, values))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        look_up()
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    with engine.connect() as connection:
        return [
            row[3]
            for statement, values in asked
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        ]
