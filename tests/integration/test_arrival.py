"""However a recording arrives, it reads the same: in any order and any requests, twice, late, between others'."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from agenteval_collector.evaluation.reading import TraceReader
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.assembling import Bench
from tests.support.recordings import logs_of, name_of, read_requests, recorded_traces, recordings

Request = ExportTraceServiceRequest | ExportLogsServiceRequest

RECORDINGS = recordings("corpus", "recorded")


def singles(path: Path) -> Iterator[Request]:
    """The recording as requests of one span or log record each."""
    for request in read_requests(path, ExportTraceServiceRequest):
        for of_resource in request.resource_spans:
            for of_scope in of_resource.scope_spans:
                for span in of_scope.spans:
                    one = ExportTraceServiceRequest()
                    resource = one.resource_spans.add(resource=of_resource.resource)
                    resource.scope_spans.add(scope=of_scope.scope, spans=[span])
                    yield one
    if not logs_of(path).exists():
        return
    for logged in read_requests(logs_of(path), ExportLogsServiceRequest):
        for of_logs in logged.resource_logs:
            for of_log_scope in of_logs.scope_logs:
                for record in of_log_scope.log_records:
                    single = ExportLogsServiceRequest()
                    origin = single.resource_logs.add(resource=of_logs.resource)
                    origin.scope_logs.add(scope=of_log_scope.scope, log_records=[record])
                    yield single


def merged(requests: list[Request]) -> list[Request]:
    """The same in at most two requests, one of each signal."""
    spans, records = ExportTraceServiceRequest(), ExportLogsServiceRequest()
    for request in requests:
        if isinstance(request, ExportTraceServiceRequest):
            spans.MergeFrom(request)
        else:
            records.MergeFrom(request)
    return [each for each in (spans, records) if each.ByteSize()]


def arrive(requests: list[Request], order: random.Random) -> Bench:
    """Send the requests shuffled, some twice, in random portions, with pauses in which traces complete."""
    again = order.sample(requests, len(requests) // 3)
    waiting = order.sample([*requests, *again], len(requests) + len(again))
    bench = Bench()
    while waiting:
        portion, waiting = waiting[: (cut := order.randint(1, 12))], waiting[cut:]
        bench.send(*merged(portion))
        if order.random() < 0.2:
            bench.advance(5.0)
            bench.score()
    bench.advance(1_000.0)
    bench.score()
    return bench


@pytest.mark.parametrize("index", range(len(RECORDINGS)), ids=map(name_of, RECORDINGS))
def test_a_recording_reads_the_same_however_it_arrives(index: int) -> None:
    order = random.Random(index)
    both = (RECORDINGS[index], RECORDINGS[(index + 7) % len(RECORDINGS)])
    expected = {key: trace for path in both for key, trace in recorded_traces(path).items()}
    bench = arrive([request for path in dict.fromkeys(both) for request in singles(path)], order)
    reader = TraceReader()
    read = {key: reader.read(trace) for key, trace in bench.store.items()}
    for key, trace in bench.store.items():
        if trace.closing is not None and trace.closing.partial:
            # A root that its instrumentation never ended: what is missing from it is said, and nothing else differs.
            assert read[key].partial
            read[key] = replace(read[key], partial=expected[key].partial)
    assert read == expected
