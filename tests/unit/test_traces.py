"""The table of open traces: counts against a slow oracle, and its bounds."""

from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.context import SpanIdentity
from otel_agenteval.sending.open_traces import REMEMBER_CLOSED, TraceTable


class ManualTime:
    """Seconds that stand still until set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(steps=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.booleans()), max_size=60))
def test_a_trace_is_closed_exactly_when_none_of_its_spans_is_open(steps: list[tuple[int, int, bool]]) -> None:
    table = TraceTable(ManualTime())
    open_spans: set[tuple[int, int]] = set()
    for trace_id, span_id, starts in steps:
        if starts and (trace_id, span_id) not in open_spans:
            open_spans.add((trace_id, span_id))
            table.start(trace_id, span_id, None)
        elif (trace_id, span_id) in open_spans:
            open_spans.remove((trace_id, span_id))
            entry, _ = table.end(trace_id, span_id)
            assert entry is not None
            assert set(entry.open) == {span for trace, span in open_spans if trace == trace_id}


@given(steps=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 9), st.booleans()), max_size=200))
def test_table_never_grows_over_its_bounds(steps: list[tuple[int, int, bool]]) -> None:
    table = TraceTable(ManualTime(), max_traces=5, max_open_spans=7)
    open_spans: set[tuple[int, int]] = set()
    for trace_id, span_id, starts in steps:
        if starts and (trace_id, span_id) not in open_spans:
            open_spans.add((trace_id, span_id))
            table.start(trace_id, span_id, None)
        elif not starts:
            open_spans.discard((trace_id, span_id))
            table.end(trace_id, span_id)
        assert len(table) <= 5
        assert table.open_spans <= 7


def test_closed_traces_go_before_open_ones() -> None:
    table = TraceTable(ManualTime(), max_traces=2)
    table.start(1, 1, SpanIdentity("open"))
    table.start(2, 1, SpanIdentity("closed"))
    table.end(2, 1)
    table.start(3, 1, None)
    assert table.inherited(1, None) == SpanIdentity("open")
    assert table.inherited(2, None) is None
    assert table.evicted_spans == 0


def test_spans_of_an_evicted_trace_are_counted_and_end_unknown() -> None:
    table = TraceTable(ManualTime(), max_traces=1)
    table.start(1, 1, None)
    table.start(2, 1, None)
    assert table.evicted_spans == 1
    assert table.end(1, 1) == (None, None)


def test_closed_trace_is_remembered_for_late_spans_and_forgotten_in_the_end() -> None:
    time = ManualTime()
    table = TraceTable(time)
    table.start(1, 1, SpanIdentity("s"))
    table.end(1, 1)
    time.now = REMEMBER_CLOSED
    assert table.inherited(1, 1) == SpanIdentity("s")
    time.now += 1
    table.start(2, 1, None)
    table.end(2, 1)
    assert table.inherited(1, 1) is None


def test_after_a_fork_identities_stay_and_counts_begin_anew() -> None:
    table = TraceTable(ManualTime())
    table.start(1, 1, SpanIdentity("s"))
    table.start(1, 2, None)
    entry, _ = table.end(1, 2)
    assert entry is not None
    entry.handed_over = 1
    table.disown()
    assert (table.open_spans, entry.handed_over) == (0, 0)
    assert table.inherited(1, 1) == SpanIdentity("s")
