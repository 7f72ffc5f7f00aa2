"""Time of the agent's own thread in `on_start` and `on_end` alone, per span, beside BatchSpanProcessor's.

The two processors get traces of twenty spans in turns, again and again. The quickest trace of each processor counts. It
has no work of other threads or processes in it, but it does have the locks, and the waking of other threads.

    python -m benchmarks.client_hooks [--traces N] [--json]
"""

import time

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import otel_agenteval
from benchmarks.client_cpu import SPANS_PER_TRACE, sink
from benchmarks.harness import arguments, report


class Keep(SpanProcessor):
    """A processor that keeps everything that the SDK hands to it, in order."""

    def __init__(self) -> None:
        self.started: list[Span] = []
        self.ended: list[ReadableSpan] = []

    def on_start(self, span: Span, parent_context: object = None) -> None:
        self.started.append(span)

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)


def a_trace() -> Keep:
    """Return the spans of a new trace: a root, and the others inside it."""
    kept = Keep()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(kept)
    tracer = provider.get_tracer("bench", "1.0")
    with tracer.start_as_current_span("invoke_agent airline"):
        for _ in range(SPANS_PER_TRACE - 1):
            tracer.start_span("chat gpt-4o").end()
    return kept


def spent(processor: SpanProcessor, trace: Keep) -> float:
    """Return the microseconds that this thread spends in both hooks, per span."""
    began = time.thread_time_ns()
    for span in trace.started:
        processor.on_start(span, parent_context=None)
    for ended in trace.ended:
        processor.on_end(ended)
    return (time.thread_time_ns() - began) / SPANS_PER_TRACE / 1e3


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, traces=5000)
    with sink() as endpoint:
        processors: dict[str, SpanProcessor] = {
            "stock": BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, insecure=True)),
            "ours": otel_agenteval.AgentEvalSpanProcessor(endpoint),
        }
        least = dict.fromkeys(processors, float("inf"))
        for _ in range(given.traces):
            # In turns, so that a slow moment of the machine hits both processors.
            for name, processor in processors.items():
                least[name] = min(least[name], spent(processor, a_trace()))
        for processor in processors.values():
            processor.shutdown()
    figures = {f"{name}, us": least[name] for name in processors}
    report("Both hooks, per span", {**figures, "ratio": least["ours"] / least["stock"]}, as_json=given.json)


if __name__ == "__main__":
    main()
