"""The waterfall of a trace: which spans are shown, where, and what is said of those that are not."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.serve.api.spans import SpanTree
from agenteval_collector.serve.api.trace_documents import FindingDocument
from agenteval_collector.serve.web.waterfall import (
    BESIDE,
    LEVELS,
    ROWS,
    WHOLE,
    WIDTH,
    Bar,
    Focus,
    SpanRow,
    Waterfall,
    focus_of,
    waterfall,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.support.assembled import assembled
from tests.support.memory_queries import finding
from tests.support.no_spans import NO_SPANS
from tests.support.otlp import span, span_id


def laid_out(spans: Sequence[Span], focus: Focus = WHOLE, findings: Sequence[FindingDocument] = ()) -> Waterfall:
    return waterfall(NO_SPANS, SpanTree(assembled(*spans)), findings, focus)


def ids(shown: Waterfall) -> list[int]:
    return [int(row.span["span_id"], 16) for row in shown.rows]


def row(shown: Waterfall, number: int) -> SpanRow:
    [found] = [each for each in shown.rows if each.span["span_id"] == hex_id(number)]
    return found


def hex_id(number: int) -> str:
    return span_id(number).hex()


def chain(length: int) -> list[Span]:
    """Spans each in the one before."""
    return [span(1, number, parent=number - 1) for number in range(1, length + 1)]


def broad(children: int) -> list[Span]:
    """A root with so many children."""
    return [span(1, 1), *(span(1, number, parent=1) for number in range(2, children + 2))]


def test_spans_stand_under_their_parents_in_the_order_of_time() -> None:
    spans = [span(1, 1), span(1, 4, parent=1), span(1, 2, parent=1), span(1, 3, parent=2)]
    shown = laid_out(spans)
    assert ids(shown) == [1, 2, 3, 4]
    assert [each.level for each in shown.rows] == [0, 1, 2, 1]
    assert [each.closes for each in shown.rows] == [0, 0, 1, 1]
    assert [each.is_parent for each in shown.rows] == [True, True, False, False]
    assert [each.hidden for each in shown.rows] == [0, 0, 0, 0]


def test_bars_lie_on_the_time_axis() -> None:
    first, second = span(1, 1), span(1, 2, parent=1)
    first.end_time_unix_nano = first.start_time_unix_nano + 1000
    second.start_time_unix_nano = first.start_time_unix_nano + 500
    second.end_time_unix_nano = first.start_time_unix_nano + 750
    shown = laid_out([first, second])
    assert shown.rows[0].bar == Bar(0, WIDTH)
    assert shown.rows[1].bar == Bar(WIDTH / 2, WIDTH / 4)
    assert shown.seconds == pytest.approx(1e-6)


def test_of_many_spans_side_by_side_a_window_is_shown() -> None:
    shown = laid_out(broad(1000))
    assert len(shown.rows) == ROWS
    assert row(shown, 1).hidden == 1000 - (ROWS - 1)
    inside = laid_out(broad(1000), Focus(below=hex_id(1)))
    assert ids(inside) == [1, *range(2, BESIDE + 2)]
    assert inside.next_start == BESIDE
    last = laid_out(broad(1000), Focus(below=hex_id(1), start=900))
    assert ids(last) == [1, *range(902, 1002)]
    assert last.next_start is None


def test_deep_spans_are_folded_and_can_be_asked_for() -> None:
    shown = laid_out(chain(500))
    assert ids(shown) == [*range(1, LEVELS + 1)]
    assert row(shown, LEVELS).hidden == 500 - LEVELS
    inside = laid_out(chain(500), Focus(below=hex_id(LEVELS)))
    assert ids(inside)[:2] == [LEVELS, LEVELS + 1]
    assert inside.around[-1] == (hex_id(LEVELS - 1), f"span {LEVELS - 1}")


def test_a_finding_far_inside_is_shown_with_the_spans_around_it() -> None:
    spans = [*broad(1000), span(1, 2000, parent=990), span(1, 2001, parent=2000)]
    about = finding(span_id=hex_id(2001))
    shown = laid_out(spans, findings=[about])
    assert {990, 2000, 2001} <= set(ids(shown))
    assert row(shown, 2001).findings == [about]
    assert len(shown.rows) <= ROWS


def test_spans_that_failed_come_before_others() -> None:
    spans = broad(1000)
    spans[700].status.code = Status.STATUS_CODE_ERROR
    assert 701 in ids(laid_out(spans))


@pytest.mark.parametrize("number", [LEVELS + 1, 300, 500])
def test_a_span_that_is_opened_is_shown_wherever_it_is(number: int) -> None:
    shown = laid_out(chain(500), Focus(opened=hex_id(number)))
    assert number in ids(shown)


def test_unknown_spans_are_as_if_not_asked_for() -> None:
    assert ids(laid_out(broad(3), Focus(below="f" * 16, opened="e" * 16))) == [1, 2, 3, 4]


@settings(max_examples=60, deadline=None)
@given(
    parents=st.lists(st.integers(0, 400), min_size=1, max_size=400),
    opened=st.integers(1, 400),
    failed=st.sets(st.integers(0, 399), max_size=30),
)
def test_every_span_is_shown_or_counted(parents: list[int], opened: int, failed: set[int]) -> None:
    spans = [span(1, number, parent=parent) for number, parent in enumerate(parents, 1)]
    for number in failed & set(range(len(spans))):
        spans[number].status.code = Status.STATUS_CODE_ERROR
    shown = laid_out(spans, Focus(opened=hex_id(opened)))
    assert len(shown.rows) <= ROWS
    assert len(set(ids(shown))) == len(shown.rows)
    if not shown.around and shown.next_start is None:
        assert len(shown.rows) + sum(each.hidden for each in shown.rows) == len(spans)
    levels = [each.level for each in shown.rows]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert max(levels) <= LEVELS
    assert sum(each.is_parent for each in shown.rows) == sum(each.closes for each in shown.rows)
    assert all(0 <= each.bar.x <= each.bar.x + each.bar.width <= WIDTH + 0.2 for each in shown.rows)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        pytest.param({"span": "x"}, "span is 'x'", id="a span"),
        pytest.param({"below": "<b>"}, "below is '<b>'", id="a span below which"),
        pytest.param({"from": "-1"}, "from is '-1'", id="a number"),
        pytest.param({"from": "٣"}, "from is '٣'", id="digits of another script"),
    ],
)
def test_what_is_no_span_is_refused(asked: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        focus_of(asked)
    assert focus_of({"span": "", "from": ""}) == WHOLE


def test_a_trace_of_which_no_span_has_arrived_has_no_rows() -> None:
    nothing = replace(assembled(span(1, 1)), spans=[])
    assert waterfall(NO_SPANS, SpanTree(nothing), (), WHOLE).rows == []
