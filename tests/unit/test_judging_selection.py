import pytest
from agenteval_collector.judge.referrals import sampled, select
from agenteval_collector.model.judging import URGENT
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.model import ToolCall, Trace, Turn
from otel_agenteval.outcome import Status


def trace(*, turn_error: str | None = None, tool_error: str | None = None) -> Trace:
    turn = Turn(
        span_id="1",
        input="in",
        output="out",
        error=turn_error,
        tool_calls=(ToolCall(name="search", error=tool_error),),
        started_at=1,
        ended_at=2,
    )
    return Trace(trace_id="t", turns=(turn,))


@pytest.mark.parametrize(
    ("of", "looped", "urgent"),
    [
        pytest.param(trace(), False, None, id="nothing is wrong"),
        pytest.param(trace(turn_error="timeout"), False, "a turn failed", id="a failed turn"),
        pytest.param(trace(tool_error="500"), False, "a tool call failed", id="a failed call"),
        pytest.param(trace(), True, "the agent was in a loop", id="a loop"),
    ],
)
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_traces_in_which_something_went_wrong_are_judged_always_and_first(
    of: Trace, looped: bool, urgent: str | None, share: float
) -> None:
    selection = select(of, "s", share, looped=looped)
    assert selection.metadata.get(URGENT, False) == (urgent is not None)
    assert (selection.status is Status.PENDING) == (urgent is not None or share == 1.0)
    if urgent:
        assert selection.reason == f"waiting for the judge, urgent: {urgent}"


def test_the_reason_names_the_share() -> None:
    outside = next(f"s{n}" for n in range(100) if not sampled(f"s{n}", 0.25))
    assert (
        select(trace(), outside, 0.25, looped=False).reason
        == "sampled out: the session is not among the 25 % that are judged"
    )


@pytest.mark.parametrize(
    ("session", "share"),
    [("s-1", 0.4161), ("s-2", 0.2696), ("s-3", 0.5091)],
)
def test_the_choice_is_the_same_in_every_process(session: str, share: float) -> None:
    assert sampled(session, share)
    assert not sampled(session, share - 0.0001)


@given(session=st.text(), shares=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_a_larger_share_only_adds_sessions(session: str, shares: tuple[float, float]) -> None:
    small, large = sorted(shares)
    assert sampled(session, small) <= sampled(session, large)
    assert sampled(session, 1.0)
    assert not sampled(session, 0.0)


def test_the_share_is_kept() -> None:
    judged = sum(sampled(f"session-{number}", 0.25) for number in range(10_000))
    assert judged == pytest.approx(2500, abs=150)


def test_hostile_session_ids_have_a_place_too() -> None:
    assert sampled("\ud800", 1.0)
