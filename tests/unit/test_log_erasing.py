"""Traces are taken out of requests, and nothing else is."""

from collections import Counter

from agenteval_collector.ingest.request_traces import without
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.otlp import log, logged, logs, span, trace_id, traces


@given(
    groups=st.lists(st.lists(st.integers(1, 4), max_size=4), max_size=4),
    doomed=st.sets(st.integers(1, 4)),
    schema=st.sampled_from(["", "https://opentelemetry.io/schemas/1.37.0"]),
)
def test_the_other_traces_of_a_request_stay_as_they_are(groups: list[list[int]], doomed: set[int], schema: str) -> None:
    sent, expected = ExportTraceServiceRequest(), ExportTraceServiceRequest()
    for at, group in enumerate(groups):
        spans = [span(trace, 10 * at + number) for number, trace in enumerate(group, 1)]
        for request, kept in ((sent, spans), (expected, [each for each in spans if each.trace_id not in ids(doomed)])):
            if kept or request is sent:
                request.MergeFrom(traces(*kept, service=f"shop {at}"))
                request.resource_spans[-1].schema_url = schema
    removed: Counter[str] = Counter()
    body = without(logged(1, sent), ids(doomed), removed)
    assert ExportTraceServiceRequest.FromString(body or b"") == expected
    assert removed["spans"] == sum(trace in doomed for group in groups for trace in group)
    assert removed["bytes"] == sent.ByteSize() - expected.ByteSize()
    assert (body is None) == (not expected.resource_spans)


def test_log_records_go_too_whatever_they_say() -> None:
    removed: Counter[str] = Counter()
    request = logs(log(1, 1, body="gen_ai. one"), log(2, 1, body="two"), log(1, 2, body="anything"))
    body = without(logged(1, request), ids({1}), removed)
    assert ExportLogsServiceRequest.FromString(body or b"") == logs(log(2, 1, body="two"))
    assert removed["log_records"] == 2


def ids(numbers: set[int]) -> set[bytes]:
    return {trace_id(number) for number in numbers}
