"""CPU that the collector uses to look for loops, per span: live, and again when its trace is complete.

The baseline is the CPU that each trace needs in any case: to be assembled, and read for evaluation.

    python -m benchmarks.loops_cpu [--conversations N] [--rounds N] [--json]
"""

import statistics
import time
from collections.abc import Callable, Sequence

from agenteval_collector.assembly.assembler import Assembler
from agenteval_collector.assembly.senders import Senders
from agenteval_collector.cli.offline_replay import NO_WAIT
from agenteval_collector.evaluation.findings.trace_loops import TraceLoops
from agenteval_collector.evaluation.reading import TraceReader
from agenteval_collector.live.live_loops import FoundLive, LiveLoops
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.counters import NoTelemetry
from agenteval_collector.model.logged_requests import Arrival, LoggedRequest, Signal
from agenteval_collector.runtime.clock import SystemClock

from benchmarks.harness import arguments, report
from benchmarks.workload.generator import generate
from benchmarks.workload.otlp import requests
from otel_agenteval.conventions.identity import BY_CONVENTION
from otel_agenteval.detectors.rules import RuleBook
from otel_agenteval.finding import Mode
from otel_agenteval.model import Trace

SPANS_PER_REQUEST = 64


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, conversations=60, rounds=7)
    clock, rules, read = SystemClock(), RuleBook(), TraceReader().read
    used: dict[str, list[float]] = {"base": [], "live": [], "complete": []}
    spans = 0
    for number in range(given.rounds + 1):
        conversations = generate(given.conversations, seed=number)
        bodies = list(requests(conversations, started_at=time.time_ns(), spans_per_request=SPANS_PER_REQUEST))
        arrived: list[Sequence[Arrival]] = []
        complete: list[AssembledTrace] = []
        base = cost(lambda: complete.extend(assemble(bodies, arrived, clock)))  # noqa: B023
        traces: list[Trace] = []
        base += cost(lambda: traces.extend(read(each) for each in complete))  # noqa: B023
        live = LiveLoops(rules, BY_CONVENTION, clock)
        whole = TraceLoops(rules, Mode.ALARM, clock)
        seconds = {
            "base": base,
            "live": cost(lambda: [live.observe(each, FoundLive()) for each in arrived]),  # noqa: B023
            "complete": cost(lambda: [whole.in_trace(t, "s", each) for t, each in zip(traces, complete, strict=True)]),  # noqa: B023
        }
        if number == 0:
            continue  # what is cached has warmed up
        count = sum(map(len, arrived))
        spans += count
        for name, taken in seconds.items():
            used[name].append(taken / count * 1e6)
    results = {f"{name}, us": statistics.median(values) for name, values in used.items()}
    ratio = (results["live, us"] + results["complete, us"]) / results["base, us"]
    report("CPU of looking for loops, per span", {"spans": spans, **results, "ratio": ratio}, as_json=given.json)


class Arrived:
    """Keeps the spans that have arrived, request by request."""

    def __init__(self, arrived: list[Sequence[Arrival]]) -> None:
        self._arrived = arrived

    def take_arrivals(self, arrivals: Sequence[Arrival], size: int) -> None:
        self._arrived.append(arrivals)


def assemble(bodies: Sequence[bytes], arrived: list[Sequence[Arrival]], clock: SystemClock) -> list[AssembledTrace]:
    """Return the complete traces of the requests. The spans that arrive with each request go to `arrived`."""
    assembler = Assembler(clock, NoTelemetry(), Senders(), NO_WAIT, loops=Arrived(arrived))
    complete = []
    for offset, body in enumerate(bodies, 1):
        complete += assembler.take_requests([LoggedRequest(offset, "default", Signal.TRACES, clock.now(), body)])
    return complete + assembler.complete_all()


def cost(work: Callable[[], object]) -> float:
    """Return the CPU seconds of `work`."""
    before = time.process_time()
    work()
    return time.process_time() - before


if __name__ == "__main__":
    main()
