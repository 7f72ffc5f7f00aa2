import pytest
from agenteval_collector.evaluation.sessions.session import TRACES_KEPT, TURNS, AnswerWindow
from agenteval_collector.model.sessions import Member
from agenteval_collector.model.turn_summary import TurnSummary
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.metrics.loops import LoopText

ANSWER = LoopText.of("an answer", [1.0])


def member(at: int, answers: int = 1, trace_id: str | None = None) -> Member:
    return Member(trace_id=trace_id or f"t{at:03}", started_at=at, said=[TurnSummary(ANSWER)] * answers)


def window(*members: Member) -> AnswerWindow:
    made = AnswerWindow()
    for each in members:
        made.put(each)
    return made


@pytest.mark.parametrize(
    ("answers", "place", "expected"),
    [
        pytest.param([1, 1, 1, 1, 1], 5, 4, id="no more turns than the window has"),
        pytest.param([1, 1], 0, 0, id="nothing is before the first"),
        pytest.param([3, 3], 2, 4, id="turns are counted, not traces"),
        pytest.param([1, 0, 0, 1], 4, 2, id="traces without turns take no place"),
    ],
)
def test_answers_before_a_place(answers: list[int], place: int, expected: int) -> None:
    made = window(*(member(at, count) for at, count in enumerate(answers)))
    assert len(made.before((place, ""))) == expected


def test_a_newer_revision_replaces_the_older_one_and_is_not_before_itself() -> None:
    made = window(member(1), member(5, trace_id="moved"), member(3, trace_id="moved"))
    assert len(made.before((9, ""))) == 2
    assert [turn.answer for turn in made.before((6, "t001"))] == [ANSWER]


def test_a_place_behind_what_is_kept_is_not_reached() -> None:
    made = window(*(member(at) for at in range(TRACES_KEPT)))
    assert made.reaches((0, ""))
    made.put(member(TRACES_KEPT))
    assert made.reaches((0, "")), "the store may not have the first one yet"
    made.trim()
    assert not made.reaches((TURNS, ""))
    assert made.reaches((TURNS + 1, ""))


def test_the_first_trace_that_is_kept_can_be_replaced() -> None:
    made = window(*(member(at) for at in range(TRACES_KEPT + 1)))
    made.trim()
    revision = member(1, answers=2)
    made.put(revision)
    assert made.find(revision.trace_id) is revision


@given(st.permutations([(at, answers) for at, answers in enumerate([1, 2, 0, 1, 3, 1, 0, 1])]), st.integers(0, 7))
def test_the_followers_are_those_whose_window_has_the_place(traces: list[tuple[int, int]], place: int) -> None:
    made = window(*(member(at, answers) for at, answers in traces))
    of_place = next(answers for at, answers in traces if at == place)
    marked = [TurnSummary(None)] * of_place  # tells the trace's own answers from all others
    made.put(Member(trace_id=f"t{place:03}", started_at=place, said=marked))
    seeing = {at for at, _ in traces if at > place and None in [turn.answer for turn in made.before((at, f"t{at:03}"))]}
    assert seeing <= {each.started_at for each in made.after((place, f"t{place:03}"))}
