"""CPU that we add per span in an agent, as a ratio to BatchSpanProcessor with the OTLP gRPC exporter.

Both send the same GenAI spans of about 4.6 KB to one collector in another process. They alternate within one run, so
the machine's speed cancels out. The cost of making the spans without any processor is measured too, and subtracted.
`total` is the CPU of the whole process until everything is delivered; `agent` is that of the threads that make spans.

Spans are made in each of the `WAYS`:

- as fast as possible, so that both send full requests;
- a trace of twenty spans every few milliseconds: ours sends each trace as it closes, the stock one gathers 512 spans;
- on four threads, in four tasks of asyncio, and without content;
- with somebody who listens to verdicts, so that the processor looks for loops.

    python -m benchmarks.client_cpu [--spans N] [--rounds N] [--only WAY ...] [--json]
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Tracer

import otel_agenteval

SPANS_PER_TRACE = 20
AT_ONCE = 4
"""Threads, or tasks, that make spans at the same time."""
CONTENT = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions")

_COLLECTOR = """
import sys
from concurrent.futures import ThreadPoolExecutor
import grpc

class Sink(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: b"")

server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", 64 << 20)])
server.add_generic_rpc_handlers((Sink(),))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
sys.stdin.read()
"""


class Cost(NamedTuple):
    """Microseconds of CPU per span: `total` of the whole process, `agent` of the threads that make spans."""

    total: float
    agent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to make spans. `pause` is in seconds, after each trace. `heard`: somebody listens to verdicts."""

    pause: float = 0.0
    threads: bool = False
    tasks: bool = False
    content: bool = True
    heard: bool = False


WAYS = {
    "busy": Way(),
    "paced": Way(pause=0.002),
    "threads": Way(threads=True),
    "async": Way(tasks=True),
    "bare": Way(content=False),
    "heard": Way(heard=True),
}


def genai_attributes(number: int = 0) -> dict[str, str | int]:
    """Return the attributes of a model call with its messages, about 4.6 KB as OTLP.

    Each number below 100 has another reply.
    """

    def messages(role: str, size: int) -> str:
        content = f"wo{number:02} " * (size // 5)
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": content}]}])

    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.response.model": "gpt-4o-2024-08-06",
        "gen_ai.response.id": "chatcmpl-9J3uyL87hldpFfcBy",
        "gen_ai.conversation.id": "conversation-17",
        "gen_ai.agent.name": "airline",
        "gen_ai.input.messages": messages("user", 2600),
        "gen_ai.output.messages": messages("assistant", 1100),
        "gen_ai.system_instructions": "You are a careful assistant. " * 10,
        "gen_ai.usage.input_tokens": 912,
        "gen_ai.usage.output_tokens": 61,
        "server.address": "api.openai.com",
        "server.port": 443,
    }


@contextmanager
def sink() -> Iterator[str]:
    """Run a server in another process that accepts every request. Yield its address."""
    with subprocess.Popen(
        [sys.executable, "-c", _COLLECTOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as collector:
        assert collector.stdin is not None
        assert collector.stdout is not None
        yield f"http://127.0.0.1:{collector.stdout.readline().strip()}"
        collector.stdin.close()


def cost_per_span(processor: SpanProcessor | None, spans: int, way: Way) -> Cost:
    """Make spans in one of the ways. Return the cost of each until everything is delivered."""
    provider = TracerProvider(resource=Resource.create({"service.name": "bench"}), shutdown_on_exit=False)
    if processor is not None:
        provider.add_span_processor(processor)
    tracer = provider.get_tracer("bench", "1.0")
    # All replies of a trace differ. Equal ones would be a loop, which the detectors know without reading them.
    calls = [genai_attributes(number) for number in range(SPANS_PER_TRACE - 1)]
    if not way.content:
        calls = [{key: value for key, value in call.items() if key not in CONTENT} for call in calls]
    started = time.process_time()
    agent = _make(tracer, calls, spans // SPANS_PER_TRACE, way)
    provider.force_flush()
    used = time.process_time() - started
    provider.shutdown()
    return Cost(used / spans * 1e6, agent / spans * 1e6)


def _make(tracer: Tracer, calls: list[dict[str, str | int]], traces: int, way: Way) -> float:
    """Make the spans. Return the CPU seconds of the threads that made them."""

    def some(count: int) -> float:
        began = time.thread_time()
        for _ in range(count):
            _trace(tracer, calls)
            if way.pause:
                time.sleep(way.pause)
        return time.thread_time() - began

    async def taking_turns(count: int) -> None:
        for _ in range(count):
            _trace(tracer, calls)
            await asyncio.sleep(0)

    async def all_tasks() -> None:
        await asyncio.gather(*(taking_turns(traces // AT_ONCE) for _ in range(AT_ONCE)))

    if way.threads:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return sum(pool.map(some, AT_ONCE * [traces // AT_ONCE]))
    if way.tasks:
        began = time.thread_time()
        asyncio.run(all_tasks())
        return time.thread_time() - began
    return some(traces)


def _trace(tracer: Tracer, calls: list[dict[str, str | int]]) -> None:
    with tracer.start_as_current_span("invoke_agent airline"):
        for attributes in calls:
            tracer.start_span("chat gpt-4o", kind=SpanKind.CLIENT, attributes=attributes).end()


def measure(endpoint: str, spans: int, rounds: int, way: Way) -> dict[str, float]:
    """Return the CPU that each processor adds, and their ratio.

    Each is the least of all `rounds`, because other work on the machine can only add to it.
    """
    makers: Mapping[str, Callable[[], SpanProcessor | None]] = {
        "none": lambda: None,
        "stock": lambda: BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, insecure=True), max_queue_size=spans),
        "ours": lambda: otel_agenteval.AgentEvalSpanProcessor(endpoint, on_verdict=id if way.heard else None),
    }
    seen: dict[str, list[Cost]] = {name: [] for name in makers}
    for make in makers.values():
        cost_per_span(make(), spans // 10, way)  # Warms up imports and the allocator.
    for _ in range(rounds):
        for name, make in makers.items():
            seen[name].append(cost_per_span(make(), spans, way))
    found: dict[str, float] = {}
    for of in Cost._fields:
        none, stock, ours = (min(getattr(each, of) for each in seen[name]) for name in makers)
        found |= {
            f"{of}, stock adds, us": round(stock - none, 1),
            f"{of}, ours adds, us": round(ours - none, 1),
            f"{of}, ratio": round((ours - none) / (stock - none), 3),
        }
    return found


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--spans", type=int, default=4000, help="spans per processor and round")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--only", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    with sink() as endpoint:
        result = {name: measure(endpoint, given.spans, given.rounds, WAYS[name]) for name in given.only}
    if given.json:
        print(json.dumps(result))
        return
    for name, figures in result.items():
        print(f"{name:<8}" + "; ".join(f"{what} {figure}" for what, figure in figures.items()))


if __name__ == "__main__":
    main()
