"""A real collector under a steady load for hours: memory, descriptors, threads, disk, CPU and latency, each minute.

Sessions come and go. At any time, 200 conversations are under way, and each trace is the next turn of one of them. A
conversation that is over makes room for a new one. The latency begins when a trace's root is sent, which ended then. It
ends with the stored coherence score on the watch stream. Rows go to FOLDER/soak.csv as they are made, and curves to
FOLDER/soak.svg.

    python -m benchmarks.soak --hours 2 [--rate SPANS_PER_SECOND] [--into FOLDER]
    python -m benchmarks.soak --draw FOLDER/soak.csv
"""

import argparse
import csv
import sqlite3
import statistics
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from benchmarks.arrivals import Arrivals
from benchmarks.charts import svg
from benchmarks.harness import EXPORT, MIB, TIMEOUT, Served, collector
from benchmarks.workload.conversation import Conversation
from benchmarks.workload.generator import generate
from benchmarks.workload.otlp import spans
from benchmarks.workload.plan import SERVICE
from otel_agenteval import semconv
from otel_agenteval.proto.v1.evaluation_pb2 import WatchRequest, WatchResponse

SETTINGS = {
    "AGENTEVAL_LOG__RETENTION": "600",
    "AGENTEVAL_RETENTION__CONTENT": "1200",
    "AGENTEVAL_RETENTION__OUTCOMES": "1800",
    "AGENTEVAL_SESSION__IDLE": "120",
    "AGENTEVAL_SERVER__MEMORY_LIMIT": "1GiB",
}
"""Settings with short times. Data that is kept for a while soon reaches its level, so that any further growth shows."""
UNDER_WAY = 200
"""Number of conversations that go on at the same time."""
EVERY = 60.0
"""Seconds between two rows."""
ENDLESS = 10**9

Row = dict[str, float]


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--rate", type=float, default=60.0, help="spans per second [60]")
    parser.add_argument("--into", type=Path, default=Path("soak"))
    parser.add_argument("--draw", type=Path, help="draw the curves of rows that are there, and run nothing")
    given = parser.parse_args()
    if given.draw:
        draw(given.draw)
        return
    given.into.mkdir(parents=True, exist_ok=True)
    rows = given.into / "soak.csv"
    with collector(SETTINGS) as served, grpc.insecure_channel(served.address) as channel:
        load = Load(channel, given.rate)
        load.start()
        with rows.open("w", newline="") as file:
            for row in sampled(served, load, given.hours * 3600):
                writer = csv.DictWriter(file, row)
                if file.tell() == 0:
                    writer.writeheader()
                writer.writerow(row)
                file.flush()
                print("  ".join(f"{name} {value:.6g}" for name, value in row.items()), flush=True)
        load.stop()
    draw(rows)


class Load:
    """Sends one trace after the other, at a steady rate of spans, and follows each to its score.

    Each trace has a request of its own. A request that is refused or fails is counted, and not sent again.
    """

    def __init__(self, channel: grpc.Channel, spans_per_second: float) -> None:
        self.spans = self.failed = 0
        self._rate = spans_per_second
        self._export = channel.unary_unary(EXPORT, request_serializer=bytes, response_deserializer=bytes)
        self._sent: dict[str, int] = {}
        self._latencies: list[float] = []
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._arrivals = Arrivals(channel, WatchRequest(names=["coherence"]), self._arrived)
        self._thread = threading.Thread(target=self._send, name="load", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(TIMEOUT)
        self._arrivals.close()

    def take_latencies(self) -> list[float]:
        """Return the latencies in milliseconds of the traces scored since the last call."""
        with self._lock:
            taken, self._latencies = self._latencies, []
        return taken

    @property
    def unscored(self) -> int:
        """The number of sent traces whose score has not come yet."""
        return len(self._sent)

    def _send(self) -> None:
        begun = time.monotonic()
        under_way: deque[grpc.Future[bytes]] = deque(maxlen=256)  # gRPC cancels a call that nobody has a reference to.
        for trace in turns():
            if self._stopped.wait(max(0.0, begun + self.spans / self._rate - time.monotonic())):
                return
            # Noted before the request is sent, because the score may come before the answer.
            with self._lock:
                self._sent[trace[-1].trace_id.hex()] = time.perf_counter_ns()
            answer = self._export.future(request(trace), timeout=TIMEOUT)
            answer.add_done_callback(self._answered)
            under_way.append(answer)
            self.spans += len(trace)

    def _answered(self, answer: "grpc.Future[bytes]") -> None:
        if answer.exception() is not None:
            self.failed += 1

    def _arrived(self, event: WatchResponse) -> None:
        now = time.perf_counter_ns()
        with self._lock:
            sent = self._sent.pop(event.outcome.trace_id, None)
            if sent is not None:
                self._latencies.append((now - sent) / 1e6)


def turns() -> Iterator[list[Span]]:
    """Yield the spans of one trace after the other. Each is the next turn of any conversation that is under way."""
    random, conversations = Random(0), generate(ENDLESS, seed=int(time.time()))
    going = [_traces(next(conversations)) for _ in range(UNDER_WAY)]
    while True:
        place = random.randrange(UNDER_WAY)
        trace = next(going[place], None)
        if trace is None:
            going[place] = _traces(next(conversations))
        else:
            yield trace


def _traces(conversation: Conversation) -> Iterator[list[Span]]:
    trace: list[Span] = []
    for span in spans([conversation], started_at=0, marker=True):
        trace.append(span)
        if not span.parent_span_id:
            yield _ended_now(trace)
            trace = []


def _ended_now(trace: list[Span]) -> list[Span]:
    later = time.time_ns() - trace[-1].end_time_unix_nano
    for span in trace:
        span.start_time_unix_nano += later
        span.end_time_unix_nano += later
    return trace


def request(trace: Sequence[Span]) -> bytes:
    """Return one export request with these spans."""
    made = ExportTraceServiceRequest()
    resource_spans = made.resource_spans.add()
    for key, value in ((semconv.SERVICE_NAME, SERVICE), (semconv.AGENTEVAL_PROCESS_ID, "workload")):
        resource_spans.resource.attributes.append(KeyValue(key=key, value=AnyValue(string_value=value)))
    resource_spans.scope_spans.add().spans.extend(trace)
    return made.SerializeToString()


def sampled(served: Served, load: Load, seconds: float) -> Iterator[Row]:
    """Yield a row every minute, until `seconds` have passed."""
    begun, cpu = time.monotonic(), served.cpu_seconds
    for number in range(1, round(seconds / EVERY) + 1):
        time.sleep(max(0.0, begun + number * EVERY - time.monotonic()))
        used, cpu = served.cpu_seconds - cpu, served.cpu_seconds
        latencies = load.take_latencies() or [0.0, 0.0]
        yield {
            "minute": number * EVERY / 60,
            "spans": load.spans,
            "failed requests": load.failed,
            "unscored traces": load.unscored,
            **stored(served),
            **process(served),
            "cpu, cores": used / EVERY,
            "p50, ms": statistics.median(latencies),
            "p95, ms": statistics.quantiles(latencies, n=20, method="inclusive")[-1],
            **metrics(served),
        }


def stored(served: Served) -> Row:
    """Return the number of traces and sessions in the store, and the size of the data on disk."""
    folder = served.data_dir
    with closing(sqlite3.connect(f"file:{folder / 'agenteval.db'}?mode=ro", uri=True)) as store:
        counts = {name: store.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("traces", "sessions")}
    sizes = {
        name: sum(file.stat().st_size for file in folder.glob(f"{name}.db*")) / MIB for name in ("log", "agenteval")
    }
    return {**counts, **{f"{name}.db, MiB": size for name, size in sizes.items()}}


def process(served: Served) -> Row:
    """Return the memory, the descriptors and the threads of the process, from Linux."""
    proc = Path(f"/proc/{served.pid}")
    return {
        "rss, MiB": served.resident_bytes / MIB,
        "descriptors": len(list((proc / "fd").iterdir())),
        "threads": len(list((proc / "task").iterdir())),
    }


def metrics(served: Served) -> Row:
    """Return the size of /metrics, and the seconds that it took. The size is 0 if the collector refuses it now."""
    begun = time.monotonic()
    try:
        with urllib.request.urlopen(f"http://{served.web}/metrics", timeout=TIMEOUT) as answer:
            said = answer.read()
    except urllib.error.HTTPError as error:
        error.close()
        said = b""
    return {
        "metrics, KiB": len(said) / 1024,
        "series": sum(not line.startswith(b"#") for line in said.splitlines()),
        "scrape, s": time.monotonic() - begun,
    }


def draw(path: Path) -> None:
    """Write the curves of the rows to a file beside them."""
    with path.open(newline="") as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    panels: Mapping[str, Sequence[str]] = {
        "resident memory, MiB": ["rss, MiB"],
        "root end to stored score, ms": ["p50, ms", "p95, ms"],
        "descriptors, threads": ["descriptors", "threads"],
        "CPU, cores": ["cpu, cores"],
        "disk, MiB": ["log.db, MiB", "agenteval.db, MiB"],
        "/metrics, KiB": ["metrics, KiB"],
        "time of a scrape, s": ["scrape, s"],
        "sessions, traces stored": ["sessions", "traces"],
        "traces without a score yet": ["unscored traces"],
    }
    drawn = {
        title: {name.partition(",")[0]: [row[name] for row in rows] for name in names}
        for title, names in panels.items()
    }
    path.with_suffix(".svg").write_text(svg(drawn, [row["minute"] for row in rows], "minutes"))


if __name__ == "__main__":
    main()
