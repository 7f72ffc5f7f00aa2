"""The first instrumentation of the OpenAI Agents SDK: objects written as Python's `repr`, runs that only group runs."""

import math
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.conventions.python_repr import decode_repr
from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from tests.support.spans import agent, answer, asks, chat, span, told, tool, user

CALL = (
    "ResponseFunctionToolCall(arguments='{\"x\": 1}', call_id='call_1', name='f', type='function_call', id='fc_1', "
    "caller=None, status='completed')"
)
MESSAGE = (
    "{'content': None, 'role': 'assistant', 'tool_calls': [{'id': 'call_1', 'function': "
    "{'arguments': '{\"x\": 1}', 'name': 'f'}, 'type': 'function'}]}"
)
THOUGHT = "ResponseReasoningItem(id='r', summary=[Summary(text='It\\'s wet.', type='summary_text')], type='reasoning')"


def said(*texts: str) -> dict[str, Any]:
    return {"role": "assistant", "parts": [{"type": "text", "content": text} for text in texts]}


@pytest.mark.parametrize("written", [pytest.param(CALL, id="Responses"), pytest.param(MESSAGE, id="chat completions")])
def test_a_call_that_is_written_as_an_object_is_a_call_and_not_words(written: str) -> None:
    trace = read_trace("t", [chat("m", [user("?")], [said(written)])])
    [call] = trace.tool_calls
    assert (call.name, call.arguments, call.call_id) == ("f", {"x": 1}, "call_1")
    assert (trace.output, trace.turns[0].plan) == (None, ())


def test_a_thought_beside_a_call_is_reasoning() -> None:
    [turn] = read_trace("t", [chat("m", [user("?")], [said(THOUGHT, CALL)])]).turns
    assert (turn.reasoning, turn.plan, len(turn.tool_calls)) == (("It's wet.",), (), 1)


def test_words_beside_a_call_that_only_the_next_call_repeats_are_a_plan() -> None:
    sent = [user("?"), asks("f", {}, "c", text="First f."), told("7", "c")]
    [turn] = read_trace(
        "t", [chat("m", [user("?")], [answer("First f.")], at=1), chat("n", sent, [answer("It is 7.")], at=50)]
    ).turns
    assert (turn.plan, turn.output) == (("First f.",), "It is 7.")


@pytest.mark.parametrize("text", ["{'content': 'is a key', 'of': 'mine'", "ResponseFunctionToolCall(is a class)"])
def test_words_that_merely_begin_like_an_object_stay_words(text: str) -> None:
    assert read_trace("t", [chat("m", [user("?")], [said(text)])]).output == text


def run(number: int, name: str, parent: str, at: int) -> list[SpanRecord]:
    sent, received = [user(f"question {number}")], [answer(f"answer {number}")]
    return [
        agent(f"a{number}", name, parent, at=at, until=at + 9),
        chat(f"m{number}", sent, received, f"a{number}", at=at + 1, until=at + 8),
    ]


def test_runs_below_a_nameless_run_are_turns_of_their_own() -> None:
    turns = read_trace("t", [agent_of_nobody("root"), *run(1, "bot", "root", 10), *run(2, "bot", "root", 20)]).turns
    assert [(turn.input, turn.output) for turn in turns] == [("question 1", "answer 1"), ("question 2", "answer 2")]


def test_a_nameless_run_without_runs_below_is_a_turn() -> None:
    assert read_trace("t", [agent_of_nobody("root"), chat("m", [user("Hi")], [answer("Yes")], "root", at=1)]).turns


def test_a_run_that_was_handed_the_conversation_belongs_to_the_turn_and_its_next_run_does_not() -> None:
    handoff = span("h", "agent_handoff", "a1", at=15, until=16, attributes={"gen_ai.handoff.to_agent": "booker"})
    spans = [agent_of_nobody("root"), *run(1, "desk", "root", 10), handoff]
    spans += [*run(2, "booker", "root", 20), *run(3, "booker", "root", 30)]
    turns = read_trace("t", spans).turns
    assert [(turn.input, turn.output) for turn in turns] == [("question 1", "answer 2"), ("question 3", "answer 3")]


def test_a_tool_that_the_framework_marks_as_a_hand_off_is_not_the_users() -> None:
    handoff = span("h", "agent_handoff", "a", at=3, attributes={"gen_ai.handoff.to_agent": "remote booker"})
    spans = [agent("a", "desk"), tool("t", "transfer_to_remote_booker", {}, "ok", "a", at=2), handoff]
    assert read_trace("t", spans).tool_calls == ()


def agent_of_nobody(span_id: str) -> SpanRecord:
    return span(span_id, "invoke_agent", until=100)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)


@given(value=VALUES)
def test_decoding_inverts_repr(value: Any) -> None:
    assert decode_repr(repr(value)) == value


@given(fields=st.dictionaries(st.text(string.ascii_lowercase, min_size=1, max_size=4), VALUES, max_size=4))
def test_objects_decode_to_their_fields(fields: dict[str, Any]) -> None:
    written = ", ".join(f"{name}={value!r}" for name, value in fields.items())
    assert decode_repr(f"pkg.Thing({written})") == fields


@given(text=st.text("[]{}(),:='\"\\ax1.- ", max_size=30))
def test_anything_else_is_a_value_error_at_worst(text: str) -> None:
    try:
        value = decode_repr(text)
    except ValueError:
        return
    assert not isinstance(value, float) or math.isfinite(value)


@pytest.mark.parametrize("text", ["[" * 100_000, "A(a=" * 100_000, "9" * 100_000, "'" + "\\" * 100_000])
def test_hostile_text_is_read_or_refused_at_once(text: str) -> None:
    if text.startswith("9"):
        assert decode_repr(text) == text
    else:
        with pytest.raises(ValueError, match=r"\w"):
            decode_repr(text)
