"""The memory of a collector in a control group, whatever is sent and asked: the kernel must never kill it.

    python -m tests.faults.memory --limit 512 [--shape NAME]... [--folder FOLDER]

Sends traces of all shapes, asks every address 64 times at once, kills the collector, lets it replay all that was sent,
and asks again. Prints the most memory that each took, and ends with 1 where the kernel killed it or it took a tenth
more than its limit. The limit of the group is all that the collector knows of it.
"""

import argparse
import json
import os
import re
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import grpc
import httpx
from agenteval_collector.runtime.memory import MIB
from agenteval_collector.serve.api.endpoints import ENDPOINTS
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.faults.control_group import ControlGroup, control_group
from tests.faults.shapes import SHAPES, Shape
from tests.support.crashing import SCRIPT, CollectorProcess
from tests.support.eventually import eventually
from tests.support.otlp import trace_id, traces, turn

AT_ONCE: Final = 64
"""Requests to one address."""
SENDERS: Final = 4
OVER: Final = 1.1
"""What the process may take of its limit."""
WITHIN: Final = 300.0
"""Seconds until everything that was sent is scored."""
PAGES: Final = ("/", "/traces", "/problems", "/agents", "/alarms", "/review", "/reliability", "/quality", "/metrics")


def peak(pid: int) -> int:
    """Return the MiB that were resident at most since the last call."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return int(found[1]) * 1024 // MIB


def addresses(numbers: Sequence[int]) -> Iterator[str]:
    """Yield the path of everything that can be asked about the traces with these numbers."""
    for endpoint in ENDPOINTS:
        paths = [endpoint.path.replace("{session_id}", "s").replace("{agent}", "planner")]
        if "{trace_id}" in endpoint.path:
            # All traces where their spans are read, else one.
            asked = numbers if endpoint.reads_spans and "{span_id}" not in endpoint.path else numbers[:1]
            paths = [endpoint.path.replace("{trace_id}", trace_id(number).hex()) for number in asked]
        for path in paths:
            filled = path.replace("{span_id}", f"{2:016x}").replace("{problem_id}", "0" * 16)
            needs = {"session_id": "s", "name": "loop_detection", "before": "1", "after": "2"}
            query = [f"{name}={needs[name]}" for name in endpoint.required]
            query += ["limit=500"] if "limit" in endpoint.parameters else []
            yield f"{filled}?{'&'.join(query)}"
    yield from PAGES
    yield "/sessions/s"
    yield from (f"/traces/{trace_id(number).hex()}" for number in numbers)


class Bounded:
    """A collector in a group. `peaks` has the most MiB that it took, by what it did then."""

    def __init__(self, folder: Path, group: ControlGroup | None, limit: int) -> None:
        self.peaks: dict[str, int] = {}
        self.answers: Counter[int] = Counter()
        self._folder = folder
        self._environ = {"AGENTEVAL_ASSEMBLY__SILENCE": "2"}
        if group is None:
            self._environ["AGENTEVAL_SERVER__MEMORY_LIMIT"] = f"{limit}MiB"
        command = [str(SCRIPT)] if group is None else group.command(str(SCRIPT))
        self.process = CollectorProcess(folder, self._environ, agenteval=command)

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Note what the process takes during a block."""
        yield
        assert self.process.runs, f"it died of {what}"
        self.peaks[what] = max(peak(self.process.pid), self.peaks.get(what, 0))
        print(f"{self.peaks[what]} MiB {what}", flush=True)

    def send(self, shapes: Sequence[Shape]) -> None:
        """Send a trace of each shape, each by several senders at once."""
        for number, shape in enumerate(shapes, start=1):
            with self.doing(f"sending {shape.__name__}"):
                requests = [*shape(number), [turn(number, "question", "answer", session="s")]]
                with ThreadPoolExecutor(SENDERS) as pool:
                    list(pool.map(self._insist, requests))
            with self.doing(f"scoring {shape.__name__}"):
                self.wait_for(number)

    def ask(self, numbers: Sequence[int]) -> None:
        """Ask for everything, from many clients at once."""
        for path in addresses(numbers):
            with self.doing(f"asked {path}"), ThreadPoolExecutor(AT_ONCE) as pool:
                self.answers.update(pool.map(self._asked, [path] * AT_ONCE))

    def replay(self, numbers: Sequence[int]) -> None:
        """Kill it, and start it as if nothing of its log had been scored."""
        self.process.stop(signal.SIGKILL)
        with closing(sqlite3.connect(self._folder / "agenteval.db")) as store, store:
            for table in ("traces", "trace_views", "outcomes", "sessions"):
                store.execute(f"DELETE FROM {table}")
            store.execute("UPDATE progress SET checkpoint = 0")
        self.process.start(self._environ)
        with self.doing("replaying"):
            for number in numbers:
                self.wait_for(number)

    def wait_for(self, number: int) -> None:
        """Wait until this trace is scored."""

        def ended() -> bool:
            assert self.process.runs, f"it died of trace {number}"
            # 503 while there is no room for the answer.
            answer = self._get(f"/api/v1/traces/{trace_id(number).hex()}")
            return answer.status_code == 200 and answer.json()["status"] not in ("running", "pending")

        eventually(ended, within=WITHIN, every=0.3)

    def _insist(self, spans: Sequence[Span]) -> None:
        request = traces(*spans)

        def is_taken() -> bool:
            try:
                with grpc.insecure_channel(self.process.addresses["grpc"]) as channel:
                    TraceServiceStub(channel).Export(request, timeout=60)
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise
                return False
            return True

        eventually(is_taken, within=WITHIN, every=0.3)

    def _asked(self, path: str) -> int:
        return self._get(path).status_code

    def _get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://{self.process.addresses['web']}{path}", timeout=120, trust_env=False)


def run(folder: Path, limit: int, shapes: Sequence[Shape], say: Callable[[str], object] = print) -> tuple[Bounded, int]:
    """Do all that with a limit in MiB. Returns what was seen, and how often the kernel killed it."""
    numbers = range(1, len(shapes) + 1)
    with control_group(f"agenteval-{os.getpid()}", limit * MIB) as group:
        if group is None:
            say("no control group can be made here: nobody kills the collector, its peaks are looked at alone")
        bounded = Bounded(folder, group, limit)
        try:
            bounded.send(shapes)
            bounded.ask(numbers)
            bounded.replay(numbers)
            bounded.ask(numbers)
            assert bounded.process.stop(signal.SIGTERM, within=60) == 0
        finally:
            bounded.process.stop(signal.SIGKILL)
            kills = group.kills if group else 0
            say(json.dumps({"limit": limit, "killed": kills, "answers": bounded.answers, "peaks": bounded.peaks}))
    return bounded, kills


def main() -> None:
    """Run as a script."""
    by_name = {shape.__name__: shape for shape in SHAPES}
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--limit", type=int, default=512, help="MiB")
    parser.add_argument("--shape", action="append", choices=by_name)
    parser.add_argument("--folder", type=Path, help="an empty folder to work in; else a temporary one")
    given = parser.parse_args()
    shapes = [by_name[name] for name in given.shape or by_name]
    with TemporaryDirectory() as temporary:
        bounded, kills = run(given.folder or Path(temporary), given.limit, shapes)
    sys.exit(bool(kills) or max(bounded.peaks.values()) > OVER * given.limit)


if __name__ == "__main__":
    main()
