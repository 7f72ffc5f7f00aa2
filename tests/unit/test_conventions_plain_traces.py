"""A plain trace is read by a plan, and says what it says if it is read as any other.

An attribute that no dialect knows tells nothing, but no plan covers it: with it a trace is read as any other.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.conventions.plain_traces import plain_trace
from otel_agenteval.conventions.spans import EventRecord, SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.conventions.tree import in_order
from otel_agenteval.conventions.turns import read_plain_turn
from otel_agenteval.model import Json
from tests.support.recordings import name_of, recorded_spans, recordings
from tests.support.spans import agent, chat, tool

_RESOURCE: dict[str, Json] = {"service.name": "shop"}
_ASKED = [{"role": "user", "parts": [{"type": "text", "content": "Where is order 7?"}]}]
_CALL = {"type": "tool_call", "id": "call_1", "name": "find_order", "arguments": {"order": 7}}
_REQUEST = [{"role": "assistant", "parts": [_CALL]}]
_RESULT = [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": "in Oslo"}]}]
_ANSWER = [{"role": "assistant", "parts": [{"type": "text", "content": "It is in Oslo."}]}]


def plain_spans() -> list[SpanRecord]:
    """A run of an agent that asks a model, calls a tool, asks the model again, and answers."""
    messages: dict[str, Json] = {
        "gen_ai.input.messages": json.dumps(_ASKED),
        "gen_ai.output.messages": json.dumps(_ANSWER),
        "gen_ai.conversation.id": "chat-1",
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Help with orders."}]),
    }
    model: dict[str, Json] = {"gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 10, "gen_ai.response.id": "r1"}
    tools: dict[str, Json] = {"gen_ai.tool.definitions": json.dumps([{"type": "function", "name": "find_order"}])}
    spans = [
        agent("a0", "orders", until=100, attributes=messages),
        chat("b1", _ASKED, _REQUEST, "a0", 10, attributes=model | tools),
        tool("c2", "find_order", {"order": 7}, "in Oslo", "a0", 30, call_id="call_1"),
        chat("d3", _ASKED + _REQUEST + _RESULT, _ANSWER, "a0", 50, attributes=model | {"gen_ai.response.id": "r2"}),
    ]
    return [replace(span, resource=_RESOURCE) for span in spans]


def is_plain(spans: Sequence[SpanRecord]) -> bool:
    plain = plain_trace(in_order(spans))
    return plain is not None and read_plain_turn(plain.turn) is not None


def unplanned(spans: Sequence[SpanRecord]) -> list[SpanRecord]:
    """The same spans with an attribute that says nothing."""
    return [replace(span, attributes={**span.attributes, "shop.shelf": 12}) for span in spans]


def check_same(spans: Sequence[SpanRecord]) -> None:
    assert not is_plain(unplanned(spans))
    assert read_trace("t", spans) == read_trace("t", unplanned(spans))


def test_a_plain_trace_is_read_as_any_other() -> None:
    assert is_plain(plain_spans())
    check_same(plain_spans())
    (turn,) = read_trace("t", plain_spans()).turns
    assert (turn.input, turn.output) == ("Where is order 7?", "It is in Oslo.")
    assert [(call.name, call.result, call.asked_by) for call in turn.tool_calls] == [("find_order", "in Oslo", "b1")]


@pytest.mark.parametrize("path", recordings("recorded"), ids=name_of)
def test_recorded_traces_are_read_the_same(path: Path) -> None:
    for spans in recorded_spans(path).values():
        # Spans of a collector share one resource.
        shared = [replace(span, resource=spans[0].resource) for span in spans]
        assert read_trace("t", shared) == read_trace("t", unplanned(shared))


def test_recorded_traces_are_plain() -> None:
    plain = {
        name_of(path).partition("--")[0]
        for path in recordings("recorded")
        for spans in recorded_spans(path).values()
        if is_plain([replace(span, resource=spans[0].resource) for span in spans])
    }
    assert plain >= {"otel-genai-langchain"}


def changed(at: int, change: Callable[[SpanRecord], SpanRecord]) -> list[SpanRecord]:
    spans = plain_spans()
    spans[at] = change(spans[at])
    return spans


def calling(tool: str) -> list[SpanRecord]:
    """The same, with a tool of another name."""
    return [
        replace(
            span,
            attributes={
                key: value.replace("find_order", tool) if isinstance(value, str) else value
                for key, value in span.attributes.items()
            },
        )
        for span in plain_spans()
    ]


def having(attributes: Mapping[str, Json]) -> Callable[[SpanRecord], SpanRecord]:
    return lambda span: replace(span, attributes={**span.attributes, **attributes})


_MORE: dict[str, list[SpanRecord]] = {
    "a failed tool": changed(2, lambda span: replace(span, status=2, status_message="no such order")),
    "an exception": changed(1, lambda span: replace(span, events=(EventRecord(name="exception"),))),
    "a cut attribute": changed(1, lambda span: replace(span, dropped_attributes_count=1)),
    "another service": changed(2, lambda span: replace(span, resource={"service.name": "stock"})),
    "another instrumentation": changed(1, lambda span: replace(span, scope="openai")),
    "a tool within a model call": changed(2, lambda span: replace(span, parent_id="b1")),
    "a lost parent": changed(3, lambda span: replace(span, parent_id="e9")),
    "a circle": changed(0, lambda span: replace(span, parent_id="d3")),
    "one response twice": changed(3, having({"gen_ai.response.id": "r1"})),
    "one response in two spans": changed(
        3, lambda span: replace(having({"gen_ai.response.id": "r1"})(span), started_at=15)
    ),
    "a session that is a response": changed(0, having({"gen_ai.conversation.id": "r2"})),
    "a cut history": changed(3, having({"gen_ai.input.messages": json.dumps(_ASKED + _REQUEST)[:-30]})),
    "cut definitions": changed(1, having({"gen_ai.tool.definitions": '[{"type": "function", "name": "find_'})),
    "an empty reply": changed(1, having({"gen_ai.output.messages": "[]"})),
    "an empty answer": changed(0, having({"gen_ai.output.messages": "[]"})),
    "a repr for a reply": changed(1, having({"gen_ai.output.messages": "[ResponseFunctionToolCall(name='x')]"})),
    "other arguments": changed(2, having({"gen_ai.tool.call.arguments": '{"order": 7, "limit": 5}'})),
    "arguments in an envelope": changed(2, having({"gen_ai.tool.call.arguments": '{"kwargs": {"order": 7}}'})),
    "text for arguments": changed(2, having({"gen_ai.tool.call.arguments": "{'order': 7}"})),
    "an error in the result": changed(2, having({"gen_ai.tool.call.result": "Error: no such order"})),
    "no result": changed(2, having({"gen_ai.tool.call.result": None})),
    "another tool": changed(2, having({"gen_ai.tool.name": "look_up"})),
    "no definitions": changed(1, having({"gen_ai.tool.definitions": []})),
    "a tool for the answer": calling("final_answer"),
    "a tool that merges": calling("(merged tools)"),
    "a hand-over": calling("transfer_to_orders"),
    "a hand-over to another agent": calling("transfer_to_refunds"),
    "another call": changed(2, having({"gen_ai.tool.call.id": "call_2"})),
    "a tool that came first": changed(2, lambda span: replace(span, started_at=5)),
    "a result that failed": changed(
        3,
        having(
            {
                "gen_ai.input.messages": json.dumps(_ASKED + _REQUEST + _RESULT).replace(
                    '"in Oslo"', '"x", "is_error": true'
                )
            }
        ),
    ),
    "an agent without a name": changed(0, having({"gen_ai.agent.name": " "})),
    "numbers for messages": changed(1, having({"gen_ai.input.messages": 7})),
    "a name of another dialect": changed(0, lambda span: replace(span, name="agent_run [orders]")),
    "no answer at all": plain_spans()[1:],
    "two runs": [*plain_spans(), replace(plain_spans()[0], span_id="f9", started_at=200, ended_at=300)],
    "a run without tools": [plain_spans()[0], plain_spans()[3]],
}


@pytest.mark.parametrize("spans", _MORE.values(), ids=_MORE)
def test_what_is_not_plain_is_read_the_same(spans: list[SpanRecord]) -> None:
    check_same(spans)


_VALUES = st.sampled_from(
    [json.dumps(each) for each in (_ASKED, _REQUEST, _RESULT, _ANSWER, {"order": 7}, "call_1", 3)]
)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), _VALUES), max_size=4), st.permutations(range(4)))
def test_any_values_are_read_the_same(changes: list[tuple[int, int, str]], order: list[int]) -> None:
    spans = plain_spans()
    for at, key, value in changes:
        keys = [*spans[at].attributes]
        spans[at] = having({keys[key % len(keys)]: value})(spans[at])
    check_same([spans[at] for at in order])
