"""Machine instructions per span, counted by callgrind. On a busy machine they are the same within 1 %.

A process under callgrind parses requests, and assembles and evaluates the traces of conversations until they are
stored. It also sends spans through the stock exporter and through our processor. The baselines are the bare parse, and
the stock exporter.

    python -m benchmarks.instructions [--conversations N] [--json]
"""

import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from agenteval_collector.app.offline import OfflineCollector
from agenteval_collector.config.sources import load
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.runtime.machine import GARBAGE_THRESHOLDS
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import otel_agenteval
from benchmarks.assembly_cpu import assemble
from benchmarks.client_cpu import WAYS, cost_per_span, sink
from benchmarks.harness import arguments, report
from benchmarks.workload.generator import generate
from benchmarks.workload.otlp import requests
from tests.support.clock import ManualClock

CLIENT_SPANS: Final = 400
WARM_UP: Final = 3
"""Conversations, and a share of the client's spans, that come first and do not count."""
WITHIN: Final = 600.0
"""Seconds that the process may take. Under callgrind, everything takes fifty times as long."""
_MARK: Final = "getpriority"
"""A function of the C library that nothing else calls. At each call of it, callgrind writes down its counts."""


def mark() -> None:
    """Make callgrind write down its counts, and begin to count anew."""
    os.getpriority(os.PRIO_PROCESS, 0)


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, conversations=6)
    report("Instructions per span", measured(given.conversations), as_json=given.json)


def measured(conversations: int) -> Mapping[str, float]:
    """Return thousands of instructions per span, and the ratios. Raises RuntimeError if there is no valgrind."""
    if shutil.which("valgrind") is None:
        raise RuntimeError("valgrind is not installed; on Debian: apt-get install valgrind")
    with tempfile.TemporaryDirectory(prefix="agenteval-bench-") as folder:
        out = Path(folder) / "counted"
        command = [
            "valgrind",
            "--tool=callgrind",
            "--instr-atstart=no",
            f"--callgrind-out-file={out}",
            f"--dump-before={_MARK}*",
        ]
        command += [sys.executable, "-m", __spec__.name, "--counted", str(conversations)]
        # With a fixed seed, each run has the same hashes, and so the same order of sets.
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=WITHIN)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        spans = dict(each.split("=") for each in done.stdout.split())
        # Every second dump counts the work between the two marks of a part.
        dumps = (Path(f"{out}.{number}") for number in count(2, 2))
        counted = {name: _total(dump) / int(of) / 1e3 for dump, (name, of) in zip(dumps, spans.items(), strict=False)}
    ours, stock = (counted[each] - counted["no_processor"] for each in ("our_processor", "stock_exporter"))
    return {
        **{f"{name.replace('_', ' ')}, thousands": each for name, each in counted.items()},
        "evaluating, of a bare parse": counted["evaluate"] / counted["parse"],
        "assembling, of a bare parse": counted["assemble"] / counted["parse"],
        "our processor, of the stock exporter": ours / stock,
    }


def _total(dump: Path) -> int:
    found = re.search(r"^totals: (\d+)", dump.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


class _Part(NamedTuple):
    name: str
    spans: int
    work: Callable[[], object]


def counted(conversations: int) -> None:
    """Do all measured work, with a mark before and after each part, and print the number of spans of each part."""
    with sink() as endpoint:
        for part in _parts(WARM_UP, CLIENT_SPANS // 4, endpoint, seed=0):
            part.work()
        gc.collect()
        # As the collector does, so that collections are rare, and none walks the loaded modules again.
        gc.freeze()
        gc.set_threshold(*GARBAGE_THRESHOLDS)
        subprocess.run(["callgrind_control", "-i", "on", str(os.getpid())], check=True, stdout=subprocess.DEVNULL)
        for part in _parts(conversations, CLIENT_SPANS, endpoint, seed=1):
            mark()
            part.work()
            mark()
            print(f"{part.name}={part.spans}", flush=True)


def _parts(conversations: int, client_spans: int, endpoint: str, *, seed: int) -> Iterator[_Part]:
    played = list(generate(conversations, seed=seed))
    spans = sum(each.span_count for each in played)
    bodies = list(requests(played, started_at=1_700_000_000_000_000_000))
    yield _Part("parse", spans, lambda: [ExportTraceServiceRequest.FromString(body) for body in bodies])
    traces: list[AssembledTrace] = []
    yield _Part("assemble", spans, lambda: traces.extend(assemble(bodies)))
    with _offline(traces) as collector:
        yield _Part("evaluate", spans, lambda: collector.score(traces, lambda _traces: None))
    yield _Part("no_processor", client_spans, lambda: cost_per_span(None, client_spans, WAYS["busy"]))
    stock = BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, insecure=True))
    yield _Part("stock_exporter", client_spans, lambda: cost_per_span(stock, client_spans, WAYS["busy"]))
    ours = otel_agenteval.AgentEvalSpanProcessor(endpoint)
    yield _Part("our_processor", client_spans, lambda: cost_per_span(ours, client_spans, WAYS["busy"]))


@contextmanager
def _offline(traces: Sequence[AssembledTrace]) -> Iterator[OfflineCollector]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agenteval-bench-")))
        by_id = {each.trace_id: each for each in traces}
        yield stack.enter_context(OfflineCollector(load(environ={}, flags={}), folder, ManualClock(), by_id))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--counted"]:
        counted(int(sys.argv[2]))
    else:
        main()
