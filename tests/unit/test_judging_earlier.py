"""What a judge gets to read of the turns before a trace."""

import re
from typing import Any

from agenteval_collector.judge.panel import Materials
from agenteval_collector.judge.prompt.encoding import encode, tokens
from agenteval_collector.judge.prompt.transcript import earlier
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.model import Json, Trace, Turn
from tests.support.judging import panel, tool_call, trace, turn, unredacted

LONG = " ".join(["word"] * 400)


def told(*turns: Turn, budget: int = 1_000, **fields: Any) -> list[Any]:
    shown: list[Any] = earlier(trace(turn("And now?", "Done"), earlier=turns, **fields), budget, unredacted)
    assert tokens(encode(shown)) <= budget
    return shown


def kinds(shown: list[Any]) -> list[str]:
    return [item["kind"] for item in shown]


def test_what_fits_is_shown_whole_and_in_order() -> None:
    booked = tool_call("book", arguments={"to": "OSL"}, result={"id": 7})
    assert told(turn("Book a flight", "Where to?"), turn("To Oslo", "Shall I?", tool_calls=(booked,))) == [
        {"kind": "user", "text": "Book a flight"},
        {"kind": "answer", "text": "Where to?"},
        {"kind": "user", "text": "To Oslo"},
        {"kind": "tool_call", "tool": "book", "arguments": {"to": "OSL"}, "result": {"id": 7}},
        {"kind": "answer", "text": "Shall I?"},
    ]


def test_the_newest_turns_are_whole_older_ones_shortened_and_the_first_request_is_there() -> None:
    turns = [turn(f"Q{number} {LONG}", f"A{number}") for number in range(30)] + [turn("Yes, please", "On it")]
    shown = told(*turns)
    assert shown[0]["text"].startswith("Q0 word")
    assert shown[1]["kind"] == "left_out"
    assert shown[-2:] == [{"kind": "user", "text": "Yes, please"}, {"kind": "answer", "text": "On it"}]
    assert "characters left out" in shown[-4]["text"]
    assert [item["text"] for item in shown if item["kind"] == "answer"][-2] == "A29"


def test_without_earlier_turns_there_is_nothing() -> None:
    assert told() == []


def test_messages_stand_in_for_turns_that_are_not_kept() -> None:
    history: tuple[Json, ...] = ("JudgeExchange my shoes", "For which size?", {"size": 9}, "And now?")
    assert told(history=history) == [
        {"kind": "message", "text": text} for text in ("JudgeExchange my shoes", "For which size?", {"size": 9})
    ]
    assert kinds(told(turn("Hi", "Hello"), history=history)) == ["user", "answer"]


def test_what_came_before_takes_at_most_a_third_and_the_trace_the_rest() -> None:
    turns = tuple(turn(LONG, LONG) for _ in range(20))
    shown = Materials(panel(trace_tokens=1_000), trace(turn(LONG, LONG), earlier=turns))
    before, after = tokens(encode(shown.earlier)), tokens(encode(shown.transcript))
    assert 0 < before <= 333
    assert after <= 1_000 - before


words = st.text(max_size=600) | st.integers(0, 5_000).map(lambda count: "word " * count) | st.none()
turns = st.lists(
    st.builds(
        lambda asked, answered, results: turn(
            asked, answered, tool_calls=tuple(tool_call(arguments={}, result=each) for each in results)
        ),
        words,
        words,
        st.lists(words, max_size=4),
    ),
    min_size=1,
    max_size=12,
)


@given(turns, st.integers(160, 3_000))
def test_any_history_stays_within_its_budget_and_begins_with_the_first_request(before: list[Turn], budget: int) -> None:
    numbered = [
        turn(f"{number}: {each.input}", each.output, tool_calls=each.tool_calls) for number, each in enumerate(before)
    ]
    shown = told(*numbered, budget=budget)
    begun = [re.match(r"\d+", item["text"]) for item in shown if item["kind"] == "user"]
    asked = [int(match[0]) for match in begun if match]
    assert asked[0] == 0
    assert asked == sorted(set(asked))


@given(turns, st.integers(300, 600))
def test_what_is_left_for_the_trace_is_enough(before: list[Turn], budget: int) -> None:
    subject: Trace = trace(*before)
    shown: Any = Materials(panel(trace_tokens=budget), subject).transcript
    assert tokens(encode(shown)) <= budget
    assert shown[0]["kind"] == "user"
    assert shown[-1]["kind"] in ("answer", "no_answer")
