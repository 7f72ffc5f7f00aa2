"""A trace that is too large loses the ends of its largest values, in whatever requests and order they came."""

import random
from collections.abc import Iterable
from typing import Any

import pytest
from agenteval_collector.assembly.completion import CompletionPolicy
from agenteval_collector.assembly.open_trace import LogPosition, OpenTrace, SpanLogRecord
from agenteval_collector.assembly.restoring import assembled
from agenteval_collector.assembly.senders import Senders
from agenteval_collector.config.settings import AssemblyConfig
from agenteval_collector.model.assembled_trace import ClosedBy
from agenteval_collector.model.largest_kept import LEAST, largest_kept
from agenteval_collector.model.logged_requests import SPAN_BYTES, Origin, item_bytes
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.otlp import log, span

MOST = 200_000
ORIGIN = Origin(resource=b"", scope="", process=None, service="")


def trace_of(*spans: Span) -> OpenTrace:
    trace = OpenTrace(b"\1" * 16, "default", Senders(), now=0.0, position=LogPosition(1, 1), max_bytes=MOST)
    for offset, item in enumerate(spans, 1):
        trace.add(item, item.SerializeToString(), ORIGIN, LogPosition(offset, offset))
    return trace


def item_of(number: int, attributes: dict[str, Any]) -> Span:
    return span(1, number, **attributes)


def texts(trace: OpenTrace) -> dict[str, str]:
    """The texts of a trace by their keys."""
    spans = (Span.FromString(raw) for raw, _ in trace.spans.values())
    return {pair.key: pair.value.string_value for item in spans for pair in item.attributes}


def test_a_trace_of_the_most_bytes_is_whole() -> None:
    items = [item_of(number, {f"text{number}": "x" * 30_000}) for number in range(1, 6)]
    trace = trace_of(*items)
    assert [Span.FromString(raw) for raw, _ in trace.spans.values()] == items
    assert assembled(trace, complete=True).missing == 0


@given(
    st.lists(st.integers(0, 150_000), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
    st.sampled_from(["x", "ä", "😀"]),
)
def test_it_never_takes_more_and_small_values_stay(sizes: list[int], order: random.Random, letter: str) -> None:
    named = {f"text{number}": letter * (size // len(letter)) for number, size in enumerate(sizes)}
    items = [item_of(number, {key: text, "id": f"id-{number}"}) for number, (key, text) in enumerate(named.items(), 1)]
    order.shuffle(items)
    trace = trace_of(*items)
    assert trace.size <= MOST
    assert trace.size == assembled(trace, complete=True).size
    assert len(trace.spans) == len(items)
    assert not trace.full
    kept = texts(trace)
    assert kept["id"].startswith("id-")
    for key, text in named.items():
        assert text.startswith(kept[key])
        assert kept[key] == text or len(kept[key].encode()) >= LEAST - 4
    for raw, _ in trace.spans.values():
        item = Span.FromString(raw)
        is_cut = any(named[pair.key] != pair.value.string_value for pair in item.attributes if pair.key in named)
        assert (item.dropped_attributes_count > 0) == is_cut


def test_the_largest_values_go_first() -> None:
    small = [item_of(number, {f"text{number}": "x" * 5_000}) for number in range(1, 11)]
    trace = trace_of(*small, span(1, 11, text11="y" * 100_000), span(1, 12, text12="z" * 100_000))
    kept = texts(trace)
    assert {len(kept[f"text{number}"]) for number in range(1, 11)} == {5_000}
    assert len(kept["text11"]) == len(kept["text12"]) > 30_000


def test_when_nothing_is_left_to_cut_spans_are_dropped_and_counted() -> None:
    items = [span(1, number, parent=1, name_of=f"n{number}") for number in range(2, 3_002)]
    trace = trace_of(*items)
    assert trace.full
    # The span with which it became full is the last one in it.
    assert trace.size <= MOST + SPAN_BYTES + items[-1].ByteSize()
    assert 0 < trace.dropped == len(items) - len(trace.spans)
    assert assembled(trace, complete=True).missing == trace.dropped
    # Sent again, as after a lost answer, it makes no revision.
    assert trace.knows(items[-1], items[-1].SerializeToString())


def test_a_full_trace_takes_its_root_and_waits_for_no_parent_that_may_be_left_out() -> None:
    senders = Senders()

    def trace_with(items: Iterable[Span]) -> OpenTrace:
        trace = OpenTrace(b"\1" * 16, "default", senders, now=0.0, position=LogPosition(1, 1), max_bytes=MOST)
        for offset, item in enumerate(items, 1):
            trace.add(item, item.SerializeToString(), ORIGIN, LogPosition(offset, offset))
        return trace

    root = span(1, 1, name_of="root")
    for _ in range(8):  # The parents of this sender come.
        trace_with([span(1, 2, parent=1), root]).learn()
    policy = CompletionPolicy(senders, AssemblyConfig())
    assert policy.wait_for(trace_with([span(1, 2, parent=1)])).by is ClosedBy.MAX_AGE
    trace = trace_with([*(span(1, number, parent=number - 1) for number in range(3_000, 1, -1)), root])
    assert trace.full
    assert root.span_id in trace.spans
    assert trace.size <= MOST * 17 / 16
    assert policy.wait_for(trace) == (AssemblyConfig().silence, ClosedBy.SILENCE)


def test_what_is_restored_from_the_log_is_what_was_scored() -> None:
    drawn = random.Random(7)
    items = [item_of(number, {f"text{number}": "x" * drawn.randrange(40_000)}) for number in range(1, 60)]
    first, again = trace_of(*items), trace_of(*items)
    assert first.spans == again.spans
    assert first.size == again.size


def test_a_log_record_that_was_cut_is_known_when_it_comes_again() -> None:
    record = log(1, 1, body="b" * 300_000, gen_ai__input="x" * 100)
    raw = record.SerializeToString()
    trace = trace_of()
    assert trace.add(SpanLogRecord(record.span_id, answer=False), raw, ORIGIN, LogPosition(1, 1))
    assert trace.size <= MOST
    [kept] = trace.logs
    cut = LogRecord.FromString(kept)
    assert record.body.string_value.startswith(cut.body.string_value)
    assert cut.dropped_attributes_count == 1
    assert not trace.add(SpanLogRecord(record.span_id, answer=False), raw, ORIGIN, LogPosition(2, 2))
    assert trace.knows(SpanLogRecord(record.span_id, answer=False), raw)


@given(st.lists(st.integers(1, 10_000), max_size=20), st.integers(1, 100_000))
def test_the_cut_takes_what_is_over_and_no_more_than_it_must(sizes: list[int], over: int) -> None:
    most = largest_kept(sizes, over)
    gone: Any = sum(max(0, size - most) for size in sizes)
    above = [size for size in sizes if size > LEAST]
    assert most >= LEAST
    if sum(size - LEAST for size in above) >= over:
        assert gone >= over
        assert sum(max(0, size - most - 1) for size in sizes) < over
    else:
        assert most == LEAST


@pytest.mark.parametrize("sizes", [[], [10, 10]])
def test_nothing_to_cut_says_the_least(sizes: list[int]) -> None:
    assert largest_kept(sizes, 5) == LEAST


def test_thousands_of_small_values_count_for_what_they_take_once_they_are_read() -> None:
    numbers: dict[str, Any] = {f"k{number}": number for number in range(5_000)}
    dense = span(1, 2, parent=1, **numbers)
    text = span(1, 3, parent=1, text="x" * dense.ByteSize())
    assert trace_of(dense).size > 5 * trace_of(text).size
    texts: dict[str, Any] = {f"gen_ai__{number}": "y" * 100 for number in range(40)}
    usual = span(1, 4, parent=1, **texts)
    assert item_bytes(usual.SerializeToString()) == usual.ByteSize()
