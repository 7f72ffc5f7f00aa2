"""When an agent that restates its answer across the turns of a session is in a loop."""

from dataclasses import dataclass

import pytest
from agenteval_collector.evaluation.evaluators.ports import comparable
from agenteval_collector.evaluation.findings.repeated_answer import may_restate, repeated_answer
from agenteval_collector.model.trace_view import TurnView
from agenteval_collector.model.turn_summary import MAX_KEPT, TurnSummary, said_in

from otel_agenteval.model import ToolCall, Turn
from otel_agenteval.outcome import Failure, Outcome, Score, Status, Unscored
from tests.support.evaluating import embedder

ASK = "To change your reservation I need your user ID. Please tell me your user ID."
AGAIN = "I am sorry, to change your reservation I need your user ID. Please tell me your user ID."
ONCE_MORE = "Please tell me your user ID. I need your user ID to change your reservation, I am sorry."
IN_TRANSIT = "Your parcel is in transit and should arrive on Friday."
OTHER = "Your flight leaves at noon."
DONE = "I have updated the shopping list for you."


@dataclass(frozen=True)
class Exchange:
    """A question and its answer, with the calls in between as (name, arguments, result, error)."""

    question: str | None
    answer: str | None
    calls: tuple[tuple[str, str, str, str | None], ...] = ()

    def said(self) -> TurnSummary:
        calls = tuple(ToolCall(name=n, arguments=a, result=r, error=e) for n, a, r, e in self.calls)
        turn = Turn(span_id="1", input=self.question, output=self.answer, tool_calls=calls, started_at=0, ended_at=1)
        return said_in(turn, comparable(self.answer, embedder().embed))


def look(number: int, error: str | None = None) -> tuple[str, str, str, str | None]:
    return "get_order", f'{{"id": {number}}}', f"order {number}", error


STANDSTILL = [Exchange("Change my flight.", ASK), Exchange("I do not have it.", AGAIN), Exchange("Really?", ONCE_MORE)]


def told(exchanges: list[Exchange]) -> list[str]:
    """Of each exchange after the first: whether it is an alarm, observed or nothing."""
    said = [exchange.said() for exchange in exchanges]
    found = [repeated_answer(said[max(0, at - 4) : at], [said[at]]) for at in range(1, len(said))]
    return ["nothing" if each is None else "observe" if each.doubt else "alarm" for each in found]


@pytest.mark.parametrize(
    ("exchanges", "expected"),
    [
        pytest.param(STANDSTILL, ["nothing", "alarm"], id="the second restatement in a row"),
        pytest.param(
            [*STANDSTILL[:2], Exchange("And when?", OTHER), STANDSTILL[2]], ["nothing"] * 3, id="not in a row"
        ),
        pytest.param(
            [*STANDSTILL[:2], Exchange("Really?", ONCE_MORE, (look(7),))],
            ["nothing", "nothing"],
            id="a call that was not made before",
        ),
        pytest.param(
            [*STANDSTILL[:2], Exchange("Really?", ONCE_MORE, (look(7, "timeout"),))],
            ["nothing", "alarm"],
            id="a call that failed brings nothing",
        ),
        pytest.param(
            [Exchange(each.question, each.answer, (look(7),)) for each in STANDSTILL],
            ["nothing", "alarm"],
            id="the same call every time brings nothing",
        ),
        pytest.param(
            [*STANDSTILL[:2], Exchange("Really?", f"{ONCE_MORE} Or the code ZX81.")],
            ["nothing", "nothing"],
            id="an id that was not said before",
        ),
        pytest.param(
            [Exchange("Change my flight!", each.answer) for each in STANDSTILL], ["nothing"] * 2, id="the same question"
        ),
        pytest.param(
            [Exchange(f"Add item {n}.", DONE, (look(n),)) for n in range(4)],
            ["nothing", "observe", "observe"],
            id="the very same words, each time with something done",
        ),
        pytest.param(
            [Exchange(f"Add item {n}.", "Done.", (look(n),)) for n in range(4)],
            ["nothing"] * 3,
            id="a label, each time with something done",
        ),
        pytest.param(
            [Exchange(f"Review {name}.", "I have found no issues.") for name in ("a.py", "b.py", "c.py")],
            ["nothing", "observe"],
            id="a brief answer that may be right each time",
        ),
        pytest.param(
            [
                Exchange(
                    f"Review {name}.", f"I have read {name} line by line and found no issues, so it may be merged."
                )
                for name in ("a.py", "b.py", "c.py")
            ],
            ["nothing", "nothing"],
            id="a file that was not named before",
        ),
        pytest.param(
            [Exchange(question, IN_TRANSIT) for question in ("Where is my parcel 7731?", "Any news?", "And now?")],
            ["nothing", "observe"],
            id="news are asked for, and there are none",
        ),
        pytest.param(
            [Exchange(question, f"{ASK} What is it?") for question in ("Where is it?", "Can you?", "And now?")],
            ["nothing", "alarm"],
            id="the answer asks back",
        ),
        pytest.param(
            [
                Exchange("Book a table.", "I have booked a table for two at seven."),
                Exchange("For four people, please.", "I have booked a table for four at seven."),
                Exchange("Make it eight.", "I have booked a table for four at eight."),
            ],
            ["nothing", "nothing"],
            id="the answer takes up what the user says",
        ),
        pytest.param(
            [Exchange(f"Heartbeat {hour}:00", IN_TRANSIT) for hour in (9, 10, 11)],
            ["nothing", "nothing"],
            id="a question by a schedule",
        ),
        pytest.param(
            [Exchange(None, each.answer) for each in STANDSTILL], ["nothing", "observe"], id="questions not recorded"
        ),
        pytest.param(
            [STANDSTILL[0], Exchange("What?", None), *STANDSTILL[1:]], ["nothing"] * 2 + ["alarm"], id="a turn failed"
        ),
    ],
)
def test_second_restatement_that_brings_nothing_new(exchanges: list[Exchange], expected: list[str]) -> None:
    assert told(exchanges) == expected


def test_turns_of_one_trace_are_compared_like_those_of_several() -> None:
    said = [exchange.said() for exchange in STANDSTILL]
    found = repeated_answer((), said)
    assert found is not None
    assert (found.back, found.doubt) == (1, None)
    assert found.score < 0.5


def test_turn_says_the_same_as_it_is_stored() -> None:
    call = ToolCall(name="get_order", arguments='{"id": 7}', result="order 7")
    stored = TurnView(input="Change my flight.", output=ASK, tool_calls=[call])
    answer = comparable(ASK, embedder().embed)
    read, said = said_in(stored, answer).digests, Exchange("Change my flight.", ASK, (look(7),)).said().digests
    assert read == said
    assert len(said.brought) == 2, "the call, and the number in it"


def test_texts_of_a_turn_are_kept_until_it_is_compared_unless_they_are_long() -> None:
    short, long = Exchange("Change my flight.", ASK).said(), Exchange("x" * MAX_KEPT, ASK).said()
    assert (short._texts is None, long._texts is None) == (False, True)
    assert short.digests.told == long.digests.told
    assert short._texts is None


@pytest.mark.parametrize(
    ("compared", "expected"),
    [
        (Score(value=0.5, reason=""), False),
        (Score(value=0.49, reason=""), True),
        (Unscored(status=Status.NOT_APPLICABLE, reason=""), False),
        (Failure(error_type="ValueError", reason=""), True),
    ],
)
def test_only_an_answer_that_is_like_another_may_restate_it(compared: Outcome, expected: bool) -> None:
    assert may_restate(compared) is expected
