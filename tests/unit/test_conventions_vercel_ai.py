"""Vercel's AI SDK: runs, model calls and tools, in the shapes of its versions 4 to 6."""

import json
from typing import Any

import pytest

from otel_agenteval.conventions.spans import STATUS_ERROR, SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import Trace, Usage
from tests.support.spans import agent, answer, chat, failed, tool, user


def span(span_id: str, operation: str, parent: str | None = None, at: int = 0, **attributes: Any) -> SpanRecord:
    given = {f"ai.{key.replace('__', '.')}": value for key, value in attributes.items()}
    return SpanRecord(
        span_id=span_id,
        parent_id=parent,
        started_at=at,
        ended_at=at + 5,
        attributes={"ai.operationId": f"ai.{operation}", **given},
    )


def read(*spans: SpanRecord) -> Trace:
    return read_trace("t", spans)


def messages(*said: tuple[str, Any]) -> str:
    return json.dumps([{"role": role, "content": content} for role, content in said])


ASKED = {"type": "tool-call", "toolCallId": "c1", "toolName": "f"}
TOLD = {"type": "tool-result", "toolCallId": "c1", "toolName": "f"}


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        pytest.param('{"prompt": "Hi"}', "Hi", id="a prompt"),
        pytest.param('{"system": "Be brief.", "prompt": "Hi"}', "Hi", id="instructions are not the user's"),
        pytest.param('{"messages": [{"role": "user", "content": "Hi"}]}', "Hi", id="messages"),
        pytest.param('{"prompt": [{"role": "user", "content": "Hi"}]}', "Hi", id="messages as the prompt"),
        pytest.param(
            '{"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}',
            "Hi",
            id="a message's parts",
        ),
        pytest.param('{"messages": [{"role": "user", "con', None, id="cut in the middle"),
        pytest.param("Hi", None, id="no JSON"),
    ],
)
def test_what_a_run_was_asked(prompt: str, expected: str | None) -> None:
    trace = read(span("a", "streamText", prompt=prompt, telemetry__functionId="bot"))
    assert (trace.input, trace.agents, trace.partial) == (expected, ("bot",), prompt.endswith("con"))


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param([{"toolCallId": "c1", "toolName": "f", "input": '{"x": 1}'}], id="version 6"),
        pytest.param([{**ASKED, "input": {"x": 1}}], id="version 5 and streams"),
        pytest.param([{**ASKED, "args": '{"x": 1}'}], id="version 4"),
    ],
)
def test_a_request_and_its_execution_are_one_call(calls: Any) -> None:
    [call] = read(
        span("a", "generateText"),
        span("m", "generateText.doGenerate", "a", at=1, response__toolCalls=json.dumps(calls)),
        span("t", "toolCall", "a", at=10, toolCall__name="f", toolCall__id="c1", toolCall__result='"ok"'),
    ).tool_calls
    assert (call.name, call.arguments, call.result, call.call_id) == ("f", {"x": 1}, "ok", "c1")


@pytest.mark.parametrize(
    ("told", "result", "error"),
    [
        pytest.param({**TOLD, "output": {"type": "text", "value": "ok"}}, "ok", None, id="text"),
        pytest.param({**TOLD, "output": {"type": "json", "value": {"n": 1}}}, {"n": 1}, None, id="JSON"),
        pytest.param({**TOLD, "output": {"type": "error-text", "value": "no"}}, "no", "no", id="an error"),
        pytest.param({**TOLD, "result": {"n": 1}}, {"n": 1}, None, id="version 4"),
    ],
)
def test_what_a_tool_without_a_span_answered_is_in_the_next_call(told: Any, result: Any, error: str | None) -> None:
    history = messages(("user", "?"), ("assistant", [{**ASKED, "input": {}}]), ("tool", [told]))
    [call] = read(
        span("a", "generateText"),
        span("m", "generateText.doGenerate", "a", at=1, response__toolCalls=json.dumps([{**ASKED, "input": {}}])),
        span("n", "generateText.doGenerate", "a", at=10, prompt__messages=history, response__text="Done."),
    ).tool_calls
    assert (call.result, call.error) == (result, error)


def test_a_run_that_goes_on_with_a_tools_answer_belongs_to_the_turn_before() -> None:
    first = json.dumps({"messages": [{"role": "user", "content": "Hi"}]})
    then = json.dumps(
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "tool", "content": [{**TOLD, "result": 1}]}]}
    )
    after = json.dumps({"messages": [{"role": "user", "content": "And?"}]})
    trace = read(
        span("a", "generateText", at=0, prompt=first),
        span("b", "generateText", at=10, prompt=then, response__text="Hello"),
        span("c", "generateText", at=20, prompt=after, response__text="Well"),
    )
    assert [(turn.input, turn.output) for turn in trace.turns] == [("Hi", "Hello"), ("And?", "Well")]


def test_tokens_are_those_of_the_model_calls_and_not_of_the_run_around_them() -> None:
    trace = read(
        span("a", "generateText", usage__inputTokens=7, usage__outputTokens=3),
        span("m", "generateText.doGenerate", "a", at=1, usage__inputTokens=4, usage__outputTokens=2),
        span("n", "generateText.doGenerate", "a", at=2, usage__promptTokens=3, usage__completionTokens=1),
    )
    assert [call.usage for call in trace.model_calls] == [
        Usage(input_tokens=4, output_tokens=2),
        Usage(input_tokens=3, output_tokens=1),
    ]


@pytest.mark.parametrize("reasoning", ["Hm.", '[{"type": "reasoning", "text": "Hm."}]'])
def test_reasoning_is_text_or_a_list_of_parts(reasoning: str) -> None:
    call = span("m", "streamText.doStream", response__text="Hello", response__reasoning=reasoning)
    assert read(call).turns[0].reasoning == ("Hm.",)


def test_a_call_for_an_object_names_the_agent() -> None:
    named: dict[str, Any] = {"telemetry__functionId": "extractor"}
    call = span("m", "generateObject.doGenerate", "o", at=1, response__object='{"n": 1}', **named)
    trace = read(span("o", "generateObject", prompt='{"prompt": "?"}', response__object='{"n": 1}', **named), call)
    assert (trace.agents, [each.agent for each in trace.turns]) == (("extractor",), ["extractor"])


def test_a_call_for_an_object_within_an_agent_is_a_step_of_its_run() -> None:
    trace = read(
        span("r", "generateText", prompt='{"prompt": "?"}', response__text="ok", telemetry__functionId="bot"),
        span("o", "generateObject", "r", at=1, response__object='{"n": 1}', telemetry__functionId="extractor"),
    )
    assert (trace.agents, [each.agent for each in trace.turns]) == (("bot",), ["bot"])


def test_an_object_is_an_answer_and_tools_have_schemas() -> None:
    tool = json.dumps({"type": "function", "name": "f", "inputSchema": {"type": "object"}})
    old = json.dumps({"type": "function", "name": "g", "parameters": {"type": "object"}})
    call = span("m", "generateObject.doGenerate", "o", at=1, response__object='{"n": 1}', prompt__tools=[tool, old])
    trace = read(span("o", "generateObject", prompt='{"prompt": "?"}', response__object='{"n": 1}'), call)
    assert (trace.input, trace.output) == ("?", '{"n": 1}')
    assert [(each.name, each.parameters) for each in trace.available_tools] == [
        ("f", {"type": "object"}),
        ("g", {"type": "object"}),
    ]


def test_what_only_repeats_the_error_of_a_tool_and_has_its_answer_did_not_fail() -> None:
    """OpenInference's processor writes the first error of a trace on the spans that end after it."""
    call = failed(tool("x", "refund", {}, parent="a", at=1), "gateway unreachable")
    call.status_message = "gateway unreachable"
    reply = chat("m", [user("Pay")], [answer("I could not.")], parent="a", at=20)
    run = agent("a", "bot")
    for record in (reply, run):
        record.status, record.status_message = STATUS_ERROR, "gateway unreachable"
    run.attributes = {**run.attributes, "gen_ai.output.messages": '[{"role": "assistant", "content": "I could not."}]'}
    [turn] = read_trace("t", [run, call, reply]).turns
    assert (turn.output, turn.error, [model.error for model in turn.model_calls]) == ("I could not.", None, [None])
    reply.status_message = "model overloaded"
    assert [model.error for model in read_trace("t", [run, call, reply]).turns[0].model_calls] == ["model overloaded"]


def test_openinference_names_the_agent_by_its_function() -> None:
    attributes = {"openinference.span.kind": "AGENT", "ai.telemetry.functionId": "bot"}
    run = SpanRecord(span_id="a", name="ai.generateText bot", scope="ai", attributes=attributes)
    assert read_trace("t", [run]).agents == ("bot",)
    run.attributes = {"openinference.span.kind": "AGENT"}
    assert read_trace("t", [run]).agents == ()
