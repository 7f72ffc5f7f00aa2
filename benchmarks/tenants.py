"""Cost of tenants that do nothing: start time, resident memory, threads and open files of one collector.

python -m benchmarks.tenants 1 10 50
"""

import os
import sys
import tempfile
import threading
import time
from pathlib import Path

from agenteval_collector.app.collector import Collector
from agenteval_collector.config.sources import load
from agenteval_collector.runtime.machine import resident_bytes

ANY_PORT = {"grpc_address": "127.0.0.1:0", "http_address": "127.0.0.1:0", "web_address": "127.0.0.1:0"}
MIB = 1024 * 1024


def measure(tenants: int) -> None:
    """Start a collector with this many tenants beside the default one, twice: with new files, and with old ones."""
    keys = [{"name": f"key-of-{n}", "key": f"key-{n}", "tenant": f"tenant-{n}"} for n in range(tenants)]
    with tempfile.TemporaryDirectory() as folder:
        settings = load(environ={}, flags={"data_dir": str(Path(folder)), "server": {**ANY_PORT, "keys": [*keys, "k"]}})
        for files in ("new", "old"):
            began, before = time.perf_counter(), time.process_time()
            collector = Collector(settings)
            collector.start()
            took, worked = time.perf_counter() - began, time.process_time() - before
            cpu, began = time.process_time(), time.perf_counter()
            threading.Event().wait(5)
            idle = (time.process_time() - cpu) / (time.perf_counter() - began)
            print(
                f"{tenants:3} tenants, {files} files: started in {took:.2f} s ({worked:.2f} s of CPU), "
                f"{resident_bytes() / MIB:.0f} MiB, {threading.active_count()} threads, "
                f"{len(os.listdir('/proc/self/fd'))} files, idle {100 * idle:.1f} % of a core",
                flush=True,
            )
            began = time.perf_counter()
            collector.shutdown()
            print(f"    stopped in {time.perf_counter() - began:.2f} s", flush=True)


if __name__ == "__main__":
    # Each collector has a process of its own, so that no memory that one has freed counts for the next.
    for count in map(int, sys.argv[1:]):
        if (child := os.fork()) == 0:
            measure(count)
            os._exit(0)
        os.waitpid(child, 0)
