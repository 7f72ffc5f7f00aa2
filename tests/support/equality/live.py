"""What a running collector shows after a fixed load: the description of its API, and its series."""

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.workload.generator import generate
from benchmarks.workload.otlp import requests
from tests.support.eventually import eventually
from tests.support.judge.judge_server import JudgeServer
from tests.support.recordings import logs_of, read_requests, recordings

SETTINGS: Final = {
    "AGENTEVAL_ASSEMBLY__SETTLE": "5s",
    "AGENTEVAL_ASSEMBLY__SETTLE_LOGS": "5s",
    "AGENTEVAL_ASSEMBLY__SILENCE": "5s",
    "AGENTEVAL_SESSION__IDLE": "4s",
    "AGENTEVAL_JUDGE__MODEL": "gpt-4o-mini",
    "AGENTEVAL_JUDGE__API_KEY": "none",
}
STARTED_AT: Final = 1_700_000_000_000_000_000
STILL: Final = 6.0
"""Seconds without a change after which nothing more is to come."""
RANDOM: Final = {"service_instance_id"}
"""Labels with another value in each run."""
_COMMAND: Final = "from otel_agenteval.command import main; main()"


def live_documents(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the documents by name, of a collector that `environment` finds."""
    with JudgeServer() as judge, _collector({**environment, **SETTINGS, "AGENTEVAL_JUDGE__BASE_URL": judge.url}) as at:
        for signal, body in _load():
            _post(f"http://{at['http']}/v1/{signal}", body)
        return {
            "openapi.json": json.loads(_get(f"http://{at['web']}/api/v1/openapi.json")),
            "series.json": _series(f"http://{at['web']}/metrics"),
        }


def _load() -> Iterator[tuple[str, bytes]]:
    """Yield signals and requests: all recordings of one folder, then conversations."""
    for number, path in enumerate(recordings("corpus")):
        shared, own = _own_name(path, number)
        for request in read_requests(path, ExportTraceServiceRequest):
            yield "traces", request.SerializeToString().replace(shared, own)
        if logs_of(path).exists():
            for records in read_requests(logs_of(path), ExportLogsServiceRequest):
                yield "logs", records.SerializeToString().replace(shared, own)
    for body in requests(generate(10, seed=7), started_at=STARTED_AT):
        yield "traces", body


def _own_name(path: Path, number: int) -> tuple[bytes, bytes]:
    """Return what a recording shares with others, and what stands for it: of the same length, as protobuf needs it.

    Many recordings have the same session ids; without ids, what one service says is one session if its texts agree.
    The scores of such a session would depend on which trace is complete first.
    """
    if b"sess-" in path.read_bytes():
        return b"sess-", b"s%03d-" % number
    return b"travel-app", b"travel-%03d" % number


def _series(url: str) -> dict[str, Any]:
    """Return the samples of a scrape by name, once no more come: of each its labels, and its value if it counts."""
    seen: list[tuple[float, dict[str, Any]]] = []

    def still() -> bool:
        found = _samples(_get(url).decode())
        if not seen or seen[-1][1] != found:
            seen.append((time.monotonic(), found))
        return time.monotonic() - seen[-1][0] > STILL

    eventually(still, within=120.0, every=0.5)
    return seen[-1][1]


def _samples(page: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = {**sample.labels, **dict.fromkeys(RANDOM & sample.labels.keys(), "any")}
            series = ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))
            # The last digits of a sum depend on the order of what is added.
            value = float(f"{sample.value:.9g}") if family.type == "counter" else None
            found.setdefault(sample.name, {})[series] = value
    return found


@contextmanager
def _collector(environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="agenteval-equality-") as folder, (Path(folder) / "log").open("w") as log:
        free = [f"--{name}-address=127.0.0.1:0" for name in ("grpc", "http", "web")]
        command = [sys.executable, "-P", "-c", _COMMAND, "collector", f"--data-dir={folder}/data", *free]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment, text=True, cwd=folder)
        assert process.stdout is not None
        try:
            ready = process.stdout.readline()
            assert ready, (Path(folder) / "log").read_text()
            yield json.loads(ready)
        finally:
            process.terminate()
            process.stdout.close()
            process.wait(30)


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return bytes(answer.read())


def _post(url: str, body: bytes) -> None:
    asked = urllib.request.Request(url, body, {"Content-Type": "application/x-protobuf"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        answer.read()
