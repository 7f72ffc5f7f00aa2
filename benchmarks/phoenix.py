"""CPU per span of Phoenix and of our collector, beside a bare gRPC server, for the same conversations over OTLP/gRPC.

Phoenix stores and shows spans, and evaluates nothing by itself. It is no dependency of ours, so install it separately.

    python -m venv /tmp/phoenix && /tmp/phoenix/bin/pip install arize-phoenix
    python -m benchmarks.phoenix /tmp/phoenix/bin/phoenix [--conversations N] [--json]
"""

import argparse
import os
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import grpc

from benchmarks.collector_cpu import SPANS_PER_REQUEST
from benchmarks.harness import TIMEOUT, Served, collector, report, send, server
from benchmarks.workload.generator import generate
from benchmarks.workload.otlp import requests

GRPC_PORT, WEB_PORT = 14317, 16006


@contextmanager
def phoenix(executable: str) -> Iterator[Served]:
    """Run a Phoenix with an empty SQLite database, which answers on its gRPC port."""
    with tempfile.TemporaryDirectory(prefix="agenteval-bench-") as folder:
        environment = {
            **os.environ, "PHOENIX_WORKING_DIR": folder, "PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(WEB_PORT),
            "PHOENIX_GRPC_PORT": str(GRPC_PORT), "PHOENIX_TELEMETRY_ENABLED": "false",
        }  # fmt: skip
        log = Path(folder) / "output.log"
        with (
            log.open("w") as output,
            subprocess.Popen([executable, "serve"], env=environment, stdout=output, stderr=output) as process,
        ):
            try:
                with grpc.insecure_channel(f"127.0.0.1:{GRPC_PORT}") as channel:
                    grpc.channel_ready_future(channel).result(TIMEOUT)
                yield Served(process.pid, f"127.0.0.1:{GRPC_PORT}", Path(folder))
            finally:
                process.terminate()
                process.wait(20)


def stored_spans(served: Served) -> int:
    """Return the number of spans that Phoenix has in its database."""
    with closing(sqlite3.connect(f"file:{served.data_dir / 'phoenix.db'}?mode=ro", uri=True)) as database:
        found: int = database.execute("SELECT count(*) FROM spans").fetchone()[0]
        return found


def cost(served: Served, bodies: Sequence[bytes], is_done: Callable[[], bool]) -> float:
    """Return the CPU seconds of the server from the first request until it is done with all."""
    before, deadline = served.cpu_seconds, time.monotonic() + 5 * TIMEOUT
    send(served.address, bodies)
    while not is_done():
        if time.monotonic() > deadline:
            raise TimeoutError("the server is not done with what it was sent")
        time.sleep(0.1)
    return served.cpu_seconds - before


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("executable", help="the `phoenix` of its own environment")
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    conversations = list(generate(given.conversations, seed=0))
    bodies = list(requests(conversations, started_at=time.time_ns(), spans_per_request=SPANS_PER_REQUEST))
    spans = sum(each.span_count for each in conversations)
    traces = sum(len(each.turns) for each in conversations)
    with server("bare") as bare, collector() as ours, phoenix(given.executable) as theirs:
        used = {
            "bare parse": cost(bare, bodies, lambda: True),
            "ours, until every trace is scored": cost(ours, bodies, lambda: ours.scored_traces() >= traces),
            "Phoenix, until every span is stored": cost(theirs, bodies, lambda: stored_spans(theirs) >= spans),
        }
    report(
        "CPU per span, us",
        {"spans": spans, **{name: seconds / spans * 1e6 for name, seconds in used.items()}},
        as_json=given.json,
    )


if __name__ == "__main__":
    main()
