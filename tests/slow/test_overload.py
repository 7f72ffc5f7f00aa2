"""Far more than it can score: refused for now, within its memory, and nothing of what was acknowledged is lost."""

import re
import signal
import sqlite3
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from agenteval_collector.runtime.memory import MIB
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from tests.support.crashing import CollectorProcess
from tests.support.eventually import eventually
from tests.support.otlp import trace_id, traces, turn

LOAD = 20.0
"""Seconds at least, and as long as fewer requests than `REFUSED` were refused."""
REFUSED = 100
TOO_LONG = 240.0
"""Seconds."""
SENDERS = 8
LIMIT = 400
"""MiB: about half as much again as it takes with nothing to do."""
SLOW = """
import time
from otel_agenteval.outcome import Method, Score

class Slow:
    name, version, method = "slow", "1", Method.EXACT

    def evaluate(self, context):
        time.sleep(0.02)
        return Score(value=1.0, reason="at last")
"""


def slow_evaluator(folder: Path) -> dict[str, str]:
    """The environment of a process in which a package with a slow evaluator is installed."""
    about = folder / "slow-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: slow\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[otel_agenteval.evaluators]\nslow = slow_evaluator:Slow\n")
    (folder / "slow_evaluator.py").write_text(SLOW)
    return {"PYTHONPATH": str(folder)}


def is_taken(channel: grpc.Channel, request: ExportTraceServiceRequest) -> bool:
    """Whether the request was taken; False if it was refused for now."""
    try:
        TraceServiceStub(channel).Export(request, timeout=60)
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise
        return False
    return True


def peak(pid: int) -> int:
    """MiB that were resident at most."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 // MIB


def scored(folder: Path) -> set[str]:
    with closing(sqlite3.connect(f"file:{folder / 'agenteval.db'}?mode=ro", uri=True, timeout=30)) as store:
        rows = store.execute("SELECT subject_id FROM outcomes WHERE name = 'slow' AND status = 'scored'")
        return {row[0] for row in rows}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="the memory of another process is told on Linux only")
def test_overload_is_refused_for_now_and_what_was_acknowledged_is_scored(tmp_path: Path) -> None:
    environ = slow_evaluator(tmp_path / "package") | {
        "AGENTEVAL_SERVER__MEMORY_LIMIT": f"{LIMIT}MiB",
        "AGENTEVAL_LOG__MAX_PENDING_BYTES": "8MiB",
    }
    process = CollectorProcess(tmp_path, environ)
    acknowledged: set[str] = set()
    refusals: Counter[grpc.StatusCode] = Counter()
    without_delay: list[str] = []
    started = time.monotonic()
    lock = threading.Lock()

    def send(sender: int) -> None:
        number = sender
        with grpc.insecure_channel(process.addresses["grpc"]) as channel:
            stub = TraceServiceStub(channel)
            while (passed := time.monotonic() - started) < LOAD or refusals.total() < REFUSED:
                assert passed < TOO_LONG, f"only {refusals.total()} refusals"
                number += SENDERS
                request = traces(turn(number, "x" * 100_000, "y" * 100_000, session=f"s-{number}"), process="p")
                try:
                    stub.Export(request, timeout=30)
                except grpc.RpcError as error:
                    with lock:
                        refusals[error.code()] += 1
                        metadata: Any = error.trailing_metadata()
                        if "google.rpc.retryinfo-bin" not in dict(metadata):
                            without_delay.append(str(error.details()))
                else:
                    with lock:
                        acknowledged.add(trace_id(number).hex())

    try:
        with ThreadPoolExecutor(SENDERS) as senders:
            list(senders.map(send, range(SENDERS)))
        assert set(refusals) == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert without_delay == []
        eventually(lambda: scored(tmp_path) >= acknowledged, within=400, every=1.0)
        assert peak(process.pid) < LIMIT
        ready = f"http://{process.addresses['web']}/readyz"
        eventually(lambda: httpx.get(ready, trust_env=False).status_code == 200)
    finally:
        assert process.stop(signal.SIGTERM) == 0


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform != "linux", reason="the memory of another process is told on Linux only")
def test_the_largest_requests_fit_into_the_memory_until_they_are_refused(tmp_path: Path) -> None:
    most = 512 * MIB
    process = CollectorProcess(tmp_path, {"AGENTEVAL_SERVER__MEMORY_LIMIT": "512MiB"})
    try:
        size = 1_000
        count = most // 64 // (size + 400)
        with grpc.insecure_channel(process.addresses["grpc"], [("grpc.max_send_message_length", -1)]) as channel:
            for taken in range(100):
                request = traces(*(turn(taken * count + number, "x" * size, "y") for number in range(count)))
                assert len(request.SerializeToString()) > most // 64 // 2
                if not is_taken(channel, request):
                    break
        assert 0 < taken < 99
        assert peak(process.pid) < most // MIB
    finally:
        assert process.stop(signal.SIGTERM) == 0
