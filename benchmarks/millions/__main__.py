"""Time of every query to a store of millions of traces on PostgreSQL, and the tables that the server reads whole.

The benchmark starts a server in a temporary folder below FOLDER, fills and asks it, and removes it afterwards. Ten
million traces take 35 GB there, and half an hour. The server may use 1 GB for pages it has read, and the machine's
memory.

    python -m benchmarks.millions [--traces N] [--folder FOLDER] [--json]
"""

import argparse
import time
from pathlib import Path

import psycopg
from agenteval_collector.model.news import no_events
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.stores.engines.postgresql import PostgresSchema
from agenteval_collector.stores.store import Store

from benchmarks.harness import report
from benchmarks.millions.asked import of_pages, of_pipeline, sample
from benchmarks.millions.filling import fill
from benchmarks.millions.plans import answers
from tests.support.postgres import server

SETTINGS = ("shared_buffers=1GB", "effective_cache_size=6GB", "max_wal_size=4GB", "random_page_cost=1.1")
"""Options of PostgreSQL for a small server with its data on flash."""


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with server(given.folder, SETTINGS) as started:
        started.execute("CREATE EXTENSION pg_trgm")
        fill(started.url, given.traces, tell=lambda said: None if given.json else print(said, flush=True))
        results = measure(started.url)
    report(f"{given.traces:,} traces: p50 / max ms, pages, read whole", results, as_json=given.json)


def measure(url: str) -> dict[str, str]:
    """Return the answer to each question, with its time."""
    with psycopg.connect(url.replace("+psycopg", ""), options="-c search_path=agenteval") as connection:
        drawn = sample(lambda sql: connection.execute(sql).fetchall())
    store, now = Store(PostgresSchema(url), SystemClock(), events_of=no_events), time.time_ns()
    try:
        return {
            name: f"{found.median:.1f} / {found.longest:.0f}, {found.pages:,}{', ' if found.whole else ''}"
            + ", ".join(sorted(found.whole))
            for questions in (of_pages(store, drawn, now), of_pipeline(store, drawn, now))
            for name, found in answers(store, url, questions)
        }
    finally:
        store.shutdown()


if __name__ == "__main__":
    main()
