"""CPU of a commit in PostgreSQL by its number of traces, in the server and in the collector; and bytes in the store.

The server must be on this machine, and have nothing else to do. The benchmark fills the schema `agenteval` of its
database.

    python -m benchmarks.commits URL [--commits N]
"""

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.news import no_events
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.stores.engines.postgresql import PostgresSchema
from agenteval_collector.stores.store import Store

from benchmarks.stored import add_session

SIZES: Final = (64, 8, 1)
SESSION: Final = 9
"""The most traces of a session."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_SIZE = (
    "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = 'agenteval' AND relkind = 'r'"
)


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--commits", type=int, default=30)
    given = parser.parse_args()
    store = Store(PostgresSchema(given.url), SystemClock(), events_of=no_events)
    asked = psycopg.connect(given.url.replace("+psycopg", ""), autocommit=True)
    before = _one(asked, "SELECT pg_current_wal_lsn() - '0/0'")
    try:
        sessions = iter(range(1_000_000))
        _costs(store, asked, [filled(sessions, 64) for _ in range(5)])  # Warms up: statements are prepared.
        for size in SIZES:
            made = [filled(sessions, size) for _ in range(given.commits)]
            server, own = (1e3 * each / given.commits for each in _costs(store, asked, made))
            print(f"{size} traces: {server:.1f} ms of the server, {own:.1f} ms of the collector")
        count = _one(asked, "SELECT count(*) FROM agenteval.traces")
        wal = _one(asked, "SELECT pg_current_wal_lsn() - '0/0'") - before
        print(f"a trace: {_one(asked, _SIZE) / count:.0f} bytes in the store, {wal / count:.0f} in the write-ahead log")
    finally:
        asked.close()
        store.shutdown()


def filled(sessions: Iterator[int], size: int) -> Commit:
    commit = Commit()
    now = SystemClock().now()
    while len(commit.traces) < size:
        add_session(commit, next(sessions), min(SESSION, size - len(commit.traces)), now)
    return commit


def _costs(store: Store, asked: "psycopg.Connection[Any]", commits: list[Commit]) -> tuple[float, float]:
    """Return the CPU seconds of the server and of this process for all these commits."""
    server, own = server_cpu(asked), time.process_time()
    for commit in commits:
        store.commit(commit)
    return server_cpu(asked) - server, time.process_time() - own


def server_cpu(asked: "psycopg.Connection[Any]") -> float:
    used = 0
    for (pid,) in asked.execute("SELECT pid FROM pg_stat_activity"):
        # The name of the process may hold spaces and parentheses, so the fields are read behind the last one. The
        # first two of these are the ticks in user mode and in the kernel.
        _, _, fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        used += sum(map(int, fields.split()[11:13]))
    return used / _TICKS


def _one(asked: "psycopg.Connection[Any]", query: str) -> float:
    [row] = asked.execute(query).fetchall()
    return float(row[0])


if __name__ == "__main__":
    main()
