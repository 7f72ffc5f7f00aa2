"""A real collector within 512 MiB: traces at their largest, read by many at once and replayed, never pass the limit."""

import json
import random
import re
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import grpc
import httpx
import pytest
from agenteval_collector.runtime.memory import MIB
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.crashing import CollectorProcess
from tests.support.eventually import eventually
from tests.support.otlp import span, trace_id, traces, turn

LIMIT = 512
"""MiB."""
MOST = 1.1 * LIMIT
AT_ONCE = 6
SENT = 32
"""MiB of each trace: twice the largest that is kept."""
_WORDS = [f"word{number}" for number in range(2000)]
_RANDOM = random.Random(1)


def text(size: int) -> str:
    return " ".join(_RANDOM.choices(_WORDS, k=size // 8))


def messages(size: int) -> str:
    said = [{"role": "user", "parts": [{"type": "text", "content": text(500)}]} for _ in range(size // 600)]
    return json.dumps(said)


def tool(number: int, result: str) -> Span:
    return span(
        1,
        number,
        parent=1,
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name="f",
        gen_ai__tool__call__result=result,
    )


def of_large_results() -> Iterator[Sequence[Span]]:
    for number in range(SENT):
        yield [tool(2 + number, text(MIB))]


def of_messages() -> Iterator[Sequence[Span]]:
    for number in range(SENT):
        yield [
            span(
                1,
                2 + number,
                parent=1,
                gen_ai__operation__name="chat",
                gen_ai__input__messages=messages(MIB // 2),
                gen_ai__output__messages=messages(MIB // 2),
            )
        ]


def of_the_same_history() -> Iterator[Sequence[Span]]:
    history = messages(MIB // 10)
    for first in range(2, 2 + 10 * SENT, 10):
        yield [
            span(1, first + number, parent=1, gen_ai__operation__name="chat", gen_ai__input__messages=history)
            for number in range(10)
        ]


def of_small_spans() -> Iterator[Sequence[Span]]:
    for first in range(2, 2 + 1250 * SENT, 2500):
        yield [tool(first + number, text(200)) for number in range(2500)]


def of_deep_json() -> Iterator[Sequence[Span]]:
    for number in range(SENT):
        yield [tool(2 + number, "[" * 400 + json.dumps(["a"] * (MIB // 6)) + "]" * 400)]


def peak(pid: int) -> int:
    """MiB that were resident at most since the last call."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return int(found[1]) * 1024 // MIB


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
    [of_large_results, of_messages, of_the_same_history, of_small_spans, of_deep_json],
    ids=lambda shape: shape.__name__,
)
def test_no_work_passes_the_limit(tmp_path: Path, shape: Callable[[], Iterator[Sequence[Span]]]) -> None:
    environ = {"AGENTEVAL_SERVER__MEMORY_LIMIT": f"{LIMIT}MiB", "AGENTEVAL_ASSEMBLY__SILENCE": "2"}
    process = CollectorProcess(tmp_path, environ)
    peaks: dict[str, int] = {}
    try:
        with grpc.insecure_channel(process.addresses["grpc"]) as channel:
            stub = TraceServiceStub(channel)
            for spans in (*shape(), [turn(1, "question", "answer", session="s")]):

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
