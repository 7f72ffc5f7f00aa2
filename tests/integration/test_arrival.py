"""However a recording arrives, it reads the same: in any order and any requests, twice, late, between others'."""

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from agenteval_collector.evaluation.reading import TraceReader
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_agenteval.conventions.reader import read_trace
from otel_agenteval.model import Trace
from tests.support.assembling import Bench
from tests.support.recordings import DATA, read_requests, recorded_logs, recorded_spans

Request = ExportTraceServiceRequest | ExportLogsServiceRequest

FOLDERS = (DATA / "corpus", DATA / "recorded")
RECORDINGS = sorted(path for folder in FOLDERS for path in folder.glob("*.otlp.pb") if ".logs." not in path.name)


def logs_of(path: Path) -> Path:
    return path.with_name(path.name.replace(".otlp.pb", ".logs.otlp.pb"))


@cache
def plain(path: Path) -> dict[str, Trace]:
    """The traces of a recording, read as they stand in the file."""
    logs = recorded_logs(logs_of(path))
    return {key: read_trace(key, spans, logs.get(key, ())) for key, spans in recorded_spans(path).items()}


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


@pytest.mark.parametrize("index", range(len(RECORDINGS)), ids=[path.name.split(".otlp")[0] for path in RECORDINGS])
@pytest.mark.parametrize("seed", range(3))
def test_a_recording_reads_the_same_however_it_arrives(index: int, seed: int) -> None:
    order = random.Random(1_000 * index + seed)
    both = (RECORDINGS[index], RECORDINGS[(index + 7 * (seed + 1)) % len(RECORDINGS)])
    expected = {key: trace for path in both for key, trace in plain(path).items()}
    bench = arrive([request for path in dict.fromkeys(both) for request in singles(path)], order)
    reader = TraceReader()
    read = {key: reader(trace) for key, trace in bench.store.items()}
    for key, trace in bench.store.items():
        if trace.closing is not None and trace.closing.partial:
            # A root that its instrumentation never ended: what is missing from it is said, and nothing else differs.
            assert read[key].partial
            read[key] = replace(read[key], partial=expected[key].partial)
    assert read == expected
