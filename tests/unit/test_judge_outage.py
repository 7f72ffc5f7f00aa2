"""The one state of the judge being away: how long judging pauses, and what is said of it."""

import pytest
from agenteval_collector.judge.ports import JudgeUnavailable
from agenteval_collector.judge.queue.outage import FIRST, LONGEST, SHORTEST, Outage
from agenteval_collector.runtime.errors import Unavailable
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import ManualClock


def away(retry_after: float | None = None) -> JudgeUnavailable:
    return JudgeUnavailable("503", "h: status 503", retry_after=retry_after)


def pauses(outage: Outage, clock: ManualClock, times: int) -> list[float]:
    """The pauses of that many failures, each after the pause before."""
    found = []
    for _ in range(times):
        outage.note_failure(away())
        found.append(outage.left)
        clock.advance(outage.left)
    return found


def test_a_pause_doubles_with_every_failed_probe_up_to_the_longest() -> None:
    clock = ManualClock()
    assert pauses(Outage(clock), clock, 9) == [FIRST, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, LONGEST, LONGEST]


def test_an_answer_ends_it_and_the_next_pause_is_short_again() -> None:
    clock = ManualClock()
    outage = Outage(clock)
    pauses(outage, clock, 4)
    outage.note_answer()
    assert (outage.pause, outage.left, outage.described()) == (None, 0.0, None)
    assert pauses(outage, clock, 1) == [FIRST]


def test_what_fails_during_a_pause_belongs_to_it() -> None:
    outage = Outage(ManualClock())
    assert [outage.note_failure(away()) for _ in range(5)] == [True, False, False, False, False]
    assert outage.pause is not None
    assert (outage.pause.number, outage.left) == (1, FIRST)


@pytest.mark.parametrize(
    ("wish", "pause"), [(0.0, SHORTEST), (1.5, 1.5), (300.0, 300.0)], ids=["none at all", "short", "long"]
)
def test_a_pause_is_as_long_as_the_endpoint_asks(wish: float, pause: float) -> None:
    outage = Outage(ManualClock())
    outage.note_failure(away(wish))
    assert outage.left == pause


def test_it_says_since_when_and_why_and_what_is_next() -> None:
    clock = ManualClock()
    outage = Outage(clock)
    outage.note_failure(away())
    clock.advance(FIRST)
    outage.note_failure(JudgeUnavailable("timeout", "h: no answer within 30 s", retry_after=30.0))
    says = "the judge has not answered since 2023-11-14T22:13:20Z: h: no answer within 30 s; it is "
    assert outage.described() == f"{says}tried again in 30 s"
    clock.advance(30)
    assert outage.described() == f"{says}being tried again"


def test_what_is_wrong_with_our_own_store_is_not_said_of_the_judge() -> None:
    outage = Outage(ManualClock())
    outage.note_failure(Unavailable("the disk is full"))
    assert outage.described() == "judging pauses: the disk is full"


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("fail"), st.none() | st.floats(0, 1000)),
            st.tuples(st.just("wait"), st.floats(0, 200)),
            st.tuples(st.just("answer"), st.none()),
        ),
        max_size=40,
    )
)
def test_it_keeps_nobody_out_for_longer_than_it_was_asked_or_the_longest_pause(
    steps: list[tuple[str, float | None]],
) -> None:
    clock = ManualClock()
    outage = Outage(clock)
    may_begin = 0.0
    for step, value in steps:
        if step == "fail":
            outage.note_failure(away(value))
            may_begin = max(may_begin, clock.monotonic() + max(LONGEST if value is None else value, SHORTEST))
        elif step == "wait":
            clock.advance(value or 0.0)
        else:
            outage.note_answer()
            may_begin = 0.0
        assert (outage.pause is None) == (may_begin == 0.0)
        assert outage.left <= max(may_begin - clock.monotonic(), 0.0) + 1e-6
        clock.advance(0.0)
