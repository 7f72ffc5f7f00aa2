"""CPU of assembling traces, per span, as a ratio to parsing the same requests.

It measures traces with our processor's count, and plain traces. The spans of plain traces come in requests of many, and
one by one.

    python -m benchmarks.assembly_cpu [--conversations N] [--rounds N] [--json]
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

from agenteval_collector.assembly.assembler import Assembler
from agenteval_collector.assembly.senders import Senders
from agenteval_collector.config.settings import AssemblyConfig
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.counters import NoTelemetry
from agenteval_collector.model.logged_requests import LoggedRequest, Signal
from agenteval_collector.runtime.machine import GARBAGE_THRESHOLDS
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.harness import MIB, arguments, report
from benchmarks.workload.generator import generate
from benchmarks.workload.otlp import requests
from tests.support.clock import ManualClock

CONFIG = AssemblyConfig(max_open_bytes=1 << 40, max_recent_bytes=4 * MIB)
BETWEEN = 0.01
"""Seconds between two requests, by the assembler's clock."""
SORTS = {"counted": (True, 64), "plain": (False, 64), "plain, one by one": (False, 1)}


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, conversations=60, rounds=7)
    gc.collect()
    # As the collector does, so that collections are rare, and none walks the loaded modules again.
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    results: dict[str, float] = {}
    for name, (marker, together) in SORTS.items():
        parsed: list[float] = []
        assembled: list[float] = []
        for number in range(given.rounds + 1):
            conversations = list(generate(given.conversations, seed=number))
            spans = sum(each.span_count for each in conversations)
            bodies = list(requests(conversations, started_at=time.time_ns(), spans_per_request=together, marker=marker))
            parsed.append(cost(lambda: [ExportTraceServiceRequest.FromString(body) for body in bodies]) / spans)  # noqa: B023
            assembled.append(cost(lambda: list(assemble(bodies))) / spans)  # noqa: B023
        # The first round is left out: it warms up.
        results[f"{name}, us"] = statistics.median(assembled[1:]) * 1e6
        results[f"{name}, ratio"] = statistics.median(a / p for a, p in zip(assembled[1:], parsed[1:], strict=True))
    report("CPU of assembling, per span", results, as_json=given.json)


def cost(work: Callable[[], object]) -> float:
    """Return the CPU seconds that this process uses for `work`."""
    before = time.process_time()
    work()
    return time.process_time() - before


def assembler(clock: ManualClock) -> Assembler:
    """Return an assembler as the collector has it, without the components around it."""
    return Assembler(clock, NoTelemetry(), Senders(), CONFIG)


def assemble(bodies: Sequence[bytes]) -> Iterator[AssembledTrace]:
    """Yield every assembled trace. Each trace counts as scored as soon as it is complete."""
    clock = ManualClock()
    assembling = assembler(clock)
    for offset, body in enumerate(bodies, 1):
        complete = assembling.take_requests([LoggedRequest(offset, "default", Signal.TRACES, clock.now(), body)])
        clock.advance(BETWEEN)
        for trace in [*complete, *assembling.due()]:
            assembling.scored(trace.trace_id, trace.revision)
            yield trace


if __name__ == "__main__":
    main()
