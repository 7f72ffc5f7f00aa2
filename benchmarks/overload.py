"""Memory of the collector under a steady load or far too much load, as a ratio to `server.memory_limit`.

A real collector process with a limit gets whole traces for some time: at a rate, or as fast as it answers (rate 0).
Refused requests are not sent again. At the end, the collector has to score everything that it has acknowledged.

    python -m benchmarks.overload [--rate SPANS_PER_SECOND] [--seconds N] [--mebibytes N] [--json]
"""

import itertools
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.harness import EXPORT, MIB, TIMEOUT, Served, arguments, collector, report
from benchmarks.workload.generator import generate
from benchmarks.workload.otlp import requests

IN_FLIGHT = 16
"""Requests that wait for an answer at the same time."""
POOL = 200
"""Conversations that are made beforehand. Each is sent again and again, with other ids each time."""
LOOK_EVERY = 0.1
"""Seconds between two looks at the memory."""
DRAINED = 3600.0
"""Seconds within which everything has to be scored."""


class Sample(NamedTuple):
    """A conversation as a request of whole traces, with the ids that are replaced each time."""

    body: bytes
    ids: tuple[bytes, ...]
    spans: int
    traces: int


@dataclass(slots=True)
class Sent:
    """The result of the load. `peak` is the most resident memory that was seen, in bytes."""

    spans: int = 0
    accepted: int = 0
    traces: int = 0
    peak: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, rate=0, seconds=300, mebibytes=512)
    samples = [_sample(number) for number in range(POOL)]
    limit = given.mebibytes * MIB
    with collector({"AGENTEVAL_SERVER__MEMORY_LIMIT": f"{given.mebibytes}MiB"}) as served:
        idle = served.resident_bytes
        sent = load(served, samples, rate=given.rate, seconds=given.seconds)
        behind = drained(served, sent)
        left = served.resident_bytes
    report(
        "Memory under load",
        {
            "offered, spans per second": sent.spans / sent.seconds,
            "acknowledged, spans per second": sent.accepted / sent.seconds,
            "answers": ", ".join(f"{name} {count}" for name, count in sent.answers.most_common()),
            "traces acknowledged and scored": sent.traces,
            "scored, seconds after the load": behind,
            "idle, MiB": idle / MIB,
            "peak, MiB": sent.peak / MIB,
            "after, MiB": left / MIB,
            "peak, of the limit": sent.peak / limit,
        },
        as_json=given.json,
    )


def load(served: Served, samples: list[Sample], *, rate: int, seconds: float) -> Sent:
    """Send the load for the given time, and return its result."""
    sent = Sent()
    started = time.monotonic()
    look_at = started
    with grpc.insecure_channel(served.address) as channel:
        export = channel.unary_unary(EXPORT, request_serializer=bytes, response_deserializer=bytes)
        grpc.channel_ready_future(channel).result(TIMEOUT)
        waiting: deque[tuple[grpc.Future[bytes], Sample]] = deque()
        for sample, body in _renamed(samples):
            now = time.monotonic()
            if now - started > seconds:
                break
            if now >= look_at:
                sent.peak, look_at = max(sent.peak, served.resident_bytes), now + LOOK_EVERY
            if rate and (ahead := sent.spans / rate - (now - started)) > 0:
                time.sleep(ahead)
            if len(waiting) == IN_FLIGHT:
                _answered(sent, *waiting.popleft())
            sent.spans += sample.spans
            waiting.append((export.future(body, timeout=TIMEOUT), sample))
        for each in waiting:
            _answered(sent, *each)
    sent.seconds = time.monotonic() - started
    return sent


def drained(served: Served, sent: Sent) -> float:
    """Wait until all acknowledged traces are scored. Return the seconds; raise TimeoutError if they never are."""
    started = time.monotonic()
    while (scored := served.scored_traces()) < sent.traces:
        if time.monotonic() - started > DRAINED:
            raise TimeoutError(f"{scored} of {sent.traces} acknowledged traces are scored")
        # Memory may peak after the load, while the backlog is scored.
        sent.peak = max(sent.peak, served.resident_bytes)
        time.sleep(LOOK_EVERY)
    return time.monotonic() - started


def _answered(sent: Sent, answer: "grpc.Future[bytes]", sample: Sample) -> None:
    try:
        answer.result()
    except grpc.RpcError as error:
        sent.answers[error.code().name] += 1
    else:
        sent.answers["OK"] += 1
        sent.accepted += sample.spans
        sent.traces += sample.traces


def _sample(number: int) -> Sample:
    """Return one conversation, as our processor sends it."""
    [conversation] = generate(1, seed=number)
    [body] = requests([conversation], started_at=time.time_ns(), spans_per_request=10**6)
    request = ExportTraceServiceRequest.FromString(body)
    traces = {span.trace_id for span in request.resource_spans[0].scope_spans[0].spans}
    ids = (*traces, conversation.session_id.encode())
    return Sample(body, ids, conversation.span_count, len(traces))


def _renamed(samples: list[Sample]) -> Iterator[tuple[Sample, bytes]]:
    """Yield the samples endlessly, each time with other ids of the same length."""
    for number in itertools.count(1):
        for sample in samples:
            body = sample.body
            for place, known in enumerate(sample.ids):
                # Ids of the same length can be replaced in the bytes, without parsing the request.
                new = f"{number:x}-{place:x}-".encode()
                body = body.replace(known, new + known[len(new) :])
            yield sample, body


if __name__ == "__main__":
    main()
