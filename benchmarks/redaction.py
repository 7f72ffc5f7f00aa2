"""CPU of redaction: for a span of about 4.6 KB in the agent, for 1,000 characters, and for the worst texts.

python -m benchmarks.redaction [--spans N]
"""

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from benchmarks.client_cpu import genai_attributes
from otel_agenteval.redaction import Redactor
from otel_agenteval.sending.buffer import ended_span
from otel_agenteval.sending.encoding import Encoder
from otel_agenteval.sending.redacting import SpanRedaction
from tests.support.redaction_corpus import ordinary

HOSTILE = (
    "password: ",
    "token_",
    "%41",
    "eyJhbGciOiJI",
    "a=b; cookie: ",
    "://a:b@",
    "hooks/a1b2c3d4/",
    "+1 ",
    "\\u0041",
)


def spans(count: int) -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    for number in range(count):
        provider.get_tracer("benchmark").start_span("chat gpt-4o", attributes=genai_attributes(number % 100)).end()
    return list(exporter.get_finished_spans())


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of the best of three runs."""
    times = []
    for _ in range(3):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=500)
    made = spans(parser.parse_args().spans)
    for extent in (None, "secrets", "all"):
        taken = seconds(partial(encode, made, extent))
        print(f"encode a span, redact={extent}: {taken / len(made) * 1e6:.0f} us")
    report("ordinary texts", ordinary())
    for piece in HOSTILE:
        report(f"hostile {piece!r}", [piece * (100_000 // len(piece))])


def encode(made: Sequence[ReadableSpan], extent: str | None) -> None:
    encoder = Encoder("p", None if extent is None else SpanRedaction(extent))
    for each in made:
        encoder.span(ended_span(each))


def redact(texts: Sequence[str]) -> None:
    for each in texts:
        Redactor().redact(each)


def report(what: str, texts: Sequence[str]) -> None:
    taken = seconds(partial(redact, texts))
    print(f"{what}: {taken / sum(map(len, texts)) * 1e9:.0f} us for 1,000 characters")


if __name__ == "__main__":
    main()
