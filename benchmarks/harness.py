"""Functions for all benchmarks: measured processes, their CPU and memory, load, and results. Linux only."""

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
from rich.console import Console
from rich.table import Table

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
IN_FLIGHT = 4
"""Requests that wait for an answer at the same time, as if from this many agents."""
TIMEOUT = 120.0
MIB = 1024 * 1024

Result = Mapping[str, float | int | str]


@dataclass(frozen=True, slots=True)
class Served:
    """A server in a process of its own. `data_dir` is its folder, and `web` the address of its page, if it has any."""

    pid: int
    address: str
    data_dir: Path
    web: str | None = None

    @property
    def cpu_seconds(self) -> float:
        """The CPU seconds that all threads of the process have used."""
        return time.clock_gettime((~self.pid << 3) | 2)  # the process's CPU clock, clock_getcpuclockid(3)

    @property
    def resident_bytes(self) -> int:
        """The bytes of the process that are resident in memory now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def scored_traces(self) -> int:
        """The number of traces that a collector has stored with their outcomes.

        It is read from the store's file, which costs the collector nothing.
        """
        with closing(sqlite3.connect(f"file:{self.data_dir / 'agenteval.db'}?mode=ro", uri=True)) as store:
            found: int = store.execute("SELECT count(*) FROM traces").fetchone()[0]
            return found

    def wait_scored(self, traces: int) -> None:
        """Wait until `traces` traces are stored. Raises TimeoutError after `TIMEOUT` seconds."""
        deadline = time.monotonic() + TIMEOUT
        while (scored := self.scored_traces()) < traces:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{scored} of {traces} traces are scored after {TIMEOUT:.0f} s")
            time.sleep(0.02)


@contextmanager
def collector(settings: Mapping[str, str] | None = None) -> Iterator[Served]:
    """Run a real `agenteval collector` on free ports, with an empty data folder and these environment variables."""
    command = [str(Path(sys.executable).with_name("agenteval")), "collector"]
    for name in ("grpc", "http", "web"):
        command += [f"--{name}-address", "127.0.0.1:0"]
    with _folder() as folder, _running([*command, "--data-dir", str(folder)], folder, settings or {}) as (pid, line):
        addresses = json.loads(line)
        yield Served(pid, addresses["grpc"], folder, addresses["web"])


@contextmanager
def server(kind: str) -> Iterator[Served]:
    """Run one of the servers of `benchmarks.servers`."""
    command = [sys.executable, "-m", "benchmarks.servers", kind]
    with _folder() as folder, _running([*command, str(folder)], folder, {}) as (pid, line):
        yield Served(pid, line.strip(), folder)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="agenteval-bench-") as folder:
        yield Path(folder)


@contextmanager
def _running(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Run a process. Yield it with the line that it prints when it is ready; its log goes to a file in `folder`."""
    # Without settings from the environment, which would change the measured process.
    inherited = {
        key: value for key, value in os.environ.items() if not key.startswith(("AGENTEVAL_", "OPENAI_", "OTEL_"))
    }
    log = folder / "stderr.log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, text=True, env={**inherited, **environment}
        ) as process,
    ):
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"{' '.join(command)} ended before it was ready: {log.read_text()[-2000:]}")
            yield process.pid, line
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def send(address: str, bodies: Sequence[bytes]) -> float:
    """Send every request, `IN_FLIGHT` at a time. Return the seconds until all are acknowledged.

    Raises grpc.RpcError if one is refused.
    """
    with grpc.insecure_channel(address) as channel:
        export = channel.unary_unary(EXPORT, request_serializer=bytes, response_deserializer=bytes)
        grpc.channel_ready_future(channel).result(TIMEOUT)
        started = time.perf_counter()
        waiting: deque[grpc.Future[bytes]] = deque()
        for body in bodies:
            if len(waiting) == IN_FLIGHT:
                waiting.popleft().result()
            waiting.append(export.future(body, timeout=TIMEOUT))
        for answer in waiting:
            answer.result()
        return time.perf_counter() - started


def arguments(document: str | None, **defaults: int) -> argparse.Namespace:
    """Read the command line of a benchmark: its numbers, and `--json`. The first line of `document` describes it."""
    parser = argparse.ArgumentParser(description=(document or "").partition("\n")[0])
    for name, default in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default, help=f"[{default}]")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


def report(title: str, results: Result, *, as_json: bool) -> None:
    """Print the results, as a table or as one JSON object."""
    if as_json:
        print(json.dumps(results))
        return
    table = Table("", "", title=title, show_header=False)
    for name, value in results.items():
        table.add_row(name, f"{value:.3g}" if isinstance(value, float) else str(value))
    Console().print(table)
