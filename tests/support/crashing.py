"""A collector as a process that is killed while senders load it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from tests.support.asking import answered
from tests.support.eventually import eventually
from tests.support.otlp import span, trace_id, traces, turn

WORKERS = 4
SCRIPT = Path(sys.executable).parent / "agenteval"


class CollectorProcess:
    """`agenteval collector` on a data folder; each start has other ports. `environ` is on top of the test's own,
    `agenteval` is what to run instead of the installed script, `options` are further ones, `stderr` takes what it says
    instead of a file beside its data."""

    def __init__(
        self,
        data_dir: Path,
        environ: Mapping[str, str] | None = None,
        *,
        agenteval: Sequence[str] = (str(SCRIPT),),
        options: Sequence[str] = (),
        stderr: Path | None = None,
    ) -> None:
        self._data_dir = data_dir
        self._stderr = stderr or data_dir / "stderr"
        self._agenteval = agenteval
        self._options = options
        self.addresses: dict[str, str] = {}
        self.start(environ)

    def start(self, environ: Mapping[str, str] | None = None) -> None:
        command = [*self._agenteval, "collector", "--data-dir", str(self._data_dir), *self._options]
        for port in ("grpc", "http", "web"):
            command += [f"--{port}-address", "127.0.0.1:0"]
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("AGENTEVAL_", "OPENAI_"))}
        environment = {**clean, **(environ or {})}
        with self._stderr.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.stdout.close()
            self._process.wait(20)
            raise AssertionError(self._stderr.read_text())
        self.addresses = json.loads(line)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def send_signal(self, which: signal.Signals) -> None:
        self._process.send_signal(which)

    def stop(self, how: signal.Signals, *, within: float = 20.0) -> int:
        self._process.send_signal(how)
        try:
            return self._process.wait(within)
        finally:
            self._process.kill()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def send(self, request: ExportTraceServiceRequest) -> None:
        with grpc.insecure_channel(self.addresses["grpc"]) as channel:
            TraceServiceStub(channel).Export(request, timeout=20)

    def get(self, path: str) -> Any:
        """What the web port answers: decoded JSON for the API, else text; None for 404."""
        return answered(self.addresses["web"], path)

    @contextmanager
    def load(self) -> Iterator[list[int]]:
        """Senders that go on wherever the collector is; yields the numbers of acknowledged traces of two spans."""
        acknowledged: list[int] = []
        done = threading.Event()

        def send(worker: int) -> None:
            number = worker
            while not done.is_set():
                number += WORKERS
                # The parts of a trace in requests of their own, so that a kill comes between them.
                parts = [traces(span(number, 2, parent=1)), traces(turn(number, "a", f"b {number}", number=1))]
                with grpc.insecure_channel(self.addresses["grpc"]) as channel, contextlib.suppress(grpc.RpcError):
                    for part in parts:
                        TraceServiceStub(channel).Export(part, timeout=5)
                    acknowledged.append(number)
                    continue
                done.wait(0.05)

        workers = [threading.Thread(target=send, args=(worker,)) for worker in range(1, WORKERS + 1)]
        for worker in workers:
            worker.start()
        try:
            yield acknowledged
        finally:
            done.set()
            for worker in workers:
                worker.join(30)


def check_after_kills(data_dir: Path, *, kills: int) -> int:
    """Kill a loaded collector so many times; every acknowledged trace is whole and scored afterwards, and once.

    Returns how many traces were acknowledged.
    """
    process = CollectorProcess(data_dir)
    with process.load() as acknowledged:
        for kill in range(1, kills + 1):
            enough = len(acknowledged) + 20 * kill
            eventually(lambda: len(acknowledged) > enough, within=60)  # noqa: B023
            process.stop(signal.SIGKILL)
            process.start()
    for number in acknowledged:

        def whole() -> Any:
            document = process.get(f"/api/v1/traces/{trace_id(number).hex()}")  # noqa: B023
            return document if document and document["complete"] and document["span_count"] == 2 else None

        document = eventually(whole, within=60)
        assert document["status"] == "scored"
        names = Counter(outcome["name"] for outcome in document["outcomes"])
        assert set(names.values()) == {1}
    assert process.stop(signal.SIGTERM) == 0
    return len(acknowledged)
