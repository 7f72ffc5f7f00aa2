"""What frameworks put around a call is taken off, and what a tool's own arguments look like stays."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.conventions.dialect import SpanFacts, SpanRole
from otel_agenteval.conventions.envelopes import arguments_in, take_off
from otel_agenteval.conventions.span_reader import read_span
from otel_agenteval.conventions.spans import SpanRecord

CITY = {"city": "Oslo"}
NAMES = st.text("abcxyzÄß_", min_size=1, max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(NAMES.filter(lambda name: name not in ("input", "kwargs", "args")), VALUES, max_size=4)


@pytest.mark.parametrize(
    "recorded",
    [
        pytest.param({"input": CITY, "options": None}, id="BeeAI"),
        pytest.param({"input": CITY}, id="alone"),
        pytest.param({"input": '{"city": "Oslo"}'}, id="as text"),
        pytest.param({"name": "get_weather", "arguments": CITY}, id="MCP's params"),
        pytest.param({"tool": "get_weather", "params": CITY, "id": "1"}, id="of a call with an id"),
        pytest.param({"tool_input": CITY, "run_manager": None}, id="LangChain"),
        pytest.param({"kwargs": {"input": CITY}}, id="twice"),
        pytest.param({"args": CITY, "name": "x", "type": "tool_call"}, id="LangChain's tool call"),
        pytest.param({"input": {"args": [], "kwargs": CITY}, "options": {}}, id="around a Python call"),
    ],
)
def test_arguments_are_what_the_model_asked_for(recorded: Any) -> None:
    assert arguments_in(recorded) == CITY


@pytest.mark.parametrize(
    "own",
    [
        CITY,
        {"input": "a text"},
        {"input": ["a", "b"]},
        {"params": {"a": 1}},
        {"arguments": {"a": 1}},
        {"input": CITY, "unit": "C"},
        {"input": CITY, "arguments": {"a": 1}},
        {"name": "x", "id": "7"},
        {},
        [CITY],
        "Oslo",
        None,
    ],
)
def test_a_tools_own_arguments_stay(own: Any) -> None:
    assert arguments_in(own) == own


@given(ARGUMENTS, st.sampled_from(["input", "tool_input", "arguments", "params"]), st.sampled_from(["options", "id"]))
def test_any_arguments_come_out_of_any_envelope(arguments: dict[str, Any], name: str, beside: str) -> None:
    assert arguments_in({name: arguments, beside: None}) == arguments


@pytest.mark.parametrize("method", [".__call__", ".acall", ".ainvoke", ".arun", ""])
@pytest.mark.parametrize("name", ["get_weather", "Delegate work to coworker", "files.run", "call"])
def test_the_method_that_ran_a_tool_is_no_part_of_its_name(name: str, method: str) -> None:
    facts = SpanFacts(role=SpanRole.TOOL, tool=f"{name}{method}")
    take_off(facts)
    assert facts.tool == name


@pytest.mark.parametrize(
    ("text", "result", "error"),
    [
        ("status='success' result='sunny, 21 degrees' error=None images=None", "sunny, 21 degrees", None),
        ("status='failure' result=None error='seat service is down' images=None", None, "seat service is down"),
        ("result={'a': [1, 2]} success=True", {"a": [1, 2]}, None),
        ("result='said status=ok here' error=None", "said status=ok here", None),
        ("status=200 and nothing else", "status=200 and nothing else", None),
        ("a=1 b=2", "a=1 b=2", None),
        ("result='open", "result='open", None),
    ],
)
def test_an_object_of_result_and_error_is_read(text: str, result: Any, error: str | None) -> None:
    facts = SpanFacts(role=SpanRole.TOOL, tool="x", result=text)
    take_off(facts)
    assert (facts.result, facts.error) == (result, error)


def test_a_span_of_a_tool_is_read_without_its_envelope() -> None:
    attributes = {
        "openinference.span.kind": "TOOL",
        "input.value": '{"input": {"city": "Oslo"}, "options": null}',
        "output.value": "sunny",
    }
    span = SpanRecord(
        span_id="a", parent_id=None, name="get_weather.acall", started_at=0, ended_at=1, attributes=attributes
    )
    facts, _ = read_span(span)
    assert facts is not None
    assert (facts.tool, facts.arguments, facts.result) == ("get_weather", CITY, "sunny")
