"""The pages of sessions: what comes first, lines of the list that are folded, traces on a time axis."""

import re
from typing import Any, cast

import pytest
from agenteval_collector.serve.api.trace_documents import SessionItem
from agenteval_collector.serve.web import sessions
from agenteval_collector.serve.web.sessions import FEWEST, folded
from agenteval_collector.serve.web.site import Site
from agenteval_collector.serve.web.timeline import LEAST, WIDTH, placed_traces
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import ManualClock
from tests.support.memory_queries import GOOD_TRACE, NOW, MemoryQueries, at, problem, trace
from tests.support.travel_agent import travel_agent


def site(queries: MemoryQueries) -> Site:
    return Site(queries=queries, clock=ManualClock(NOW), grpc_endpoint="http://127.0.0.1:4317", token="secret")


def text_of(page: str) -> str:
    return re.sub("<[^>]*>", "", page)


def item(session_id: str, agent: str = "a", worst: str = "none", **changes: Any) -> SessionItem:
    document = {"session_id": session_id, "agent": agent, "worst": worst, "blind": False, "trace_count": 1}
    return cast("SessionItem", {**document, "running_traces": [], **changes})


def unnamed(number: int, **changes: Any) -> SessionItem:
    return item(f"{number:032x}", **changes)


def lines(*sessions: SessionItem) -> list[list[str]]:
    return [[each["session_id"].lstrip("0") for each in line] for line in folded(sessions)]


def test_unnamed_sessions_of_one_trace_are_folded_where_the_first_stood() -> None:
    assert lines(item("s-1"), unnamed(1), unnamed(2), unnamed(3), item("s-2"), unnamed(4)) == [
        ["s-1"], ["1", "2", "3"], ["s-2"], ["4"]
    ]  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(item("s-1"), id="one with a name"),
        pytest.param(unnamed(9, trace_count=2), id="one of two traces"),
        pytest.param(unnamed(9, running_traces=["9"]), id="one that goes on"),
        pytest.param(unnamed(9, agent="b"), id="another agent's"),
        pytest.param(unnamed(9, worst="error"), id="a worse one"),
    ],
)
def test_what_is_not_alike_is_not_folded(other: SessionItem) -> None:
    alike = [unnamed(number) for number in range(1, FEWEST + 1)]
    assert [len(line) for line in folded([*alike, other])] == [FEWEST, 1]
    assert [len(line) for line in folded([*alike[1:], other])] == [1] * FEWEST


@given(
    st.lists(
        st.builds(
            lambda number, agent, named: item(f"s-{number}" if named else f"{number:032x}", agent),
            st.integers(0, 10**6),
            st.sampled_from("ab"),
            st.booleans(),
        ),
        unique_by=lambda each: each["session_id"],
    )
)
def test_nothing_is_lost_and_no_named_session_moves(sessions: list[SessionItem]) -> None:
    shown = [each for line in folded(sessions) for each in line]
    assert sorted(each["session_id"] for each in shown) == sorted(each["session_id"] for each in sessions)
    named = {each["session_id"] for each in sessions if each["session_id"].startswith("s-")}
    assert [index for index, each in enumerate(shown) if each["session_id"] in named] == [
        index for index, each in enumerate(sessions) if each["session_id"] in named
    ]


def took(number: int, began: float, seconds: float) -> Any:
    return trace(f"{number:032x}", "s", began=began, ended_at=at(began + seconds))


def test_traces_lie_on_the_axis_and_long_pauses_are_cut_short() -> None:
    found = placed_traces([took(1, 0, 10), took(2, 10, 10), took(3, 3600, 10)])
    assert [each.pause for each in found] == [None, None, 3580]
    # Sixty seconds are shown: thirty of traces, and of the pause as long as three of these take.
    assert [each.x for each in found] == pytest.approx([0, WIDTH / 6, WIDTH * 5 / 6])
    assert [each.width for each in found] == pytest.approx([WIDTH / 6] * 3)


def test_traces_that_take_no_time_and_none_at_all_can_be_placed() -> None:
    assert placed_traces([]) == []
    assert placed_traces([trace("1" * 32, "s", began=0, started_at=None)]) == []
    [only] = placed_traces([took(1, 0, 0)])
    assert (only.x, only.width) == (0, LEAST)


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e4)), min_size=1, max_size=50))
def test_bars_stay_on_the_axis_in_order(spans: list[tuple[float, float]]) -> None:
    found = placed_traces([took(number, *each) for number, each in enumerate(sorted(spans))])
    assert len(found) == len(spans)
    assert all(0 <= each.x <= WIDTH - LEAST for each in found)
    assert [each.x for each in found] == sorted(each.x for each in found)


def test_the_first_view_has_problems_before_sessions() -> None:
    queries = travel_agent()
    queries.recurring = [problem("Calls of search fail")]
    text = text_of(sessions.start(site(queries), {}))
    assert text.index("Calls of search fail") < text.index("refund-1187")


def test_the_spans_of_a_trace_that_are_forgotten_are_said_to_be() -> None:
    assert "Its spans are forgotten" in text_of(sessions.trace(site(travel_agent()), {"trace_id": GOOD_TRACE}))
