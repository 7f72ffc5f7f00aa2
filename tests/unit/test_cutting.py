"""A span that is too large loses the ends of its largest values, and nothing else."""

from typing import Any

import pytest
from agenteval_collector.ingest.cutting import KEPT, cut
from agenteval_collector.ingest.validity import Limits, check
from agenteval_collector.model.logged_requests import Signal
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.otlp import span, traces

LIMIT = 100_000


def value_of(item: Span, key: str) -> AnyValue:
    return next(each.value for each in item.attributes if each.key == key)


@given(
    st.lists(st.integers(0, 300_000), min_size=1, max_size=6),
    st.sampled_from(["x", "ä", "😀", '{"a": "'.ljust(8)]),
)
def test_a_span_fits_afterwards_and_keeps_its_small_values(sizes: list[int], letter: str) -> None:
    texts: dict[str, Any] = {f"part{number}": letter * (size // len(letter)) for number, size in enumerate(sizes)}
    item = span(1, 2, **texts)
    before = Span.FromString(item.SerializeToString())
    number = cut(item, LIMIT)
    if before.ByteSize() <= LIMIT:
        assert (number, item) == (0, before)
        return
    assert 0 < number <= len(sizes)
    assert item.ByteSize() <= LIMIT
    assert item.dropped_attributes_count == number
    assert (item.trace_id, item.span_id, item.name) == (before.trace_id, before.span_id, before.name)
    for old, new in zip(before.attributes, item.attributes, strict=True):
        assert old.value.string_value.startswith(new.value.string_value)
        if len(old.value.string_value.encode()) <= KEPT:
            assert old == new


def test_the_largest_value_is_cut_first_and_no_further_than_needed() -> None:
    item = span(1, 2, small="a" * 40_000, large="b" * 90_000)
    assert cut(item, LIMIT) == 1
    assert value_of(item, "small").string_value == "a" * 40_000
    assert LIMIT - 200 < item.ByteSize() <= LIMIT


def test_a_list_that_is_too_large_goes_and_events_are_cut_as_well() -> None:
    item = span(1, 2)
    texts = ArrayValue(values=[AnyValue(string_value="x" * 1000)] * 200)
    item.attributes.append(KeyValue(key="list", value=AnyValue(array_value=texts)))
    item.events.add().attributes.append(KeyValue(key="message", value=AnyValue(string_value="y" * 150_000)))
    assert cut(item, LIMIT) == 2
    assert value_of(item, "list").WhichOneof("value") is None
    assert item.events[0].attributes[0].value.string_value.startswith("y" * KEPT)


def test_many_small_values_cannot_be_cut() -> None:
    texts: dict[str, Any] = {f"part{number}": "x" * 8_000 for number in range(20)}
    item = span(1, 2, **texts)
    assert cut(item, LIMIT) == 0


def test_the_body_of_a_log_record_is_cut() -> None:
    record = LogRecord(body=AnyValue(string_value="z" * 200_000))
    assert cut(record, LIMIT) == 1
    assert record.ByteSize() <= LIMIT


@pytest.mark.parametrize(("size", "dropped"), [(50_000, 0), (500_000, 1)])
def test_a_request_with_such_a_span_is_accepted(size: int, dropped: int) -> None:
    found = check(Signal.TRACES, traces(span(1, 2, text="x" * size)).SerializeToString(), Limits(10**7, LIMIT))
    assert (found.accepted, found.rejected) == (1, 0)
    [body] = found.bodies
    [kept] = ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans
    assert kept.dropped_attributes_count == dropped
