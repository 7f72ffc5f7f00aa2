"""A complete trace as a message, however large it is."""

from dataclasses import replace

import pytest
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.logged_requests import Origin
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.assembled import assembled

pytest.importorskip("confluent_kafka", reason="needs the extra [kafka]")

from agenteval_collector.fleet.trace_bytes import from_bytes, to_bytes


def trace_of(count: int, size: int = 1_000) -> AssembledTrace:
    spans = (
        Span(trace_id=bytes(15) + b"1", span_id=number.to_bytes(8, "big"), name="x" * size)
        for number in range(1, count + 1)
    )
    return assembled(*spans)


def test_a_trace_comes_back_as_it_was() -> None:
    trace = replace(trace_of(3), logs=trace_of(1).spans, missing=2)
    assert from_bytes(to_bytes(trace)) == trace


def test_of_a_trace_that_nobody_could_take_the_ends_are_left_and_the_rest_is_missing() -> None:
    trace = trace_of(100)
    body = to_bytes(trace, most=20_000)
    cut = from_bytes(body)
    assert len(body) <= 20_000
    assert 4 < len(cut.spans) < 20
    assert (cut.spans[0], cut.spans[-1]) == (trace.spans[0], trace.spans[-1])
    assert cut.missing == 100 - len(cut.spans)
    assert [*cut.spans] == [each for each in trace.spans if each in cut.spans]


@pytest.mark.parametrize(("count", "size"), [(1, 50_000), (2, 50_000), (3, 9_000), (5_000, 0)])
def test_whatever_its_spans_are_it_fits(count: int, size: int) -> None:
    trace = trace_of(count, size)
    cut = from_bytes(to_bytes(replace(trace, logs=trace.spans), most=20_000))
    assert len(cut.spans) + cut.missing == count


def test_resources_count_as_well() -> None:
    trace = trace_of(50, 1)
    named = [(raw, Origin(bytes(1_000), str(number), None)) for number, (raw, _) in enumerate(trace.spans)]
    assert len(to_bytes(replace(trace, spans=named), most=20_000)) <= 20_000
