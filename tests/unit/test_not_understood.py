"""Nothing unknown is healthy: steps that fail where nothing tells of them, and spans that no dialect knows."""

from dataclasses import replace
from typing import Any

import pytest
from agenteval_collector.evaluation.findings.trace import findings_in
from agenteval_collector.serve.api.explanation import about_unknown_spans

from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.doctor.collector import ArrivalAnswer, about_arrivals
from otel_agenteval.model import Trace, UnknownSpans
from tests.support.spans import agent, answer, chat, failed, span, tool, user

CHAT = chat("c", [user("Where?")], [answer("There.")], parent="a", at=1)


def read(*spans: SpanRecord) -> Trace:
    return read_trace("1" * 32, [agent("a", "guide", until=100), CHAT, *spans])


def kinds(trace: Trace) -> list[str]:
    return [found.kind for found in findings_in(trace, session_id="s", is_first=True, found_at=1)]


def step(span_id: str, parent: str = "a", at: int = 5, **kwargs: Any) -> SpanRecord:
    return span(span_id, parent=parent, at=at, name="retrieve", **kwargs)


def test_a_step_that_fails_within_a_turn_that_goes_on_is_a_finding_of_low_severity() -> None:
    trace = read(failed(step("s"), "the index did not answer"))
    [found] = findings_in(trace, session_id="s", is_first=True, found_at=1)
    assert (found.kind, found.severity, found.span_id, found.turn) == ("step_failed", "info", "s", 0)
    assert found.reason == "retrieve ended in an error, and the turn went on: the index did not answer"


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        pytest.param([step("s")], [], id="a step that worked"),
        pytest.param([failed(step("s"), "x"), failed(step("t", "s"), "x")], ["step_failed"], id="one within another"),
        pytest.param([failed(step("s"), "x"), failed(step("t"), "y")], ["step_failed"] * 2, id="one after another"),
        pytest.param([failed(tool("t", "f", parent="a", at=5), "x")], ["tool_failed"], id="a tool is told of as such"),
        pytest.param(
            [failed(tool("t", "f", parent="a", at=5), "x"), failed(step("s", "t", 6), "x")],
            ["tool_failed"],
            id="a step within a failed tool",
        ),
        pytest.param(
            [failed(step("s"), "x"), failed(tool("t", "f", parent="s", at=6), "x")],
            ["tool_failed"],
            id="a step around a failed tool",
        ),
    ],
)
def test_a_failure_is_told_once(spans: list[SpanRecord], expected: list[str]) -> None:
    assert kinds(read(*spans)) == expected


def test_a_step_of_a_turn_that_failed_adds_nothing() -> None:
    trace = read_trace("1" * 32, [failed(agent("a", "guide", until=100), "x"), CHAT, failed(step("s"), "x")])
    assert "step_failed" not in kinds(trace)


@pytest.mark.parametrize(
    ("attributes", "looks_like"),
    [
        ({"acme.session_id": "s-1"}, ("session",)),
        ({"acme.user_input": "hello", "acme.final.answer": "hi"}, ("input", "output")),
        ({"acme.prompt_tokens": 5, "acme.llm.name": "m"}, ("model", "usage")),
        ({"flow.tool_name": "search", "flow.toolArguments": "{}"}, ("tool",)),
        ({"acme.prompt.text": "hello"}, ("input",)),
    ],
)
def test_spans_of_an_unknown_scope_say_what_they_look_like(
    attributes: dict[str, Any], looks_like: tuple[str, ...]
) -> None:
    odd = [step(f"s{number}", scope="acme", attributes=attributes) for number in range(3)]
    assert read(*odd).unknown_spans == (UnknownSpans("acme", 3, looks_like),)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"http.request.method": "GET", "url.full": "http://x", "server.port": 80},
        {"db.query.text": "select 1", "db.system": "sqlite"},
        {"messaging.message.id": "7", "rpc.service": "x"},
        {"order.total": 3, "cart.items": 2},
    ],
)
def test_spans_that_look_like_nothing_of_an_agent_are_not_told(attributes: dict[str, Any]) -> None:
    assert read(step("s", scope="web", attributes=attributes)).unknown_spans == ()


def test_unknown_scopes_are_bounded_in_number_and_length() -> None:
    odd = [step(f"s{number}", scope=f"{number}" * 300, attributes={"my.prompt": "hello"}) for number in range(10, 60)]
    told = read(*odd).unknown_spans
    assert (len(told), max(len(unknown.scope) for unknown in told)) == (8, 100)


def test_why_and_the_doctor_say_how_to_teach_them() -> None:
    note = about_unknown_spans({"scope": "acme", "spans": 387, "looks_like": ["input", "session", "usage"]})
    assert note.text == (
        "387 spans of scope acme are not understood, with attributes that look like input, session, usage."
    )
    assert note.advice is not None
    assert "readings.attributes" in note.advice
    item: ArrivalAnswer = {
        "service": "shop", "last_seen_at": None, "traces": 1, "genai": 1, "with_content": 1, "with_session": 1,
        "running": 0, "content_switch": None,
        "not_understood": [{"scope": "acme", "spans": 387, "looks_like": ["input"]}],
    }  # fmt: skip
    [check] = [check for check in about_arrivals([item]) if check.name == "readings"]
    assert "387 spans of scope acme" in check.found


def test_a_trace_without_turns_tells_its_unknown_spans_too() -> None:
    lone = replace(step("s", scope="acme", attributes={"acme.prompt_tokens": 5}), parent_id=None)
    assert read_trace("1" * 32, [lone]).unknown_spans == (UnknownSpans("acme", 1, ("usage",)),)
