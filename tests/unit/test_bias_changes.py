"""Changes of a trace that must not change its verdict: what they touch, and what they leave."""

from dataclasses import replace

from agenteval_collector.judge.bias import PADDING, padded, renamed, swapped
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.model import Tool
from tests.support.judging import model_call, tool_call, trace, turn

SUBJECT = trace(
    turn(
        "Ask shop-planner to search",
        "Booked by shop-planner with find_flight",
        agent="shop-planner",
        tool_calls=(
            tool_call("search", arguments={"to": "OSL", "from": "BER"}, result=[{"b": 1, "a": 2}]),
            tool_call("find_flight", 3, arguments="find_flight please"),
        ),
        model_calls=(
            replace(model_call("I am gpt-4o, not gpt-4o-mini", 1), model="gpt-4o"),
            model_call("Booked by shop-planner with find_flight", 5),
        ),
    ),
    tools=(Tool(name="search"), Tool(name="find_flight", parameters={"type": "object", "properties": {}})),
    system_instructions="You are shop-planner. Use find_flight, not find_flights.",
    earlier=(turn("shop-planner?", "Yes"),),
    agents=("shop-planner",),
)


def test_only_the_final_answer_is_padded_wherever_it_stands() -> None:
    changed = padded(SUBJECT)
    assert changed.output == f"{SUBJECT.output}{PADDING}"
    assert [call.output for call in changed.model_calls] == ["I am gpt-4o, not gpt-4o-mini", changed.output]
    assert replace(changed, turns=SUBJECT.turns) == SUBJECT


def test_no_answer_is_not_padded() -> None:
    for answer in (None, ""):
        subject = trace(turn("Hello", answer))
        assert padded(subject) is subject


def test_what_has_no_order_is_reversed_and_nothing_else() -> None:
    changed = swapped(SUBJECT)
    assert changed == replace(SUBJECT, available_tools=SUBJECT.available_tools[::-1]), "objects are equal in any order"
    first = changed.tool_calls[0]
    assert isinstance(first.arguments, dict)
    assert list(first.arguments) == ["from", "to"]
    assert str(first.result) == "[{'a': 2, 'b': 1}]"
    assert [call.name for call in changed.tool_calls] == ["search", "find_flight"]


def test_names_are_changed_wherever_they_stand_and_words_that_only_look_like_them_are_not() -> None:
    changed = renamed(SUBJECT)
    assert changed.system_instructions == "You are agent-1. Use use_find_flight, not find_flights."
    assert changed.earlier[0].input == "agent-1?"
    assert changed.input == "Ask agent-1 to search"
    assert changed.output == changed.model_calls[1].output == "Booked by agent-1 with use_find_flight"
    assert changed.model_calls[0].output == "I am model-1, not gpt-4o-mini"
    assert [call.name for call in changed.tool_calls] == ["use_search", "use_find_flight"]
    assert changed.tool_calls[1].arguments == "use_find_flight please"
    assert [tool.name for tool in changed.available_tools] == ["use_search", "use_find_flight"]


@given(st.lists(st.text(max_size=12), min_size=1, max_size=4), st.text(max_size=40))
def test_any_name_can_be_changed(names: list[str], said: str) -> None:
    calls = tuple(tool_call(name) for name in names)
    changed = renamed(trace(turn(said, " ".join(names), tool_calls=calls), agents=tuple(names)))
    assert len(changed.tool_calls) == len(names)
