"""Times of spans that cannot be right are repaired, and those that may be stay."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.conventions.times import LONGEST, SECOND, repaired
from otel_agenteval.conventions.trace_reader import read_trace

NOW = 1_800_000_000 * SECOND
SHOP: dict[str, Any] = {"service.name": "shop"}
GATEWAY: dict[str, Any] = {"service.name": "gateway"}


def span(
    span_id: str, started_at: int, ended_at: int, parent: str | None = None, resource: dict[str, Any] = SHOP
) -> SpanRecord:
    return SpanRecord(span_id=span_id, parent_id=parent, started_at=started_at, ended_at=ended_at, resource=resource)


def times(*spans: SpanRecord) -> list[tuple[int, int]]:
    """The repaired times, in nanoseconds before the receipt."""
    found, _ = repaired(spans, NOW)
    return [(NOW - each.started_at, NOW - each.ended_at) for each in found]


ROOT = span("a", NOW - 9 * SECOND, NOW - 4 * SECOND)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        pytest.param(span("b", 0, NOW - 5 * SECOND, "a"), (9 * SECOND, 5 * SECOND), id="no start: its parent's"),
        pytest.param(span("b", 0, NOW - 5 * SECOND), (5 * SECOND, 5 * SECOND), id="no start and no parent"),
        pytest.param(span("b", 0, NOW - 10 * SECOND, "a"), (10 * SECOND, 10 * SECOND), id="ends before its parent"),
        pytest.param(span("b", NOW - 2 * LONGEST, NOW, "a"), (9 * SECOND, 0), id="two days"),
        *(
            pytest.param(
                span("b", (NOW - 8 * SECOND) // unit, (NOW - 5 * SECOND) // unit), (8 * SECOND, 5 * SECOND), id=name
            )
            for unit, name in ((10**3, "microseconds"), (10**6, "milliseconds"), (SECOND, "seconds"))
        ),
        pytest.param(
            span("b", NOW - 600 * SECOND, NOW - 597 * SECOND, "a", GATEWAY),
            (9 * SECOND, 6 * SECOND),
            id="a clock behind",
        ),
    ],
)
def test_what_cannot_be_right_is_repaired(wrong: SpanRecord, right: tuple[int, int]) -> None:
    assert times(ROOT, wrong) == [(9 * SECOND, 4 * SECOND), right]
    assert repaired([ROOT, wrong], NOW)[1] == 1


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(span("b", NOW - 8 * SECOND, NOW - 5 * SECOND, "a"), id="within its parent"),
        pytest.param(span("b", NOW - 3 * SECOND, NOW - SECOND, "a"), id="after its parent, as a stream"),
        pytest.param(span("b", NOW - 9 * SECOND - 10**8, NOW - 5 * SECOND, "a", GATEWAY), id="a tenth of a second off"),
        pytest.param(span("b", NOW + SECOND, NOW + 60 * SECOND), id="a minute ahead"),
        pytest.param(span("b", NOW + 9 * LONGEST, NOW + 9 * LONGEST + SECOND), id="nine days ahead"),
        pytest.param(span("b", NOW - 400 * LONGEST, NOW - 400 * LONGEST + SECOND), id="a recording of last year"),
        pytest.param(span("b", NOW - 20 * SECOND, NOW - 15 * SECOND, "a"), id="before its parent in one process"),
    ],
)
def test_what_may_be_right_stays_the_same_object(other: SpanRecord) -> None:
    found, repairs = repaired([ROOT, other], NOW)
    assert repairs == 0
    assert all(one is two for one, two in zip(found, [ROOT, other], strict=True))


INSTANTS = st.one_of(
    st.just(0), st.integers(NOW - 10 * SECOND, NOW), st.integers(0, 2 * NOW), st.integers(10**9, 10**16)
)


@given(st.lists(st.tuples(INSTANTS, INSTANTS, st.integers(0, 5), st.sampled_from([0, 1])), min_size=1, max_size=6))
def test_no_times_make_a_span_that_lasts_longer_than_a_day(made: list[tuple[int, int, int, int]]) -> None:
    spans = [
        span(str(number), start, end, str(parent) if parent != number else None, (SHOP, GATEWAY)[of])
        for number, (start, end, parent, of) in enumerate(made)
    ]
    found, repairs = repaired(spans, NOW)
    assert len(found) == len(spans)
    assert 0 <= repairs <= len(spans)
    assert all(each.ended_at - each.started_at < LONGEST for each in found)


def test_a_trace_tells_how_many_times_were_repaired() -> None:
    spans = [ROOT, span("b", 0, NOW - 5 * SECOND, "a")]
    assert read_trace("t", spans, received_at=NOW).unread == {"time": 1}
    assert read_trace("t", spans).unread == {}
