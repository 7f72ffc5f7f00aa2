"""OpenInference: shapes that its libraries put into `input.value`, `output.value` and indexed attributes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.conventions.decoding import unflatten
from otel_agenteval.conventions.spans import STATUS_ERROR, EventRecord, SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import Trace
from tests.support.spans import failed


def span(span_id: str, kind: str, parent: str | None = None, at: int = 0, **attributes: Any) -> SpanRecord:
    given = {key.replace("__", "."): value for key, value in attributes.items()}
    return SpanRecord(
        span_id=span_id, parent_id=parent, name="bot.run", started_at=at, ended_at=at + 5,
        attributes={"openinference.span.kind": kind, **given},
    )  # fmt: skip


def read(*spans: SpanRecord) -> Trace:
    return read_trace("t", spans)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("Hi", "Hi", id="plain text"),
        pytest.param('"Hi"', "Hi", id="a JSON string"),
        pytest.param('{"task": "Hi", "stream": false}', "Hi", id="the task of an agent"),
        pytest.param('{"messages": [{"role": "user", "content": "Hi"}]}', "Hi", id="messages of a chat API"),
        pytest.param('{"messages": [{"type": "human", "data": {"content": "Hi"}}]}', "Hi", id="LangChain's messages"),
        pytest.param('{"input": [{"role": "user", "content": "Hi"}]}', "Hi", id="messages as input"),
        pytest.param("[draft] Hi", "[draft] Hi", id="text that begins like JSON"),
        pytest.param('{"memory_step": "ActionStep(...)"}', None, id="a framework's state is not what the user said"),
        pytest.param('{"messages": ["Message(role=...)"]}', None, id="a Python object is not what the user said"),
        pytest.param('{"messages": [{"role": "user", "con', None, id="cut JSON"),
        pytest.param("__REDACTED__", None, id="redacted"),
        pytest.param(7, None, id="not text"),
    ],
)
def test_what_an_agent_was_asked(value: Any, expected: str | None) -> None:
    assert read(span("a", "AGENT", input__value=value)).input == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("Hello", "Hello", id="plain text"),
        pytest.param('{"output": "Hello"}', "Hello", id="a named answer"),
        pytest.param('{"messages": [{"type": "ai", "data": {"content": "Hello"}}]}', "Hello", id="the last message"),
        pytest.param(
            '{"messages": [{"type": "tool", "data": {"content": "x"}}]}', None, id="a tool result is no answer"
        ),
        pytest.param('{"city": "Rome"}', None, id="some other object"),
    ],
)
def test_what_an_agent_answered(value: str, expected: str | None) -> None:
    assert read(span("a", "AGENT", output__value=value)).output == expected


def test_a_chain_is_a_turn_only_where_it_carries_an_exchange() -> None:
    llm = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "inner",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "deep",
    }
    plain = read(span("c", "CHAIN", input__value='{"state": 1}'), span("m", "LLM", "c", at=1, **llm))
    exchange = read(span("c", "CHAIN", input__value="Hi", output__value="Hello"), span("m", "LLM", "c", at=1, **llm))
    assert [(trace.input, trace.output) for trace in (plain, exchange)] == [("inner", "deep"), ("Hi", "Hello")]


def test_a_langchain_tool_result_is_unwrapped_and_names_its_call() -> None:
    wrapped = {"type": "tool", "data": {"content": "Error: no such city", "type": "tool", "tool_call_id": "c1"}}
    [call] = read(span("t", "TOOL", tool__name="f", output__value=json.dumps(wrapped))).tool_calls
    assert (call.name, call.result, call.call_id, call.error) == (
        "f",
        "Error: no such city",
        "c1",
        "Error: no such city",
    )


@pytest.mark.parametrize(
    ("status", "error"),
    [pytest.param("error", "Seat 1 is gone.", id="an error"), pytest.param("success", None, id="none")],
)
def test_a_langchain_tool_result_says_whether_it_is_an_error(status: str, error: str | None) -> None:
    fields = {"content": "Seat 1 is gone.", "type": "tool", "tool_call_id": "c1", "status": status}
    wrapped = {"lc": 1, "type": "constructor", "id": ["langchain", "ToolMessage"], "kwargs": fields}
    [call] = read(span("t", "TOOL", tool__name="f", output__value=json.dumps(wrapped))).tool_calls
    assert (call.result, call.error) == ("Seat 1 is gone.", error)


def test_a_request_may_stand_in_the_fields_of_a_function_call() -> None:
    reply = "llm.output_messages.0.message"
    fields = {"role": "assistant", "function_call_name": "f", "function_call_arguments_json": '{"x": 1}'}
    recorded: dict[str, Any] = {f"{reply}.{name}": value for name, value in fields.items()}
    [call] = read(span("m", "LLM", **recorded)).tool_calls
    assert (call.name, call.arguments) == ("f", {"x": 1})


def test_a_model_span_without_indexed_messages_is_read_from_its_values() -> None:
    raw = {"choices": [{"message": {"role": "assistant", "content": "Hello", "reasoning_content": "Hm."}}]}
    trace = read(span("m", "LLM", input__value="Hi", output__value=json.dumps(raw)))
    assert (trace.input, trace.output, trace.turns[0].reasoning) == ("Hi", "Hello", ("Hm.",))


def test_llama_index_names_its_agent_where_it_sets_it_up() -> None:
    said = "AgentSetup(input=[TextBlock(text=\"current_agent_name='liar')\")], current_agent_name='weather')"
    setup = span("s", "CHAIN", "r", 1, output__value=said)
    setup.name = "BaseWorkflowAgent.setup_agent"
    model = span("m", "LLM", "r", 2, **{"llm.input_messages.0.message.role": "user"})
    assert read(span("r", "CHAIN"), setup, model).agents == ("weather",)


def test_reasoning_beside_the_answer_is_not_part_of_it() -> None:
    prefix = "llm.output_messages.0.message"
    parts: dict[str, Any] = {
        f"{prefix}.contents.{n}.message_content.text": text for n, text in enumerate(("Hello", "Hm."))
    }
    raw = json.dumps({"role": "assistant", "content": "Hello"})
    trace = read(span("m", "LLM", output__value=raw, **dict[str, Any]({f"{prefix}.role": "assistant"}), **parts))
    assert (trace.output, trace.turns[0].reasoning) == ("Hello", ("Hm.",))


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        pytest.param([{"type": "tool_result", "tool_use_id": "c1", "is_error": True}], "no", id="an error"),
        pytest.param([{"type": "tool_result", "tool_use_id": "c1", "is_error": False}], None, id="no error"),
        pytest.param([{"type": "tool_result", "tool_use_id": "c2", "is_error": True}], None, id="of another call"),
        pytest.param('{"is_error": true}', None, id="words of somebody's"),
    ],
)
def test_a_result_is_an_error_where_anthropic_s_api_was_told_so(raw: Any, error: str | None) -> None:
    asked = {"role": "user", "content": "Hi"}
    calling = {"role": "assistant", "tool_calls": [{"tool_call": {"id": "c1", "function": {"name": "f"}}}]}
    told = {"role": "tool", "tool_call_id": "c1", "content": "no"}
    request = json.dumps({"messages": [{"role": "user", "content": raw}]})
    trace = read(
        span("a", "AGENT"),
        span("m", "LLM", "a", 1, **flatten([{"message": calling}], "llm.output_messages")),
        span("n", "LLM", "a", 9, input__value=request, **flatten(
            [{"message": each} for each in (asked, calling, told)], "llm.input_messages"
        )),
    )  # fmt: skip
    [call] = trace.tool_calls
    assert (call.name, call.result, call.error) == ("f", "no", error)


@pytest.mark.parametrize(
    ("name", "attributes", "expected"),
    [
        pytest.param("book.__call__", {}, ["book"], id="the tool before the method that ran it"),
        pytest.param("f.__call__", {"tool.name": "book"}, ["book"], id="a name of its own stands above the span's"),
        pytest.param("finish.__call__", {"output.value": '"Completed."'}, [], id="the end of DSPy's loop is no call"),
        pytest.param("finish.__call__", {"output.value": '"ok"'}, ["finish"], id="a tool of the user's of that name"),
        pytest.param("finish", {"output.value": "Completed."}, ["finish"], id="a tool that no method names"),
    ],
)
def test_a_tool_named_by_its_span(name: str, attributes: dict[str, Any], expected: list[str]) -> None:
    record = span("t", "TOOL", "a", at=1, **attributes)
    record.name = name
    trace = read(span("a", "AGENT", input__value="Hi", output__value="Hello"), record)
    assert [call.name for call in trace.turns[0].tool_calls] == expected
    assert [tool.name for tool in trace.available_tools] == expected


def test_a_history_whose_end_was_dropped_says_nothing_of_the_last_message() -> None:
    first: dict[str, Any] = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "Hi"}
    record = span("m", "LLM", **first)
    assert read(record).input == "Hi"
    record.dropped_attributes_count = 9
    trace = read(record)
    assert (trace.input, trace.partial) == (None, True)


SENT = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "Hi"}


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        pytest.param('{"text": "Hello"}', "Hello", id="the only text of a structure"),
        pytest.param('{"city": "Rome", "days": 3}', '{"city": "Rome", "days": 3}', id="a structure"),
        pytest.param('{"days": 3}', '{"days": 3}', id="a structure without a text"),
        pytest.param("Hello", "Hello", id="text"),
        pytest.param("__REDACTED__", None, id="redacted"),
    ],
)
def test_a_step_that_says_what_a_model_was_sent_is_the_model_call(value: str, answer: str | None) -> None:
    step = span("s", "CHAIN", "app", at=1, llm__model_name="gpt", output__value=value, **SENT)
    [turn] = read(SpanRecord(span_id="app", ended_at=9), step).turns
    assert (turn.input, turn.output) == ("Hi", answer)
    assert [(call.span_id, call.model) for call in turn.model_calls] == [("s", "gpt")]


def test_an_error_of_such_a_step_fails_the_turn() -> None:
    step = failed(span("s", "CHAIN", "app", at=1, **SENT), "overloaded")
    [turn] = read(SpanRecord(span_id="app", ended_at=9), step).turns
    assert (turn.input, turn.output, turn.error) == ("Hi", None, "overloaded")


def test_a_step_around_model_calls_is_none_itself() -> None:
    step = span("s", "CHAIN", at=1, output__value='{"text": "Hello"}', **SENT)
    inner = [span(name, "LLM", "s", at=at, **SENT) for at, name in ((2, "m1"), (8, "m2"))]
    [turn] = read(step, *inner).turns
    assert [call.span_id for call in turn.model_calls] == ["m1", "m2"]
    assert turn.output == "Hello"


LISTS = st.lists(st.dictionaries(st.sampled_from("abc"), st.integers() | st.lists(st.text(), min_size=1), min_size=1))


def flatten(value: Any, name: str) -> dict[str, Any]:
    """The inverse of what is tested."""
    if isinstance(value, list):
        return {key: leaf for index, item in enumerate(value) for key, leaf in flatten(item, f"{name}.{index}").items()}
    if isinstance(value, dict):
        return {key: leaf for field, item in value.items() for key, leaf in flatten(item, f"{name}.{field}").items()}
    return {name: value}


@given(value=LISTS, seed=st.randoms())
def test_what_was_flattened_is_found_again_in_any_order(value: list[Any], seed: Any) -> None:
    flat = list(flatten(value, "list").items())
    seed.shuffle(flat)
    assert unflatten({"other.0.a": 1, **dict(flat)}, "list") == value


def test_indexes_are_numbers_and_contradictions_are_left_out() -> None:
    odd = {"l.10.a": "ten", "l.9.a": "nine", "l.9.a.b": "contradicts", "l.x": "no index", "l": "no list"}
    assert unflatten(odd, "l") == [{"a": "nine"}, {"a": "ten"}]


HAYSTACK = (
    "ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[TextContent(text='Weather in Rome?')], _name=None, _meta={})",
    "ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, _content=[ToolCall(tool_name='get_weather', "
    "arguments={'city': 'Rome'}, id='c-1', extra=None)], _name=None, _meta={'index': 0})",
    "ChatMessage(_role=<ChatRole.TOOL: 'tool'>, _content=[ToolCallResult(result='it\\'s sunny', origin=ToolCall("
    "tool_name='get_weather', arguments={'city': 'Rome'}, id='c-1', extra=None), error=False)], _name=None, _meta={})",
    "ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, _content=[TextContent(text='Sunny.')], _name=None, _meta={})",
)


def recorded(
    span_id: str, parent: str | None, name: str, at: int, attributes: dict[str, Any], scope: str = ""
) -> SpanRecord:
    until = at + 1 if parent else 9
    return SpanRecord(
        span_id=span_id, parent_id=parent, name=name, started_at=at, ended_at=until, attributes=attributes, scope=scope
    )


def test_haystacks_messages_are_read_as_python_wrote_them() -> None:
    kind = {"openinference.span.kind": "LLM", "llm.input_messages.0.message.role": "user"}
    first = {
        **kind,
        "input.value": json.dumps({"messages": HAYSTACK[:1]}),
        "output.value": json.dumps({"replies": HAYSTACK[1:2]}),
    }
    second = {
        **kind,
        "input.value": json.dumps({"messages": HAYSTACK[:3]}),
        "output.value": json.dumps({"replies": HAYSTACK[3:]}),
    }
    for each in (first, second):
        each["llm.output_messages.0.message.role"] = "assistant"
    run = {"openinference.span.kind": "CHAIN", "input.value": json.dumps({"messages": HAYSTACK[:1]}),
           "output.value": json.dumps({"messages": HAYSTACK})}  # fmt: skip
    [found] = read(
        recorded("a", None, "Agent.run", 1, run),
        recorded("m", "a", "OpenAIChatGenerator.run", 2, first),
        recorded("n", "a", "OpenAIChatGenerator.run", 5, second),
    ).turns
    assert (found.input, found.output) == ("Weather in Rome?", "Sunny.")
    [call] = found.tool_calls
    assert (call.name, call.arguments, call.call_id, call.result) == (
        "get_weather",
        {"city": "Rome"},
        "c-1",
        "it's sunny",
    )


def test_what_happens_to_a_run_of_beeai_is_no_run() -> None:
    kind, scope = "openinference.span.kind", "openinference.instrumentation.beeai"
    called = {kind: "TOOL", "tool.name": "book", "input.value": '{"input": {"a": 1}, "options": null}'}
    event = {kind: "TOOL", "metadata.path": "tool.custom.book.error", "input.value": '{"error": "down"}'}
    [found] = read(
        recorded("r", None, "agent", 1, {kind: "AGENT", "input.value": "Hi"}, scope),
        recorded("t", "r", "book", 2, called, scope),
        recorded("e", "t", "error", 3, event, scope),
    ).turns
    assert [(call.name, call.arguments) for call in found.tool_calls] == [("book", {"a": 1})]


_ASKED_ADK = json.dumps({"user_id": "u", "new_message": {"parts": [{"text": "Rome?"}], "role": "user"}})


def test_google_adk_s_events_have_the_question_and_the_answer() -> None:
    event = {"content": {"parts": [{"text": "Sunny."}], "role": "model"}, "author": "bot", "actions": {}}
    recorded = {"openinference.span.kind": "CHAIN", "input.value": _ASKED_ADK, "output.value": json.dumps(event)}
    trace = read_trace("t", [SpanRecord(span_id="a", name="invocation [app]", attributes=recorded)])
    assert (trace.input, trace.output) == ("Rome?", "Sunny.")


def test_a_root_that_failed_has_its_question() -> None:
    root = SpanRecord(
        span_id="a",
        name="invocation [app]",
        status=STATUS_ERROR,
        ended_at=9,
        attributes={"openinference.span.kind": "CHAIN", "input.value": _ASKED_ADK},
    )
    call = SpanRecord(
        span_id="b",
        parent_id="a",
        status=STATUS_ERROR,
        started_at=1,
        attributes={"openinference.span.kind": "LLM", "llm.model_name": "gemini"},
    )
    trace = read_trace("t", [root, call])
    assert (trace.input, trace.output) == ("Rome?", None)


@pytest.mark.parametrize("body", ["{'error': {'message': 'refused'}}", '{"error": {"message": "refused"}}'])
def test_the_words_of_the_server_s_refusal_are_no_answer(body: str) -> None:
    exception = EventRecord(name="exception", attributes={"exception.message": f"Error code: 400 - {body}"})
    spans = [
        SpanRecord(
            span_id="a",
            ended_at=9,
            attributes={"openinference.span.kind": "AGENT", "input.value": "Hi", "output.value": "refused"},
        ),
        SpanRecord(
            span_id="b",
            parent_id="a",
            started_at=1,
            status=STATUS_ERROR,
            events=(exception,),
            attributes={"openinference.span.kind": "LLM"},
        ),
    ]
    assert read_trace("t", spans).output is None


def test_results_in_messages_of_the_user_are_results_and_instructions_stand_beside_messages() -> None:
    asked = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Hi",
        "llm.input_messages.1.message.role": "assistant",
        "llm.input_messages.1.message.tool_calls.0.tool_call.id": "c1",
        "llm.input_messages.1.message.tool_calls.0.tool_call.function.name": "get_weather",
        "llm.input_messages.1.message.tool_calls.0.tool_call.function.arguments": "{}",
        "llm.input_messages.2.message.role": "user",
        "llm.input_messages.2.message.tool_call_id": "c1",
        "llm.input_messages.2.message.content": "sunny",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "It is sunny.",
        "llm.invocation_parameters": '{"model": "m", "system": "Be brief."}',
    }
    kind = {"openinference.span.kind": "LLM", "llm.model_name": "m"}
    before = {key: value for key, value in asked.items() if "input_messages.0" in key or key.endswith("parameters")}
    request = {
        key.replace("input_messages.1", "output_messages.0"): value for key, value in asked.items() if ".1." in key
    }
    trace = read(
        SpanRecord(span_id="m", name="Anthropic Messages", ended_at=1, attributes={**kind, **before, **request}),
        SpanRecord(span_id="n", name="Anthropic Messages", started_at=2, ended_at=3, attributes={**kind, **asked}),
    )
    assert (trace.turns[0].input, trace.system_instructions) == ("Hi", "Be brief.")
    assert [(call.name, call.result) for call in trace.turns[0].tool_calls] == [("get_weather", "sunny")]


def test_a_session_in_metadata_is_read_in_the_spelling_of_javascript() -> None:
    metadata = '{"sessionId": "s-7", "userId": "u-1"}'
    trace = read(
        SpanRecord(span_id="a", name="a", attributes={"openinference.span.kind": "AGENT", "metadata": metadata})
    )
    assert (trace.session_id, trace.user_id) == ("s-7", "u-1")
