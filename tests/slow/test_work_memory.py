"""A real collector within 512 MiB: traces at their largest, read by many at once and replayed, never pass the limit."""

import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import grpc
import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.faults.memory import peak
from tests.faults.shapes import Shape, deep_json, large_messages, large_results, small_spans, the_same_history
from tests.support.crashing import CollectorProcess
from tests.support.eventually import eventually
from tests.support.otlp import trace_id, traces, turn

LIMIT = 512
"""MiB."""
MOST = 1.1 * LIMIT
AT_ONCE = 6


def ended(process: CollectorProcess) -> None:
    """Wait for the trace to be scored."""

    def look() -> bool:
        document = process.get(f"/api/v1/traces/{trace_id(1).hex()}")
        return bool(document) and document["status"] != "running"

    eventually(look, within=120, every=0.2)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="the memory of another process is told on Linux only")
@pytest.mark.parametrize(
    "shape",
    [large_results, large_messages, the_same_history, small_spans, deep_json],
    ids=lambda shape: shape.__name__,
)
def test_no_work_passes_the_limit(tmp_path: Path, shape: Shape) -> None:
    environ = {"AGENTEVAL_SERVER__MEMORY_LIMIT": f"{LIMIT}MiB", "AGENTEVAL_ASSEMBLY__SILENCE": "2"}
    process = CollectorProcess(tmp_path, environ)
    peaks: dict[str, int] = {}
    try:
        with grpc.insecure_channel(process.addresses["grpc"]) as channel:
            stub = TraceServiceStub(channel)
            for spans in (*shape(1), [turn(1, "question", "answer", session="s")]):

                def is_taken(spans: Sequence[Span] = spans) -> bool:
                    try:
                        stub.Export(traces(*spans), timeout=60)
                    except grpc.RpcError as error:
                        if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                            raise
                        return False
                    return True

                eventually(is_taken, within=60)
        ended(process)
        peaks["scored"] = peak(process.pid)
        for path in addresses():
            with ThreadPoolExecutor(AT_ONCE) as pool:
                url = f"http://{process.addresses['web']}{path}"
                answers = Counter(pool.map(lambda url: httpx.get(url, timeout=60).status_code, [url] * AT_ONCE))
            assert set(answers) <= {200, 404, 429, 503}, (path, answers)
            peaks[path] = peak(process.pid)
        assert process.stop(signal.SIGTERM) == 0
        with closing(sqlite3.connect(tmp_path / "agenteval.db")) as store, store:
            # As if nothing had been scored: the whole log is replayed.
            for table in ("traces", "trace_views", "outcomes", "sessions"):
                store.execute(f"DELETE FROM {table}")
            store.execute("UPDATE progress SET checkpoint = 0")
        process.start(environ)
        ended(process)
        peaks["replayed"] = peak(process.pid)
    finally:
        process.stop(signal.SIGKILL)
    assert max(peaks.values()) <= MOST, peaks


def addresses() -> Sequence[str]:
    trace = f"/traces/{trace_id(1).hex()}"
    of_trace = [f"/api/v1{trace}{part}" for part in ("", "/spans", "/otlp")]
    return [*of_trace, "/api/v1/traces?limit=500", "/api/v1/sessions/s", trace, "/sessions/s"]
