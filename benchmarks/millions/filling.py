"""Fill a store on PostgreSQL fast: the tables have no write-ahead log, and their indexes are made again at the end."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
from agenteval_collector.model.news import no_events
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.stores.engines.postgres_parts import PART, make_parts
from agenteval_collector.stores.engines.postgresql import PostgresSchema
from agenteval_collector.stores.schema import judge_exchanges
from agenteval_collector.stores.store import Store

from benchmarks.millions import rows

BIG = ("traces", "trace_views", "outcomes", "sessions", "findings", "problem_traces", "problem_counts", "agent_hours")
BUILDERS = 2
"""Indexes that are made at the same time."""


def fill(url: str, traces: int, tell: Callable[[str], None]) -> None:
    """Make the tables, and fill them with about this many traces. `tell` is called with each step."""
    now, begun = time.time_ns(), time.monotonic()
    schema = PostgresSchema(url)
    store = Store(schema, SystemClock(), events_of=no_events)
    with schema.engine(durable=False, pool_size=1).connect() as parted:
        # Parts of the table for the last day, and for later exchanges of sessions that began only now.
        times = range(now - 7 * PART, now + 3 * PART, PART)
        make_parts(parted, judge_exchanges, ({"asked_at": at} for at in times))
    store.shutdown()
    with _connected(url) as connection:

        def run(what: str, sql: str) -> None:
            count = connection.execute(sql).rowcount
            tell(f"{time.monotonic() - begun:6.0f} s  {what}: {count:,} rows")

        connection.execute("SELECT setseed(0.5)")
        for sql in rows.made(traces, now):
            run(" ".join(sql.split()[:4]), sql)
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO made.problems VALUES (%s, %s, %s, %s, %s, %s)", list(rows.problems()))
        indexes = _without_indexes(connection)
        for table, sql in rows.statements(now):
            run(table, sql)
        connection.execute("DROP SCHEMA made CASCADE")
        with ThreadPoolExecutor(BUILDERS) as builders:
            list(builders.map(lambda sql: _build(url, sql), indexes))
        tell(f"{time.monotonic() - begun:6.0f} s  {len(indexes)} indexes")
        run("vacuum", "VACUUM (ANALYZE, PARALLEL 0)")


def _without_indexes(connection: psycopg.Connection) -> list[str]:
    """Drop the indexes of the big tables, and switch off their write-ahead log.

    Return the statements that make the indexes again, the largest first.
    """
    made = []
    for table in BIG:
        found = connection.execute(
            "SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid), c.conname, pg_get_constraintdef(c.oid)"
            " FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid WHERE i.indrelid = %s::regclass",
            (table,),
        ).fetchall()
        for name, index, constraint, key in found:
            if constraint is None:
                connection.execute(f"DROP INDEX {name}")
                made.append(index)
            else:
                connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {constraint}")
                made.append(f"ALTER TABLE {table} ADD CONSTRAINT {constraint} {key}")
        connection.execute(f"ALTER TABLE {table} SET UNLOGGED")
    return sorted(made, key=lambda sql: ("gin" not in sql, "outcomes" not in sql))


def _build(url: str, sql: str) -> None:
    with _connected(url) as connection:
        connection.execute("SET maintenance_work_mem = '1GB'")
        # CREATE INDEX locks the table. A statement that adds a key waits until the table's other indexes are made.
        connection.execute(sql)


def _connected(url: str) -> psycopg.Connection:
    options = "-c search_path=agenteval,public -c work_mem=512MB -c max_parallel_workers_per_gather=0"
    return psycopg.connect(url.replace("+psycopg", ""), autocommit=True, options=options)
