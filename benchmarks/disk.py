"""Bytes on disk that a collector keeps of a span, of its bytes on the wire.

A conversation is sent as by an agent that repeats the whole history in each call of its model. The databases are
counted once their write-ahead logs are empty: those take up to 64 MB beside them, however much is kept.

    python -m benchmarks.disk [--conversations N] [--json]
"""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from benchmarks.harness import arguments, collector, report, send
from benchmarks.workload.generator import generate
from benchmarks.workload.otlp import requests

LARGEST = 5
"""Tables and indexes of the store that are named."""


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, conversations=300)
    report("Bytes on disk", measured(given.conversations), as_json=given.json)


def measured(count: int) -> dict[str, float]:
    """Measure with this many conversations."""
    conversations = list(generate(count, seed=1))
    bodies = list(requests(conversations, started_at=time.time_ns(), spans_per_request=64))
    spans, wire = sum(each.span_count for each in conversations), sum(map(len, bodies))
    with collector() as served:
        send(served.address, bodies)
        served.wait_scored(sum(len(each.turns) for each in conversations))
        log, store = (_sizes(served.data_dir / name) for name in ("log.db", "agenteval.db"))
    largest = sorted(store, key=store.__getitem__, reverse=True)[:LARGEST]
    return {
        "spans": spans,
        "bytes of a span on the wire": wire / spans,
        "log, of the wire": sum(log.values()) / wire,
        "store, of the wire": sum(store.values()) / wire,
        **{f"{name}, of the wire": store[name] / wire for name in largest},
        "both, of the wire": (sum(log.values()) + sum(store.values())) / wire,
    }


def _sizes(path: Path) -> dict[str, int]:
    """Return the bytes of each table and index of a database."""
    with closing(sqlite3.connect(path)) as database:
        return dict(database.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"))


if __name__ == "__main__":
    main()
