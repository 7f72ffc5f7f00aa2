"""Time from the end of the span that completes a loop to its verdict on the watch stream, in foreign telemetry.

Spans are sent one by one over plain OTLP to a real collector process, as a stock SDK without batching does. Nothing
says that their traces are over. The collector is idle, or has half of the spans per second that it scored in the same
run. The baseline is the least time of a round trip: a call that asks for nothing.

    python -m benchmarks.loop_latency [--loops N] [--conversations N] [--json]
"""

import statistics
import time
from collections.abc import Iterable
from random import Random

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from benchmarks.arrivals import Arrivals
from benchmarks.harness import EXPORT, TIMEOUT, arguments, collector, report
from benchmarks.latency import load, percentiles, saturate
from otel_agenteval.proto.v1.evaluation_pb2 import WatchRequest

WARM_UP = 20
"""Loops before the first one that counts."""
REPEATS = 3
PAUSE = 0.05
"""Mean seconds between two loops."""
TOOL = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "search",
    "gen_ai.tool.call.arguments": '{"query": "weather in Reykjavik"}',
    "gen_ai.tool.call.result": "nothing found",
    "gen_ai.agent.name": "benchmark",
}


def loops(channel: grpc.Channel) -> Arrivals:
    """Verdicts on equal calls, by trace."""
    return Arrivals(
        channel,
        WatchRequest(),
        lambda event: event.finding.trace_id if event.finding.kind == "identical_call" else None,
    )


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, loops=300, conversations=100)
    numbers = iter(range(1, 10**6))
    with collector() as served, grpc.insecure_channel(served.address) as channel:
        verdicts = loops(channel)
        random = Random(0)

        def latencies(count: int) -> list[float]:
            return list(_latencies(channel, verdicts, random, (next(numbers) for _ in range(count))))

        latencies(WARM_UP)
        trips = [verdicts.round_trip() for _ in range(WARM_UP * 5)]
        idle = latencies(given.loops)
        throughput = saturate(served, given.conversations)
        with load(served.address, throughput / 2):
            latencies(WARM_UP)
            loaded = latencies(given.loops)
        verdicts.close()
    trip = statistics.median(trips)
    report(
        "Offending span end to verdict, foreign OTLP",
        {
            "round trip of an empty call, ms": trip,
            **percentiles("idle", idle),
            "idle p50, round trips": statistics.median(idle) / trip,
            "throughput, spans/s": throughput,
            **percentiles("half load", loaded),
        },
        as_json=given.json,
    )


def _latencies(channel: grpc.Channel, verdicts: Arrivals, random: Random, numbers: Iterable[int]) -> Iterable[float]:
    """Yield the milliseconds for each loop. Loops come one after the other, with pauses of random length."""
    export = channel.unary_unary(EXPORT, request_serializer=bytes, response_deserializer=bytes)
    for number in numbers:
        trace_id = (number << 64 | 0xBE7C).to_bytes(16, "big")
        for step in range(1, REPEATS):
            export(_request(trace_id, step), timeout=TIMEOUT)
        last = _request(trace_id, REPEATS)
        ended = time.perf_counter_ns()
        sent = export.future(last, timeout=TIMEOUT)
        yield (verdicts.wait(trace_id.hex()) - ended) / 1e6
        sent.result()
        time.sleep(random.uniform(0, 2 * PAUSE))


def _request(trace_id: bytes, step: int) -> bytes:
    now = time.time_ns()
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    spans.append(
        Span(
            trace_id=trace_id,
            span_id=step.to_bytes(8, "big"),
            name="execute_tool search",
            start_time_unix_nano=now - 1,
            end_time_unix_nano=now,
            attributes=[KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in TOOL.items()],
        )
    )
    return request.SerializeToString()


if __name__ == "__main__":
    main()
