"""Read how the server answers a query: the time, the pages that it looks at, and the tables that it reads whole."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
from agenteval_collector.stores.store import Store
from psycopg import sql
from sqlalchemy import event

ROUNDS = 7
"""Times that a question is asked: often enough that the driver prepares its statements, and the server plans for all
values."""
MANY = 10_000
"""Rows from which on a table should not be read whole for an answer."""


@dataclass
class Answer:
    """The answer to a question: the median and the longest time, in milliseconds.

    `pages` is the number of pages of the statement that looked at most. `whole` names the tables that were read whole.
    """

    median: float
    longest: float
    pages: int = 0
    whole: set[str] = field(default_factory=set)


def answers(store: Store, url: str, questions: Mapping[str, Callable[[], object]]) -> Iterator[tuple[str, Answer]]:
    """Ask each question some times, and then ask the server for its plans. Roll back all that this writes."""
    statements: dict[str, Any] = {}

    def listen(_connection: Any, _cursor: Any, statement: str, values: Any, *_: object) -> None:
        statements[statement] = values

    for database in (store._pipeline, store._durable, store.outside):
        event.listen(database.engine, "before_cursor_execute", listen)
    with psycopg.connect(
        url.replace("+psycopg", ""), options="-c search_path=agenteval,public -c statement_timeout=60s"
    ) as connection:
        found = connection.execute("SELECT relname, reltuples FROM pg_class WHERE relkind = 'r'").fetchall()
        sizes: dict[str, float] = dict(found)
        for name, ask in questions.items():
            statements.clear()
            times = [_milliseconds(ask) for _ in range(ROUNDS)]
            answer = Answer(statistics.median(times), max(times))
            for statement, values in statements.items():
                if statement.lstrip().startswith(("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")):
                    _explain(connection, statement, values, sizes, answer)
            yield name, answer


def _milliseconds(ask: Callable[[], object]) -> float:
    begun = time.perf_counter()
    ask()
    return (time.perf_counter() - begun) * 1000


def _explain(
    connection: psycopg.Connection[Any], statement: str, values: Any, sizes: Mapping[str, float], answer: Answer
) -> None:
    some = values[0] if isinstance(values, list) else values
    explained = sql.SQL("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ") + sql.SQL(statement)
    row = connection.execute(explained, some).fetchone()
    connection.rollback()
    assert row is not None
    plan = row[0][0]["Plan"]
    answer.pages = max(answer.pages, plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
    for node in _nodes(plan):
        table = node.get("Relation Name", "")
        if node["Node Type"] == "Seq Scan" and node["Actual Loops"] and sizes.get(table, 0) > MANY:
            answer.whole.add(table)


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from _nodes(each)
