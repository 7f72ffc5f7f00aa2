"""The readers tell how turns, model calls and tools ended."""

import json
from typing import Any

import pytest

from otel_agenteval.conventions.spans import EventRecord, LogRecord, SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import ModelCall, ToolCall, Turn, Usage
from tests.support.spans import agent, answer, asks, chat, failed, span, told, tool, user


def only_turn(*spans: SpanRecord) -> Turn:
    (turn,) = read_trace("t", spans).turns
    return turn


def said(text: str | None) -> dict[str, Any]:
    return {"attributes": {"gen_ai.output.messages": json.dumps([answer(text)])}} if text is not None else {}


def raised(record: SpanRecord, kind: str) -> SpanRecord:
    record.status = 2
    record.events += (EventRecord(name="exception", attributes={"exception.type": kind}),)
    return record


def replied(message: dict[str, Any]) -> list[SpanRecord]:
    """An agent whose model replied with `message`."""
    return [agent("a", "bot"), chat("c", [], [message], "a")]


REPLY = chat("c", [user("q")], [answer("Sunny.")], "a")


def test_the_exception_of_a_failed_call_may_stand_in_a_log_record() -> None:
    told = LogRecord(
        span_id="c",
        event_name="gen_ai.client.operation.exception",
        attributes={"exception.type": "InternalServerError", "exception.message": "overloaded"},
    )
    for status, expected in ((2, "overloaded"), (0, None)):
        trace = read_trace("t", [chat("c", [user("q")], [], status=status)], [told])
        assert [call.error for call in trace.model_calls] == [expected]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        pytest.param([agent("a", "bot"), REPLY], None, id="it did not"),
        pytest.param([failed(agent("a", "bot"), "boom"), REPLY], "boom", id="its run, though something was answered"),
        pytest.param(
            [failed(span("r"), "503"), agent("a", "bot", "r"), REPLY], "503", id="the request around it, all the same"
        ),
        pytest.param(
            [agent("a", "bot"), failed(chat("b", [user("q")], [], "a"), "busy"), REPLY],
            None,
            id="an attempt did, and the next one answered",
        ),
        pytest.param(
            [agent("a", "bot"), failed(chat("c0", [user("q")], [], "a"), "busy")],
            "busy",
            id="its last model call, so that there is no answer",
        ),
        pytest.param(
            [agent("a", "bot"), failed(agent("b", "helper", "a"), "lost"), chat("c", [], [answer("Done.")], "a", 20)],
            None,
            id="an agent within it, and it went on",
        ),
        pytest.param(
            [span("w", "invoke_workflow"), failed(agent("b", "bot", "w"), "lost"), chat("c", [], [answer("x")], "b")],
            "lost",
            id="the agent that a workflow is made of",
        ),
        pytest.param([raised(agent("a", "bot"), "asyncio.CancelledError"), REPLY], None, id="it was cancelled"),
        pytest.param([raised(agent("a", "bot"), "CancelledError")], None, id="it was cancelled before an answer"),
        pytest.param(
            [raised(agent("a", "bot"), "System.OperationCanceledException")], None, id="it was cancelled in .NET"
        ),
        pytest.param(
            [raised(agent("a", "bot"), "java.util.concurrent.CancellationException")],
            None,
            id="it was cancelled in Java",
        ),
        pytest.param(
            [raised(agent("a", "bot"), "System.Threading.Tasks.TaskCanceledException")],
            "System.Threading.Tasks.TaskCanceledException",
            id="it was cancelled or took too long in .NET",
        ),
        pytest.param(
            [raised(span("r"), "TimeoutError"), raised(agent("a", "bot", "r"), "CancelledError"), REPLY],
            "TimeoutError",
            id="it was cancelled for taking too long",
        ),
        pytest.param([failed(chat("c", [user("q")], []), "busy")], "busy", id="the only call of all"),
    ],
)
def test_a_turn_failed_where_what_ended_with_it_did(spans: list[SpanRecord], expected: str | None) -> None:
    turn = only_turn(*spans)
    assert (None if turn.is_cancelled else turn.error) == expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param([REPLY], (None, True), id="after an answer"),
        pytest.param([], ("CancelledError", True), id="before one"),
    ],
)
def test_a_turn_that_was_cancelled_says_so(reply: list[SpanRecord], expected: tuple[str | None, bool]) -> None:
    turn = only_turn(raised(agent("a", "bot"), "CancelledError"), *reply)
    assert (turn.error, turn.is_cancelled) == expected


def test_what_stands_around_several_turns_failed_with_the_last_of_them() -> None:
    turns = read_trace(
        "t", [failed(span("r", until=100), "boom"), agent("a", "bot", "r", 0), agent("b", "bot", "r", 20)]
    ).turns
    assert [turn.error for turn in turns] == [None, "boom"]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        pytest.param([agent("a", "bot", **said(""))], "", id="empty, by the run"),
        pytest.param([agent("a", "bot", **said("  "))], "", id="blank, by the run"),
        pytest.param([agent("a", "bot")], None, id="not recorded"),
        pytest.param([agent("a", "bot", **said("__REDACTED__"))], None, id="redacted"),
        pytest.param([agent("a", "bot", **said("")), REPLY], "Sunny.", id="empty by the run, which the model answered"),
        pytest.param(replied({"role": "assistant", "parts": []}), "", id="of no parts"),
        pytest.param(replied({"role": "assistant"}), None, id="of which nothing is told"),
        pytest.param(replied({"role": "assistant", "content": None}), None, id="null content"),
        pytest.param(replied({"role": "assistant", "content": ""}), "", id="no content"),
        pytest.param(
            replied({"role": "assistant", "parts": [{"type": "text"}]}),
            None,
            id="a text without its content",
        ),
        pytest.param([failed(agent("a", "bot", **said("")), "boom")], None, id="empty, since it failed"),
        pytest.param([agent("a", "bot", **said("")), chat("c", [], [asks("book", {})], "a")], None, id="a call"),
    ],
)
def test_an_answer_that_was_recorded_empty_is_not_one_that_was_not_recorded(
    spans: list[SpanRecord], expected: str | None
) -> None:
    assert only_turn(*spans).output == expected


OTHER_DIALECTS = [
    pytest.param({"openinference.span.kind": "AGENT", "input.value": "q", "output.value": ""}, id="OpenInference"),
    pytest.param(
        {"traceloop.span.kind": "workflow", "traceloop.entity.input": '"q"', "traceloop.entity.output": '""'},
        id="Traceloop",
    ),
    pytest.param(
        {
            "langfuse.observation.type": "agent",
            "langfuse.observation.input": "q",
            "langfuse.observation.output": '""',
        },
        id="Langfuse",
    ),
    pytest.param(
        {"mlflow.spanType": '"AGENT"', "mlflow.spanInputs": '{"q": "q"}', "mlflow.spanOutputs": '""'}, id="MLflow"
    ),
    pytest.param({"ai.operationId": "ai.generateText", "ai.response.text": ""}, id="Vercel"),
    pytest.param(
        {"gen_ai.operation.name": "invoke_agent", "pydantic_ai.all_messages": "[]", "final_result": ""},
        id="Pydantic AI",
    ),
]


@pytest.mark.parametrize("attributes", OTHER_DIALECTS)
def test_an_empty_answer_is_told_in_every_dialect(attributes: dict[str, Any]) -> None:
    assert only_turn(span("a", attributes=attributes)).output == ""


@pytest.mark.parametrize("attributes", OTHER_DIALECTS)
def test_no_answer_is_told_where_it_was_not_recorded(attributes: dict[str, Any]) -> None:
    without = {key: value for key, value in attributes.items() if value not in ("", '""')}
    assert only_turn(span("a", attributes=without)).output is None


@pytest.mark.parametrize(
    ("received", "expected"),
    [
        pytest.param([asks("book", {})], True, id="with a call"),
        pytest.param([answer("Sunny.")], False, id="with an answer"),
        pytest.param(
            [{"role": "assistant", "finish_reason": "tool_calls"}], True, id="with a call that is not recorded"
        ),
    ],
)
def test_a_turn_may_end_with_a_call(received: list[Any], expected: bool) -> None:
    assert only_turn(agent("a", "bot"), chat("c", [user("q")], received, "a")).ends_in_call is expected


def test_a_turn_may_end_with_a_hand_off() -> None:
    hands_over = span("h", "invoke_agent", "a", 30, attributes={"gen_ai.handoff.to_agent": "billing"})
    empty = chat("c", [user("q")], [{"role": "assistant", "parts": []}], "a", 5)
    turn = only_turn(agent("a", "front", until=50), empty, hands_over)
    assert (turn.output, turn.ends_in_call) == (None, True)


def only_call(record: SpanRecord, *logs: LogRecord) -> ModelCall:
    (call,) = read_trace("t", [record], logs).model_calls
    return call


def choice(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, **fields}]}


CUT = json.dumps(choice(finish_reason="length"))


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        pytest.param({"gen_ai.response.finish_reasons": ["length", "stop"]}, "length", id="the conventions, a list"),
        pytest.param({"gen_ai.response.finish_reasons": '["length"]'}, "length", id="the conventions, a list as text"),
        pytest.param({"gen_ai.response.finish_reasons": "length"}, "length", id="the conventions, one"),
        pytest.param({"gen_ai.response.finish_reasons": [""]}, None, id="the conventions, none"),
        pytest.param(
            {"gen_ai.output.messages": json.dumps([answer("Hi") | {"finish_reason": "length"}])},
            "length",
            id="the message",
        ),
        pytest.param(
            {"gen_ai.output.messages": json.dumps([answer('{"finish_reason": "length"}')])},
            None,
            id="words in a message",
        ),
        pytest.param({"openinference.span.kind": "LLM", "output.value": CUT}, "length", id="OpenInference"),
        pytest.param(
            {
                "openinference.span.kind": "LLM",
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": "Hi",
                "output.value": '{"generations": [[{"generation_info": {"finish_reason": "length"}}]]}',
            },
            "length",
            id="OpenInference, LangChain",
        ),
        pytest.param(
            {
                "openinference.span.kind": "LLM",
                "llm.token_count.prompt": 5,
                "output.value": '{"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}',
            },
            "max_output_tokens",
            id="OpenInference, Responses",
        ),
        pytest.param(
            {
                "openinference.span.kind": "LLM",
                "llm.token_count.prompt": 5,
                "output.value": '{"incomplete_details": null, "output": []}',
            },
            "completed",
            id="OpenInference, Responses, whole",
        ),
        pytest.param(
            {"langfuse.observation.type": "generation", "langfuse.observation.output": CUT}, "length", id="Langfuse"
        ),
        pytest.param({"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanOutputs": CUT}, "length", id="MLflow"),
        pytest.param(
            {
                "gcp.vertex.agent.invocation_id": "1",
                "gen_ai.request.model": "m",
                "gcp.vertex.agent.llm_response": '{"content": {"parts": []}, "finish_reason": "MAX_TOKENS"}',
            },
            "MAX_TOKENS",
            id="Google ADK",
        ),
        pytest.param(
            {"llm.request.type": "chat", "gen_ai.completion.0.finish_reason": "length"}, "length", id="Traceloop"
        ),
        pytest.param(
            {"ai.operationId": "ai.generateText.doGenerate", "ai.response.finishReason": "length"},
            "length",
            id="Vercel",
        ),
    ],
)
def test_why_a_model_stopped_is_read_in_every_dialect(attributes: dict[str, Any], expected: str | None) -> None:
    kind = "chat" if all(key.startswith("gen_ai.") and "completion" not in key for key in attributes) else None
    assert only_call(span("c", kind, attributes=attributes)).finish_reason == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        pytest.param(120, Usage(input_tokens=120), id="a whole number"),
        pytest.param(120.0, Usage(input_tokens=120), id="a double"),
        pytest.param("120", Usage(input_tokens=120), id="text"),
        pytest.param(0.5, None, id="a part of a token"),
        pytest.param(1e300, None, id="more tokens than there are"),
        pytest.param("9" * 5000, None, id="more tokens than there are, as text"),
        pytest.param("many", None, id="words"),
        pytest.param(True, None, id="no number"),
        pytest.param(-83, None, id="fewer tokens than none"),
    ],
)
def test_tokens_are_counted_whatever_type_of_number_they_have(count: Any, expected: Usage | None) -> None:
    assert only_call(span("c", "chat", attributes={"gen_ai.usage.input_tokens": count})).usage == expected


ANSWERED = {"gen_ai.request.model": "m", "gen_ai.output.messages": json.dumps([answer("Hi")])}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        pytest.param(ANSWERED, ["Hi"], id="a reply"),
        pytest.param(
            {"gen_ai.request.model": "m", "gen_ai.usage.output_tokens": 3}, [None], id="the tokens of a reply"
        ),
        pytest.param({"gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 3}, [], id="what an embedder counts"),
        pytest.param({"gen_ai.request.model": "m"}, [], id="nothing but the model"),
        pytest.param({"gen_ai.usage.output_tokens": 3}, [], id="no model"),
    ],
)
def test_an_operation_that_nobody_knows_is_a_model_call_if_it_has_what_a_model_gave(
    attributes: dict[str, Any], expected: list[str | None]
) -> None:
    trace = read_trace("t", [span("c", "responses", attributes=attributes)])
    assert [(call.model, call.output) for call in trace.model_calls] == [("m", text) for text in expected]


def test_an_operation_that_nobody_knows_is_no_model_call_around_one() -> None:
    inner = chat("c", [user("q")], [answer("Hi")], "r", at=1)
    trace = read_trace("t", [span("r", "responses", attributes=ANSWERED, until=30), inner])
    assert [call.span_id for call in trace.model_calls] == ["c"]


def test_why_a_model_stopped_may_stand_in_an_event() -> None:
    body: Any = {"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": "Hi"}}
    logged = LogRecord(span_id="c", time=1, event_name="gen_ai.choice", body=body)
    assert only_call(span("c", "chat"), logged).finish_reason == "length"
    recorded = EventRecord(name="gen_ai.choice", attributes={"finish_reason": "max_tokens", "message": "Hi"})
    assert only_call(span("c", "chat", events=(recorded,))).finish_reason == "max_tokens"


def test_a_reason_is_kept_short() -> None:
    assert (
        len(
            only_call(span("c", "chat", attributes={"gen_ai.response.finish_reasons": ["x" * 9999]})).finish_reason
            or ""
        )
        < 100
    )


BOOK: Any
FIND: Any
BOOK, FIND = ({"type": "function", "name": name, "parameters": {}} for name in ("book", "find"))


@pytest.mark.parametrize(
    ("definitions", "expected"),
    [
        pytest.param([BOOK, FIND], True, id="offered"),
        pytest.param([FIND], False, id="not offered"),
        pytest.param(None, None, id="not known: no definitions"),
        pytest.param([FIND, {"type": "web_search"}], None, id="not known: a provider's own tool among them"),
        pytest.param('[{"name": "find"}, {"name": "bo', None, id="not known: cut"),
    ],
)
def test_a_tool_is_offered_by_the_model_call_that_asks_for_it(definitions: Any, expected: bool | None) -> None:
    recorded = definitions if isinstance(definitions, str) else json.dumps(definitions)
    attributes = {"gen_ai.tool.definitions": recorded} if definitions is not None else {}
    asking = chat("c", [user("q")], [asks("book", {}, "1")], "a", attributes=attributes)
    other = chat("d", [user("q")], [answer("x")], "a", 40, attributes={"gen_ai.tool.definitions": json.dumps([BOOK])})
    for executed in ((), (tool("e", "book", {}, "ok", "a", 20, call_id="1"),)):
        (call,) = only_turn(agent("a", "bot", until=60), asking, *executed, other).tool_calls
        assert call.is_offered is expected


def test_nobody_offers_what_no_model_asked_for() -> None:
    (call,) = only_turn(agent("a", "bot"), tool("e", "book", {}, "ok", "a")).tool_calls
    assert call.is_offered is None


def executed(result: Any) -> ToolCall:
    text = result if isinstance(result, str) else json.dumps(result)
    (call,) = only_turn(agent("a", "bot"), tool("e", "get_order", {}, text, "a")).tool_calls
    return call


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param({"success": False, "message": "no seats"}, "no seats", id="no success"),
        pytest.param({"ok": False}, "error", id="not ok"),
        pytest.param({"isError": True, "content": []}, "error", id="an MCP error"),
        pytest.param({"is_error": True, "content": "no seats"}, "no seats", id="an Anthropic error"),
        pytest.param({"errors": [{"message": "no seats"}]}, "no seats", id="errors of GraphQL"),
        pytest.param({"status_code": 503}, "HTTP status 503", id="an HTTP status of a failure"),
        pytest.param({"statusCode": 204, "errors": []}, None, id="an HTTP status of success"),
        pytest.param({"error": "no seats"}, "no seats", id="an error"),
        pytest.param({"error": {"code": 5}}, "error", id="an error with fields"),
        pytest.param("Error: no seats", "Error: no seats", id="a text that begins like an error"),
        pytest.param({"error": None, "success": True}, None, id="no error"),
        pytest.param({"error": "", "ok": True, "isError": False}, None, id="an empty error"),
        pytest.param({"success": "false"}, "error", id="a word"),
        pytest.param({"orders": [{"success": False}]}, None, id="a field of something in the result"),
        pytest.param("no success: false", None, id="words"),
        pytest.param({"status": "failed"}, None, id="the status that was asked about"),
    ],
)
def test_a_result_tells_of_an_error_by_its_own_fields(result: Any, expected: str | None) -> None:
    assert executed(result).error == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        pytest.param(2, "Apple", id="the first of several to choose from"),
        pytest.param(None, "Apple\nPear", id="one reply in several messages"),
    ],
)
def test_a_reply_in_several_messages(count: int | None, expected: str) -> None:
    asked = {} if count is None else {"gen_ai.request.choice.count": count}
    model = chat("c", [user("Name a fruit")], [answer("Apple"), answer("Pear")], attributes=asked)
    assert only_turn(model).output == expected


def test_a_history_begins_with_the_user_or_is_not_whole() -> None:
    whole = [user("hi"), answer("yes?"), user("book it")]
    for sent, expected in ((whole, True), (whole[1:], False), ([told("x"), *whole], False)):
        system = {"role": "system", "parts": [{"type": "text", "content": "Be kind."}]}
        subject = read_trace("t", [chat("c", [system, *sent], [answer("Done.")])])
        assert subject.history
        assert subject.is_history_begun is expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param({"parts": [{"type": "text", "content": ""}, {"type": "uri", "uri": "x"}]}, None, id="an image"),
        pytest.param({"content": "", "audio": {"id": "1"}}, None, id="speech"),
        pytest.param({"content": "", "refusal": "I cannot."}, "I cannot.", id="a refusal"),
        pytest.param({"content": [{"type": "refusal", "refusal": "I cannot."}]}, "I cannot.", id="a part that refuses"),
    ],
)
def test_a_reply_with_more_than_an_empty_text_is_not_empty(message: dict[str, Any], expected: str | None) -> None:
    assert only_turn(*replied({"role": "assistant", **message})).output == expected


@pytest.mark.parametrize("kind", ["langgraph.errors.GraphInterrupt", "ParentCommand", "pydantic_ai.CallDeferred"])
def test_an_exception_that_a_framework_steers_by_is_no_error(kind: str) -> None:
    turn = only_turn(raised(agent("a", "bot"), kind), raised(tool("e", "transfer", {}, None, "a"), kind), REPLY)
    assert turn.error is None
    assert [call.error for call in turn.tool_calls] == [None]
