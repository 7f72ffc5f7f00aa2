"""Process CPU that we add per span in an agent, as a ratio to BatchSpanProcessor with the OTLP gRPC exporter.

Both send the same GenAI spans of about 4.6 KB to one collector in another process, alternating within one run, so
the machine's speed cancels out. The cost of making the spans without any processor is measured too and taken off.

Two figures: `busy`, spans as fast as they can be made, both processors sending full requests; `paced`, a trace of
twenty spans every few milliseconds, of which ours sends each as it closes while the stock one gathers 512 spans.

    python benchmarks/client_cpu.py [--spans N] [--rounds N] [--json]
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind

import otel_agenteval

SPANS_PER_TRACE = 20
PAUSES = {"busy": 0.0, "paced": 0.002}

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


def genai_attributes(number: int = 0) -> dict[str, str | int]:
    """A model call with its messages, about 4.6 KB as OTLP; another reply for each number below 100."""

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


def cpu_per_span(processor: SpanProcessor | None, spans: int, pause: float) -> float:
    """Microseconds of process CPU per span until everything is delivered, with a pause (seconds) after each trace."""
    provider = TracerProvider(resource=Resource.create({"service.name": "bench"}), shutdown_on_exit=False)
    if processor is not None:
        provider.add_span_processor(processor)
    tracer = provider.get_tracer("bench", "1.0")
    # No two replies of a trace are the same: those would be a loop, and need not be read.
    calls = [genai_attributes(number) for number in range(SPANS_PER_TRACE - 1)]
    started = time.process_time()
    for _ in range(spans // SPANS_PER_TRACE):
        with tracer.start_as_current_span("invoke_agent airline"):
            for attributes in calls:
                tracer.start_span("chat gpt-4o", kind=SpanKind.CLIENT, attributes=attributes).end()
        if pause:
            time.sleep(pause)
    provider.force_flush()
    used = time.process_time() - started
    provider.shutdown()
    return used / spans * 1e6


def measure(endpoint: str, spans: int, rounds: int, pause: float) -> dict[str, float]:
    """Medians over `rounds` of the three costs, and the ratio of what each processor adds."""
    makers: dict[str, Callable[[], SpanProcessor | None]] = {
        "none": lambda: None,
        "stock": lambda: BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, insecure=True), max_queue_size=spans),
        "agenteval": lambda: otel_agenteval.AgentEvalSpanProcessor(endpoint),
    }
    seen: dict[str, list[float]] = {name: [] for name in makers}
    for make in makers.values():
        cpu_per_span(make(), spans // 10, pause)  # imports and the allocator warm up
    for _ in range(rounds):
        for name, make in makers.items():
            seen[name].append(cpu_per_span(make(), spans, pause))
    medians = {name: statistics.median(values) for name, values in seen.items()}
    stock, ours = (medians[name] - medians["none"] for name in ("stock", "agenteval"))
    return {
        "span_us": round(medians["none"], 1),
        "stock_adds_us": round(stock, 1),
        "agenteval_adds_us": round(ours, 1),
        "ratio": round(ours / stock, 3),
    }


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--spans", type=int, default=4000, help="spans per processor and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    with subprocess.Popen(
        [sys.executable, "-c", _COLLECTOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as collector:
        assert collector.stdin is not None
        assert collector.stdout is not None
        endpoint = f"http://127.0.0.1:{collector.stdout.readline().strip()}"
        result = {name: measure(endpoint, arguments.spans, arguments.rounds, pause) for name, pause in PAUSES.items()}
        collector.stdin.close()
    if arguments.json:
        print(json.dumps(result))
        return
    for name, figures in result.items():
        print(
            f"{name:<6} making a span {figures['span_us']} us; stock adds {figures['stock_adds_us']} us, "
            f"agenteval {figures['agenteval_adds_us']} us: ratio {figures['ratio']}"
        )


if __name__ == "__main__":
    main()
