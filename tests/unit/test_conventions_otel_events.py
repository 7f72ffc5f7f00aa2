"""Messages in events: as log records, as span events, as one event for all; whole, cut, twice and out of order."""

import json
from typing import Any

import pytest

from otel_agenteval.conventions.spans import EventRecord, LogRecord, SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import Trace
from tests.support.spans import agent, span, tool

REQUEST = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}


def log(name: str, body: Any, time: int = 0, span_id: str = "m", **attributes: Any) -> LogRecord:
    return LogRecord(span_id=span_id, event_name=f"gen_ai.{name}", time=time, body=body, attributes=attributes)


def event(name: str, **attributes: Any) -> EventRecord:
    return EventRecord(name=f"gen_ai.{name}", attributes=attributes)


def model(*events: EventRecord, span_id: str = "m", at: int = 1, **kwargs: Any) -> SpanRecord:
    return span(span_id, "chat", at=at, events=events, **kwargs)


def read_logs(*logs: LogRecord) -> Trace:
    return read_trace("t", [model()], logs)


CHOICE = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello"}}


def test_messages_in_log_records() -> None:
    trace = read_logs(
        log("system.message", {"content": "Be kind."}, 1),
        log("user.message", {"content": "Hi"}, 2),
        log("choice", CHOICE, 3),
    )
    assert (trace.system_instructions, trace.input, trace.output) == ("Be kind.", "Hi", "Hello")
    assert trace.dialects == ("otel_genai", "otel_events")


def test_calls_and_what_tools_said_in_log_records() -> None:
    asked = {"finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": [REQUEST]}}
    trace = read_trace(
        "t",
        [model(), model(span_id="n", at=50)],
        [
            log("user.message", {"content": "Hi"}, 1),
            log("choice", asked, 2),
            log("user.message", {"content": "Hi"}, 51, "n"),
            log("assistant.message", {"tool_calls": [REQUEST]}, 52, "n"),
            log("tool.message", {"id": "c1", "content": "Error: no x"}, 53, "n"),
            log("choice", CHOICE, 54, "n"),
        ],
    )
    [call] = trace.tool_calls
    assert (call.name, call.arguments, call.error) == ("f", {"x": 1}, "Error: no x")
    assert (trace.input, trace.output) == ("Hi", "Hello")


def test_a_log_record_that_was_sent_again_is_one_message() -> None:
    asked = {"message": {"tool_calls": [{**REQUEST, "id": None}]}}
    records = [log("user.message", {"content": "Hi"}, 1), log("choice", asked, 2)]
    assert len(read_logs(*records, *records).tool_calls) == 1


def test_events_at_the_same_time_stand_in_the_order_of_a_conversation() -> None:
    records = [log("choice", CHOICE), log("user.message", {"content": "Hi"}), log("system.message", {"content": "S"})]
    trace = read_logs(*records)
    assert (trace.system_instructions, trace.input, trace.output) == ("S", "Hi", "Hello")


def test_of_two_questions_at_the_same_time_none_is_known_to_be_the_last() -> None:
    trace = read_logs(*(log("user.message", {"content": text}, 1) for text in ("Before", "Now")), log("choice", CHOICE))
    assert (trace.input, trace.output) == (None, "Hello")


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(log("user.message", '{"content": "Hi"}'), id="a body that is JSON text"),
        pytest.param(log("user.message", None, content="Hi"), id="attributes"),
        pytest.param(
            log("user.message", None, **dict[str, Any]({"gen_ai.event.content": '{"content": "Hi"}'})),
            id="JSON in an attribute",
        ),
        pytest.param(
            log("user.message", {"content": [{"type": "text", "text": "Hi"}]}), id="parts, as the API was given them"
        ),
    ],
)
def test_where_the_fields_of_an_event_stand(record: LogRecord) -> None:
    assert read_logs(record).input == "Hi"


def test_words_that_are_json_stay_words() -> None:
    text = '[{"city": "Rome"}]'
    trace = read_logs(log("user.message", {"content": text}, 1), log("choice", {"message": {"content": "{}"}}, 2))
    assert (trace.input, trace.output) == (text, "{}")


def test_without_content_nothing_is_said() -> None:
    choice = {"message": {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f"}}]}}
    trace = read_logs(log("user.message", {}), log("choice", choice, 1))
    assert (trace.input, trace.output) == (None, None)
    assert [(call.name, call.arguments) for call in trace.tool_calls] == [("f", None)]


def test_attributes_are_believed_before_events_and_events_before_log_records() -> None:
    spoken = {"gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "attribute"}]}]'}
    records = [log("user.message", {"content": "log"}), log("choice", {"message": "log"})]
    both = model(event("user.message", content="event"), event("choice", message="event"), attributes=spoken)
    trace = read_trace("t", [both], records)
    assert (trace.input, trace.output) == ("attribute", "event")


BLOCKS = [
    {"reasoningContent": {"reasoningText": {"text": "Hm."}}},
    {"text": "I will look."},
    {"toolUse": {"toolUseId": "c1", "name": "f", "input": {"x": 1}}},
]
RESULT = [{"toolResult": {"toolUseId": "c1", "status": "error", "content": [{"text": "no x"}]}}]


def test_blocks_of_bedrock_in_span_events() -> None:
    asking = model(event("user.message", content='[{"text": "Hi"}]'), event("choice", message=json.dumps(BLOCKS)))
    answering = model(
        event("user.message", content='[{"text": "Hi"}]'),
        event("assistant.message", content=json.dumps(BLOCKS)),
        event("tool.message", content=json.dumps(RESULT)),
        event("choice", message="Sorry\n"),
        span_id="n",
        at=50,
    )
    [turn] = read_trace("t", [asking, answering]).turns
    assert (turn.input, turn.output) == ("Hi", "Sorry")
    assert (turn.reasoning, turn.plan) == (("Hm.",), ("I will look.",))
    assert [(call.name, call.arguments, call.error) for call in turn.tool_calls] == [("f", {"x": 1}, "no x")]


def test_what_a_tool_is_told_and_says_in_span_events() -> None:
    told = event("tool.message", role="tool", content='{"x": 1}', id="c1")
    said = event("choice", message='[{"text": "fine"}]', id="c1")
    [call] = read_trace("t", [agent("a", "bot"), tool("x", "f", parent="a", at=1, events=(told, said))]).tool_calls
    assert (call.arguments, call.result, call.call_id) == ({"x": 1}, "fine", "c1")


def test_all_messages_in_one_event_before_v1_28() -> None:
    prompt = event("content.prompt", **{"gen_ai.prompt": '[{"role": "user", "content": "Hi"}]'})
    completion = event("content.completion", **{"gen_ai.completion": '[{"role": "assistant", "content": "Hello"}]'})
    old = SpanRecord(span_id="m", attributes={"gen_ai.request.model": "m"}, events=(prompt, completion))
    trace = read_trace("t", [old])
    assert (trace.input, trace.output, len(trace.model_calls)) == ("Hi", "Hello", 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("user.message", '[{"text": "How is the wea', id="a question"),
        pytest.param("tool.message", '[{"toolResult": {"toolUseId": "c1", "content": [{"text": "no', id="a result"),
    ],
)
def test_what_was_cut_makes_the_trace_partial_and_nothing_of_it_is_read_as_whole(name: str, value: str) -> None:
    asked = event("choice", message=json.dumps(BLOCKS))
    later = model(event(name, content=value), event("choice", message="Yes"), span_id="n", at=50)
    trace = read_trace("t", [model(asked), later])
    assert trace.partial
    assert trace.input is None
    assert [call.result for call in trace.tool_calls] == [None]


def test_a_call_that_was_cut_is_left_out() -> None:
    trace = read_trace("t", [model(event("choice", finish_reason="tool_use", message=json.dumps(BLOCKS)[:-12]))])
    assert (trace.tool_calls, trace.partial, trace.output) == ((), True, None)
