"""Time from the end of the span that completes a loop to `on_verdict`, in the agent's own process.

Spans, the processor and its threads are real; there is no collector at all. The process is idle, or another thread of
it makes spans of tools at a steady rate: half of the rate that a collector on such a machine takes. The baseline is the
hand-over of an object between two threads, because no verdict can be quicker.

    python -m benchmarks.verdict_latency [--loops N] [--spans-per-second N] [--json]
"""

import argparse
import json
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Tracer

import otel_agenteval

NOWHERE = "http://127.0.0.1:1"
WARM_UP = 20
PAUSE = 0.01
"""Seconds between two calls."""


def call(tracer: Tracer, query: str) -> int:
    """Make a tool call. Return the time at which its end began, by `time.perf_counter_ns`."""
    span = tracer.start_span(
        "execute_tool search",
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.arguments": json.dumps({"query": query}),
            "gen_ai.tool.call.result": f"nothing was found of {query}. " * 40,
        },
    )
    ended = time.perf_counter_ns()
    span.end()
    return ended


@contextmanager
def load(tracer: Tracer, spans_per_second: float) -> Iterator[None]:
    """Make spans of another agent in this process, ten to a trace, until the block ends."""
    done = threading.Event()

    def run() -> None:
        number = 0
        started = time.monotonic()
        while not done.wait(max(0.0, started + number / spans_per_second - time.monotonic())):
            with tracer.start_as_current_span("invoke_agent busy"):
                for _ in range(9):
                    call(tracer, str(number := number + 1))
            number += 1

    thread = threading.Thread(target=run, name="load")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def measure(spans_per_second: float, loops: int) -> dict[str, float]:
    """Return the milliseconds of verdicts and of the baseline, at p50 and p99."""
    heard: Queue[tuple[str, int]] = Queue()
    processor = otel_agenteval.AgentEvalSpanProcessor(
        NOWHERE, on_verdict=lambda verdict: heard.put((verdict.session_id, time.perf_counter_ns())), shutdown_timeout=1
    )
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("bench")
    taken: list[float] = []
    baseline: list[float] = []

    def loop(number: int) -> None:
        with otel_agenteval.session(f"s{number}"), tracer.start_as_current_span("invoke_agent looping"):
            for _ in range(3):
                time.sleep(PAUSE)
                ended = call(tracer, "the lost city")
            session, arrived = heard.get(timeout=10)
        assert session == f"s{number}"
        if number >= WARM_UP:
            taken.append((arrived - ended) / 1e6)
            baseline.append(hand_over())

    def run() -> None:
        for number in range(WARM_UP + loops):
            loop(number)

    if spans_per_second:
        with load(tracer, spans_per_second):
            run()
    else:
        run()
    processor.shutdown()
    return {
        **{f"p{at}_ms": round(quantile(taken, at), 2) for at in (50, 99)},
        **{f"hand_over_p{at}_ms": round(quantile(baseline, at), 2) for at in (50, 99)},
        "unwatched": processor.stats.unwatched,
    }


def hand_over() -> float:
    """Return the milliseconds until a waiting thread has the object that another thread gave it."""
    given: Queue[None] = Queue()
    arrived: Queue[int] = Queue()

    def take() -> None:
        given.get()
        arrived.put(time.perf_counter_ns())

    thread = threading.Thread(target=take)
    thread.start()
    time.sleep(PAUSE)
    started = time.perf_counter_ns()
    given.put(None)
    taken = (arrived.get() - started) / 1e6
    thread.join()
    return taken


def quantile(values: list[float], at: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[at - 1]


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--loops", type=int, default=200)
    parser.add_argument("--spans-per-second", type=float, default=950.0, help="the load of the second figure")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    result = {"idle": measure(0.0, given.loops), "busy": measure(given.spans_per_second, given.loops)}
    if given.json:
        print(json.dumps(result))
        return
    for name, figures in result.items():
        print(
            f"{name}: p50 {figures['p50_ms']} ms, p99 {figures['p99_ms']} ms; "
            f"a hand-over {figures['hand_over_p50_ms']} and {figures['hand_over_p99_ms']} ms"
        )


if __name__ == "__main__":
    main()
