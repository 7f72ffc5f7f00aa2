"""Memory per open span in the collector, as a ratio to its size on the wire.

A real collector process gets traces that do not end: their roots are held back, and it waits for them. The growth of
its resident memory is divided by the bytes that were sent. The collector has scored other traces before, so that the
baseline includes everything that any load leaves behind, such as arenas and caches. For comparison, the table also has
the bytes that the assembler alone allocates for the same requests.

    python -m benchmarks.memory [--mebibytes N] [--json]
"""

import time
import tracemalloc

from agenteval_collector.assembly.assembler import Assembler
from agenteval_collector.assembly.senders import Senders
from agenteval_collector.config.settings import AssemblyConfig
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.model.logged_requests import LoggedRequest, Signal
from agenteval_collector.runtime.clock import SystemClock
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.harness import MIB, TIMEOUT, Served, arguments, collector, report, send
from benchmarks.workload.generator import generate
from benchmarks.workload.otlp import requests

LONG = 3600.0
"""Seconds that the collector waits for a trace, longer than the benchmark takes."""
STILL = 2.0
"""Seconds for which resident memory must not change before it is read."""
MANY = 10**6
"""Number of conversations, more than are ever taken."""


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, mebibytes=64)
    bodies, spans = open_traces(given.mebibytes * MIB)
    wire = sum(map(len, bodies))
    settings = {f"AGENTEVAL_ASSEMBLY__{name}": f"{LONG:.0f}" for name in ("SETTLE", "SILENCE", "MAX_AGE")}
    with collector(settings) as served:
        before = warmed_up(served)
        send(served.address, bodies)
        resident = settled(served) - before
    allocated = assembled(bodies)
    report(
        "Memory per open span",
        {
            "open spans": spans,
            "wire, bytes per span": wire / spans,
            "collector process, bytes per span": resident / spans,
            "assembler alone, bytes per span": allocated / spans,
            "collector process, ratio": resident / wire,
            "assembler alone, ratio": allocated / wire,
        },
        as_json=given.json,
    )


def open_traces(size: int) -> tuple[list[bytes], int]:
    """Return requests of at least `size` bytes altogether, whose traces have no root, and the number of their spans."""
    bodies: list[bytes] = []
    spans = taken = 0
    for body in requests(generate(MANY, seed=1), started_at=time.time_ns(), marker=False):
        request = ExportTraceServiceRequest.FromString(body)
        held = request.resource_spans[0].scope_spans[0].spans
        children = [span for span in held if span.parent_span_id]
        del held[:]
        held.extend(children)
        bodies.append(request.SerializeToString())
        spans += len(children)
        taken += len(bodies[-1])
        if taken >= size:
            break
    return bodies, spans


def warmed_up(served: Served) -> int:
    """Return the resident memory after the collector has scored other traces, in bytes."""
    conversations = list(generate(200, seed=0))
    send(served.address, list(requests(conversations, started_at=time.time_ns())))
    served.wait_scored(sum(len(each.turns) for each in conversations))
    return settled(served)


def settled(served: Served) -> int:
    """Return the resident memory once it does not change, in bytes. Raises TimeoutError if it always does."""
    deadline = time.monotonic() + TIMEOUT
    seen = served.resident_bytes
    while time.monotonic() < deadline:
        time.sleep(STILL)
        before, seen = seen, served.resident_bytes
        if abs(seen - before) < MIB:
            return seen
    raise TimeoutError(f"the collector's memory still grows after {TIMEOUT:.0f} s")


def assembled(bodies: list[bytes]) -> int:
    """Return the bytes that an assembler allocates and keeps for the requests."""
    assembler = Assembler(
        SystemClock(),
        TelemetryOutput(version="0", instance_id="benchmark", is_on_duty=lambda: True).own_work,
        Senders(),
        AssemblyConfig(
            settle=LONG, settle_logs=LONG, silence=LONG, max_age=LONG, max_open_bytes=1 << 40, max_recent_bytes=0
        ),
    )
    tracemalloc.start()
    for offset, body in enumerate(bodies, 1):
        assembler.take_requests([LoggedRequest(offset, "default", Signal.TRACES, 0, body)])
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept


if __name__ == "__main__":
    main()
