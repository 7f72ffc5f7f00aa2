"""Time from the end of a trace's root span in the agent to its stored coherence score, idle and at half load.

A trace goes through our processor and real gRPC to a real collector process. The score comes back over the watch
stream, which sends stored outcomes. A process of its own sends the load, at half of the spans per second that the
collector scored in the same run. The baseline is the least time of a round trip: a call that asks for nothing.

    python -m benchmarks.latency [--traces N] [--conversations N] [--json]
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

import grpc
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

import otel_agenteval
from benchmarks.arrivals import Arrivals
from benchmarks.harness import Result, Served, arguments, collector, report, send
from benchmarks.workload.generator import generate
from benchmarks.workload.otlp import requests
from benchmarks.workload.plan import SERVICE, PlannedTrace, plan
from benchmarks.workload.replay import SCOPE, emit
from otel_agenteval.proto.v1.evaluation_pb2 import WatchRequest

WARM_UP = 20
"""Traces before the first one that counts. They pay for imports, the connection and caches."""
PAUSE = 0.05
"""Mean seconds between two traces."""


def coherence(channel: grpc.Channel) -> Arrivals:
    """Coherence outcomes, by trace."""
    return Arrivals(
        channel,
        WatchRequest(names=["coherence"]),
        lambda event: event.outcome.trace_id if event.HasField("outcome") else None,
    )


class Agent:
    """An agent whose traces are followed to their scores."""

    def __init__(self, served: Served, scores: Arrivals) -> None:
        self._processor = otel_agenteval.AgentEvalSpanProcessor(f"http://{served.address}")
        provider = TracerProvider(resource=Resource.create({"service.name": SERVICE}), shutdown_on_exit=False)
        provider.add_span_processor(self._processor)
        self._tracer = provider.get_tracer(SCOPE)
        self._scores = scores
        self._random = Random(0)

    def latencies(self, traces: Sequence[tuple[str, PlannedTrace]]) -> list[float]:
        """Return the milliseconds for each trace. Traces come one after the other, with pauses of random length."""
        found = []
        for session_id, trace in traces:
            with otel_agenteval.session(session_id):
                trace_id = emit(trace, self._tracer)
            ended = time.perf_counter_ns()
            found.append((self._scores.wait(f"{trace_id:032x}") - ended) / 1e6)
            time.sleep(self._random.uniform(0, 2 * PAUSE))
        return found

    def close(self) -> None:
        self._processor.shutdown()


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, traces=300, conversations=100)
    played = [(each.session_id, trace) for each in generate(given.traces, seed=1) for trace in plan(each)]
    with collector() as served, grpc.insecure_channel(served.address) as channel:
        scores = coherence(channel)
        agent = Agent(served, scores)
        agent.latencies(played[:WARM_UP])
        trips = [scores.round_trip() for _ in range(WARM_UP * 5)]
        idle = agent.latencies(played[WARM_UP : WARM_UP + given.traces])
        throughput = saturate(served, given.conversations)
        with load(served.address, throughput / 2):
            agent.latencies(played[-WARM_UP:])
            loaded = agent.latencies(played[WARM_UP + given.traces :][: given.traces])
        agent.close()
        scores.close()
    trip = statistics.median(trips)
    report(
        "Root span end to stored coherence score",
        {
            "round trip of an empty call, ms": trip,
            **percentiles("idle", idle),
            "idle p50, round trips": statistics.median(idle) / trip,
            "throughput, spans/s": throughput,
            **percentiles("half load", loaded),
        },
        as_json=given.json,
    )


def percentiles(name: str, latencies: Sequence[float]) -> Result:
    """Return p50, p95 and p99 in milliseconds."""
    cuts = statistics.quantiles(latencies, n=100, method="inclusive")
    return {f"{name} p{percent}, ms": cuts[percent - 1] for percent in (50, 95, 99)}


def saturate(served: Served, count: int) -> float:
    """Return the spans per second that the collector takes and scores at most."""
    conversations = list(generate(count, seed=2))
    bodies = list(requests(conversations, started_at=time.time_ns()))
    scored = served.scored_traces() + sum(len(each.turns) for each in conversations)
    started = time.perf_counter()
    send(served.address, bodies)
    served.wait_scored(scored)
    return sum(each.span_count for each in conversations) / (time.perf_counter() - started)


@contextmanager
def load(address: str, spans_per_second: float) -> Iterator[None]:
    """Send a steady load from a process of its own until the block ends."""
    command = [sys.executable, "-m", "benchmarks.load", address, str(spans_per_second)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if not process.stdout.readline():
                raise RuntimeError("the load ended before it began; its error is above")
            yield
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
