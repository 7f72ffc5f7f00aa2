"""OpenLLMetry: functions and frameworks in `traceloop.entity`, messages in indexed attributes."""

import json
from typing import Any

import pytest

from otel_agenteval.conventions.messages import ChatMessage, ToolRequest, ToolResponse, read_message
from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import Tool, Trace, Usage

KIND, NAME = "traceloop.span.kind", "traceloop.entity.name"
INPUT, OUTPUT = "traceloop.entity.input", "traceloop.entity.output"
CONTENT = "You are a bot."


def entity(span_id: str, kind: Any, parent: Any = None, at: Any = 0, **attributes: Any) -> SpanRecord:
    given = {key.replace("__", "."): value for key, value in attributes.items()}
    return SpanRecord(
        span_id=span_id, parent_id=parent, name=f"{span_id}.{kind}", started_at=at, ended_at=at + 9,
        attributes={KIND: kind, NAME: span_id, **given},
    )  # fmt: skip


def completion(span_id: str, parent: Any = None, at: Any = 0, **attributes: Any) -> SpanRecord:
    """A model call as versions up to 0.4x record it, with `p_1_role` for `gen_ai.prompt.1.role`."""
    short = {"p": "gen_ai.prompt", "c": "gen_ai.completion", "f": "llm.request.functions", "u": "gen_ai.usage"}
    given = {}
    for key, value in attributes.items():
        prefix, rest = key.split("_", 1)
        parts = rest if prefix == "u" else rest.replace("__", ".").replace("_", ".", 1)
        given[f"{short[prefix]}.{parts}"] = value
    return SpanRecord(
        span_id=span_id, parent_id=parent, name="openai.chat", started_at=at, ended_at=at + 5,
        attributes={"llm.request.type": "chat", "gen_ai.response.model": "gpt", **given},
    )  # fmt: skip


def call(*args: Any, **kwargs: Any) -> str:
    return json.dumps({"args": args, "kwargs": kwargs})


def read(*spans: SpanRecord) -> Trace:
    return read_trace("t", spans)


ASKED = {"p_0_role": "system", "p_0_content": CONTENT, "p_1_role": "user", "p_1_content": "Hi"}
ANSWERED = {"c_0_role": "assistant", "c_0_content": "Hello", "c_0_finish_reason": "stop"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(call("Hi"), "Hi", id="the only argument"),
        pytest.param(call(question="Hi", verbose=True), "Hi", id="the only text among arguments"),
        pytest.param(call("TravelBot", message="Hi"), "Hi", id="an argument named as the user's words"),
        pytest.param(call([{"role": "user", "content": "Hi"}]), "Hi", id="messages"),
        pytest.param(call("Hi", [{"role": "user", "content": "Before"}]), "Hi", id="a text beside its history"),
        pytest.param(call("s-1", "Hi"), None, id="of two texts nobody knows which is the user's"),
        pytest.param(call(), None, id="no arguments"),
        pytest.param(call(7), None, id="no text"),
        pytest.param(
            json.dumps({"inputs": {"messages": [{"role": "user", "content": "Hi"}]}, "tags": [], "metadata": {}}),
            "Hi",
            id="what LangChain's callback was given",
        ),
        pytest.param(json.dumps({"inputs": {"input": "Hi"}, "kwargs": {}}), "Hi", id="a chain's input"),
        pytest.param('{"args": ["Hi', None, id="cut"),
        pytest.param("{'args': ['Hi']}", None, id="an object's repr"),
    ],
)
def test_what_a_workflow_was_asked(value: str, expected: str | None) -> None:
    assert read(entity("w", "workflow", **{INPUT: value})).input == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param('"Hello"', "Hello", id="a text, as JSON"),
        pytest.param("Hello", "Hello", id="a text"),
        pytest.param('{"answer": "Hello"}', "Hello", id="a named answer"),
        pytest.param(
            json.dumps(
                {"outputs": {"messages": [{"lc": 1, "kwargs": {"type": "ai", "content": "Hello"}}]}, "tags": []}
            ),
            "Hello",
            id="what LangChain's callback gave back",
        ),
        pytest.param('{"booking": 7}', None, id="some other object"),
        pytest.param('["a", "b"]', None, id="several texts are no answer"),
    ],
)
def test_what_a_workflow_answered(value: str, expected: str | None) -> None:
    assert read(entity("w", "workflow", **{OUTPUT: value})).output == expected


def test_an_indexed_model_call_is_read_whole() -> None:
    functions = {"f_0_name": "f", "f_0_description": "Does.", "f_0_parameters": '{"type": "object"}'}
    trace = read(completion("m", **ASKED, **ANSWERED, **functions, u_prompt_tokens=4, u_completion_tokens=2))
    [turn] = trace.turns
    [model] = turn.model_calls
    assert (turn.input, turn.output, trace.system_instructions) == ("Hi", "Hello", CONTENT)
    assert (model.model, model.usage) == ("gpt", Usage(input_tokens=4, output_tokens=2))
    assert trace.available_tools == (Tool(name="f", description="Does.", parameters={"type": "object"}),)
    assert trace.dialects == ("traceloop",)


def test_tool_calls_come_from_completions_and_results_from_the_next_prompt() -> None:
    request = {"c_0_role": "assistant", "c_0_finish_reason": "tool_calls"}
    for part, value in (("id", "c1"), ("name", "f"), ("arguments", '{"a": 1}')):
        request[f"c_0_tool_calls__0__{part}"] = value
    history = {"p_2_role": "assistant", "p_2_tool_calls__0__id": "c1", "p_2_tool_calls__0__name": "f"}
    told = {"p_3_role": "tool", "p_3_tool_call_id": "c1", "p_3_content": "Error: no"}
    trace = read(
        completion("m1", **ASKED, **request),
        completion("m2", at=9, **ASKED, **history, **told, **ANSWERED),
    )
    [used] = trace.tool_calls
    assert (used.name, used.arguments, used.result, used.error) == ("f", {"a": 1}, "Error: no", "Error: no")
    assert (trace.input, trace.output) == ("Hi", "Hello")


def test_content_of_several_parts_is_told_apart_from_json_that_somebody_said() -> None:
    parts = json.dumps([{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": "x"}}])
    assert read(completion("m", p_0_role="user", p_0_content=parts, **ANSWERED)).input == "Hi"
    assert read(completion("m", p_0_role="user", p_0_content='[{"a": 1}]', **ANSWERED)).input == '[{"a": 1}]'


def test_a_plain_completion_has_no_roles() -> None:
    record = completion("m", p_0_user="Hi", c_0_content="Hello")
    assert [(turn.input, turn.output) for turn in read(record).turns] == [("Hi", "Hello")]


def test_embeddings_and_reranking_are_no_model_calls() -> None:
    record = completion("m", p_0_content="some text to embed")
    for kind in ("embedding", "rerank", "unknown", 7):
        record.attributes = {**record.attributes, "llm.request.type": kind}
        assert read(record).turns == ()


def test_a_history_whose_end_was_dropped_says_nothing_of_the_last_message() -> None:
    record = completion("m", **ASKED)
    assert read(record).input == "Hi"
    record.dropped_attributes_count = 3
    trace = read(record)
    assert (trace.input, trace.partial) == (None, True)


def test_a_tool_is_called_by_name_with_its_wrappers_taken_off() -> None:
    trace = read(
        entity("bot", "agent"),
        entity("f", "tool", "bot", at=1, **{INPUT: call(a=1), OUTPUT: json.dumps(json.dumps({"b": 2}))}),
        entity(
            "g", "tool", "bot", at=5, gen_ai__operation__name="execute_tool", gen_ai__tool__name="g",
            gen_ai__tool__call__arguments=json.dumps({"input_str": "{'a': 1}", "tags": [], "inputs": {"a": 1}}),
            gen_ai__tool__call__result=json.dumps(
                {"output": {"lc": 1, "kwargs": {"type": "tool", "content": "done", "tool_call_id": "c1"}}, "kwargs": {}}
            ),
        ),
    )  # fmt: skip
    f, g = trace.tool_calls
    assert (f.name, f.arguments, f.result) == ("f", {"a": 1}, '{"b": 2}')
    assert (g.name, g.arguments, g.result, g.call_id) == ("g", {"a": 1}, "done", "c1")


def test_arguments_by_position_take_their_names_from_the_request() -> None:
    request = {"c_0_role": "assistant", "c_0_tool_calls__0__name": "f", "c_0_tool_calls__0__arguments": '{"a": 1}'}
    trace = read(
        entity("bot", "agent"),
        completion("m", "bot", at=1, **ASKED, **request),
        entity("f", "tool", "bot", at=7, **{INPUT: call(1), OUTPUT: '"one"'}),
    )
    [used] = trace.tool_calls
    assert (used.arguments, used.result, used.span_id) == ({"a": 1}, "one", "f")


def test_tasks_are_neither_turns_nor_tools() -> None:
    task = entity("load", "task", **{INPUT: call("config.yaml"), OUTPUT: '"loaded"'})
    assert read(task).turns == ()
    assert [(turn.input, turn.output) for turn in read(task, completion("m", "load", **ASKED, **ANSWERED)).turns] == [
        ("Hi", "Hello")
    ]


def test_the_operation_outranks_the_kind() -> None:
    created = entity("bot", "agent", gen_ai__operation__name="create_agent", gen_ai__agent__name="bot")
    assert (read(created).turns, read(created).agents) == ((), ("bot",))


@pytest.mark.parametrize("value", [7, True, ["a"], None, "", "\x00"])
def test_odd_values_are_left_unread(value: Any) -> None:
    odd = dict.fromkeys((INPUT, OUTPUT, KIND, NAME, "gen_ai.prompt.0.role", "gen_ai.completion.0.content"), value)
    for kind in ("workflow", "agent", "tool", value):
        record = SpanRecord(span_id="a", attributes={**odd, KIND: kind})
        assert read(record).span_count == 1


HAYSTACK_CALL = {"tool_name": "f", "arguments": {"x": 1}, "id": "c1"}
HAYSTACK = [
    {"_role": "user", "_content": [{"text": "Hi"}], "_name": None, "_meta": {}},
    {"_role": "assistant", "_content": [HAYSTACK_CALL]},
    {"_role": "tool", "_content": [{"result": "no", "origin": HAYSTACK_CALL, "error": True}]},
    {"_role": "assistant", "_content": [{"text": "Hello"}]},
]


def haystack(*replies: str) -> SpanRecord:
    given = {f"c_{index}_content": reply for index, reply in enumerate(replies)}
    record = completion("m", "w", at=1, c_0_role="assistant", **given)
    record.name = "haystack.openai.chat"
    return record


def test_a_pipeline_says_what_was_asked_and_answered_under_its_components_name() -> None:
    given, returned = call(bot={"messages": HAYSTACK[:1]}), json.dumps({"bot": {"messages": HAYSTACK}})
    workflow = entity("w", "workflow", **{INPUT: given, OUTPUT: returned})
    trace = read(workflow, haystack("replies"))
    assert (trace.input, trace.output, trace.unread) == ("Hi", "Hello", {})


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        pytest.param(["replies"], None, id="the field of a chat's result"),
        pytest.param(["replies", "meta"], None, id="the fields of a completion's result"),
        pytest.param(["Hello"], "Hello", id="a reply"),
    ],
)
def test_the_name_of_a_field_is_no_answer(replies: list[str], expected: str | None) -> None:
    assert read(entity("w", "workflow"), haystack(*replies)).output == expected


def test_the_word_is_an_answer_where_no_field_is_named_so() -> None:
    assert read(completion("m", c_0_role="assistant", c_0_content="replies")).output == "replies"


def test_haystacks_parts_ask_for_tools_and_tell_their_results() -> None:
    asking, telling = (read_message(message) or ChatMessage(role="") for message in HAYSTACK[1:3])  # type: ignore[arg-type]
    assert asking.requests == [ToolRequest(name="f", arguments={"x": 1}, call_id="c1")]
    assert telling.responses == [ToolResponse(result="no", call_id="c1", failed=True)]


def test_a_tool_of_langchain_for_javascript_has_the_name_in_its_result() -> None:
    fields = {"status": "success", "content": "sunny", "tool_call_id": "c1", "name": "get_weather"}
    message = {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "ToolMessage"], "kwargs": fields}
    tool = entity(
        "DynamicStructuredTool",
        "task",
        "a",
        1,
        gen_ai__operation__name="execute_tool",
        traceloop__entity__input=json.dumps({"args": ['{"city": "Lisbon"}']}),
        traceloop__entity__output=json.dumps(message),
    )
    trace = read(entity("a", "agent"), tool)
    assert [(c.name, c.arguments, c.result) for turn in trace.turns for c in turn.tool_calls] == [
        ("get_weather", {"city": "Lisbon"}, "sunny")
    ]
