"""Growth of the collector's CPU: with the length of traces and sessions, with sessions, pieces and disorder.

Each curve has a collector of its own, and all its points have the same number of spans or traces. The table has each
point's CPU as a ratio to the first point of its curve. `--pictures` writes a picture of the curves.

    python -m benchmarks.curves [--only NAME ...] [--pictures FOLDER] [--json]
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from random import Random

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from benchmarks.charts import bars
from benchmarks.growing import STEP, requests, trace
from benchmarks.harness import Served, collector, report, send

ROUNDS = 3
SPANS = 5
"""Spans of a trace on the curves that do not vary its length."""
PUSHING_OUT = 2_600
"""Number of other sessions that push a quiet session out of memory, with the limit in `LITTLE_MEMORY`."""
LITTLE_MEMORY = {"AGENTEVAL_SERVER__MEMORY_LIMIT": "600MB"}

Points = Mapping[str, float]
"""Milliseconds of CPU, by the value that is varied."""


class Load:
    """Sends traces to a collector, and measures the CPU that the collector uses for them."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._traces = 0
        self._sessions = 0

    def sessions(self, count: int = 1) -> list[str]:
        """Name new sessions."""
        self._sessions += count
        return [f"session-{number}" for number in range(self._sessions - count, self._sessions)]

    def cost(self, traces: Iterable[list[Span]], spans_per_request: int = 64) -> float:
        """Send the traces. Return the milliseconds of CPU until all are scored."""
        sent = list(traces)
        bodies = list(requests(sent, spans_per_request))
        self._traces += len(sent)
        before = self._served.cpu_seconds
        send(self._served.address, bodies)
        self._served.wait_scored(self._traces)
        return (self._served.cpu_seconds - before) * 1e3


def trace_length(load: Load) -> Iterator[tuple[str, float]]:
    """Spans of a trace: CPU of one span, of 10,000."""
    for spans in (10, 100, 1_000, 10_000):
        (session,) = load.sessions()
        yield f"{spans:,}", load.cost(_session(session, 10_000 // spans, spans)) / 10_000


def session_length(load: Load) -> Iterator[tuple[str, float]]:
    """Traces of a session: CPU of one trace, of 800."""
    for length in (20, 100, 400):
        sessions = load.sessions(800 // length)
        yield f"{length:,}", load.cost(each for name in sessions for each in _session(name, length)) / 800


def session_count(load: Load) -> Iterator[tuple[str, float]]:
    """Sessions that take turns: CPU of one trace, of the second in each."""
    for count in (500, 1_000, 2_000, 4_000):
        names = load.sessions(count)
        load.cost(trace(name, 0, SPANS, time.time_ns()) for name in names)
        yield f"{count:,}", load.cost(trace(name, 1, SPANS, time.time_ns()) for name in names) / count


def coming_back(load: Load) -> Iterator[tuple[str, float]]:
    """Traces of a session that is no longer in memory: CPU of its next one."""
    lengths = (10, 100, 1_000, 5_000)
    names = load.sessions(len(lengths))
    for name, length in zip(names, lengths, strict=True):
        load.cost(_session(name, length))
    number = max(lengths)
    found: dict[int, list[float]] = {length: [] for length in lengths}
    for _ in range(ROUNDS):
        load.cost(trace(name, 0, SPANS, time.time_ns()) for name in load.sessions(PUSHING_OUT))
        number += 1
        for name, length in zip(names, lengths, strict=True):
            found[length].append(load.cost([trace(name, number, SPANS, time.time_ns())]))
    for length, costs in found.items():
        yield f"{length:,}", statistics.median(costs)


def pieces(load: Load) -> Iterator[tuple[str, float]]:
    """Requests that a trace of 1,024 spans comes in: CPU of the trace."""
    for count in (1, 8, 32, 128):
        costs = (load.cost(_session(load.sessions()[0], 1, 1_024), 1_024 // count) for _ in range(ROUNDS))
        yield f"{count}", statistics.median(costs)


def disorder(load: Load) -> Iterator[tuple[str, float]]:
    """How the 400 traces of a session come: CPU of one trace."""
    ways: Mapping[str, Callable[[list[list[Span]]], list[list[Span]]]] = {
        "in order": lambda traces: traces,
        "shuffled": lambda traces: Random(0).sample(traces, len(traces)),
        "newest first": lambda traces: traces[::-1],
    }
    for way, ordered in ways.items():
        (session,) = load.sessions()
        yield way, load.cost(ordered(list(_session(session, 400)))) / 400
    (session,) = load.sessions()
    now = time.time_ns()
    yield "all at the same time", load.cost(trace(session, number, SPANS, now) for number in range(400)) / 400


def failures(load: Load) -> Iterator[tuple[str, float]]:
    """Failing calls of a trace: CPU of one call, of 2,000."""
    for calls in (10, 100, 500):
        now, failing = time.time_ns(), "HTTP 500"
        traces = (trace(name, 0, calls + 1, now, failure=failing) for name in load.sessions(2_000 // calls))
        yield f"{calls:,}", load.cost(traces) / 2_000


def text_length(load: Load) -> Iterator[tuple[str, float]]:
    """Bytes of a tool's result: CPU of one megabyte, of 8."""
    for size in (10_000, 100_000, 1_000_000):
        now = time.time_ns()
        traces = (trace(name, 0, 2, now, result_bytes=size) for name in load.sessions(8_000_000 // size))
        yield f"{size:,}", load.cost(traces, 2) / 8


def agents(load: Load) -> Iterator[tuple[str, float]]:
    """Agents: CPU of one trace, of 2,000."""
    for count in (1, 20, 200):
        now = time.time_ns()
        sessions = enumerate(load.sessions(2_000))
        traces = (trace(name, 0, SPANS, now, agent=f"agent-{number % count}") for number, name in sessions)
        yield f"{count:,}", load.cost(traces) / 2_000


def problems(load: Load) -> Iterator[tuple[str, float]]:
    """Problems that are known: CPU of a trace that fails in a way that is new, of 500."""
    known = 0
    for count in (0, 1_000, 10_000):
        load.cost(_failing(load, range(known, count)))
        yield f"{count:,}", load.cost(_failing(load, range(count, known := count + 500))) / 500


def _failing(load: Load, numbers: range) -> Iterator[list[Span]]:
    """Return traces that fail in ways of their own: no two numbers have the same letters."""
    now = time.time_ns()
    for number, session in zip(numbers, load.sessions(len(numbers)), strict=True):
        word = "".join(chr(ord("a") + int(digit)) * 2 for digit in f"{number:05}")
        yield trace(session, 0, 2, now, failure=f"Unknown{word.title()}Error: {word} is not there")


CURVES = {
    each.__name__.replace("_", " "): each
    for each in (
        trace_length,
        session_length,
        session_count,
        coming_back,
        pieces,
        disorder,
        failures,
        text_length,
        agents,
        problems,
    )
}


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=CURVES, default=list(CURVES))
    parser.add_argument("--pictures", type=Path, help="where growth.svg is written")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    points: dict[str, Points] = {}
    for name in given.only:
        points[name] = measured(name)
    figures = {
        f"{name}, {point}": figure
        for name, curve in points.items()
        for point, value in curve.items()
        for figure in [f"{value:.3g} ms, {value / next(iter(curve.values())):.2f}"]
    }
    report("CPU, and its ratio to the first point", figures, as_json=given.json)
    if given.pictures is not None:
        titles = {(CURVES[name].__doc__ or "").rstrip("."): curve for name, curve in points.items()}
        (given.pictures / "growth.svg").write_text(bars(titles, "ms"))


def measured(name: str) -> Points:
    """Measure a curve on a collector of its own."""
    curve = CURVES[name]
    with collector(LITTLE_MEMORY if curve is coming_back else None) as served:
        load = Load(served)
        load.cost(_session(load.sessions()[0], 200))  # what starts lazily has warmed up
        return dict(curve(load))


def _session(name: str, traces: int, spans: int = SPANS) -> Iterator[list[Span]]:
    """Return the traces of a session, one after the other."""
    now = time.time_ns()
    return (trace(name, number, spans, now + number * spans * STEP) for number in range(traces))


if __name__ == "__main__":
    main()
