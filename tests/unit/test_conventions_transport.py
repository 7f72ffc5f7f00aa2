"""Model and tool calls that a client library records of its own, beside or around the instrumentation's spans."""

import json
from typing import Any

import pytest

from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import Turn
from tests.support.spans import agent, answer, asks, chat, failed, span, told, tool, user

HELLO = [user("Hi")], [answer("Hello")]


def turn(*spans: SpanRecord) -> Turn:
    [only] = read_trace("t", [span("root", until=100), *spans]).turns
    return only


def response(identifier: str) -> dict[str, Any]:
    return {"gen_ai.response.id": identifier}


def content(span_id: str = "content", at: int = 10, until: int = 20, model: str = "m-1", **facts: Any) -> SpanRecord:
    """An instrumentation's recording of a call that answers Hello."""
    attributes = {"gen_ai.response.model": model, **facts}
    return chat(span_id, *HELLO, parent="root", at=at, until=until, scope="instrumentation", attributes=attributes)


def transport(
    span_id: str = "transport",
    at: int = 11,
    until: int = 19,
    model: str = "m-1",
    parent: str = "root",
    scope: str = "client",
    **facts: Any,
) -> SpanRecord:
    """The client library's recording of a call, which has no content."""
    attributes = {"gen_ai.request.model": model, "gen_ai.usage.output_tokens": 7, **facts}
    return span(span_id, "chat", parent, at, until=until, scope=scope, attributes=attributes)


@pytest.mark.parametrize(
    ("spans", "kept"),
    [
        pytest.param([content(), transport()], ["content"], id="beside it, while it lasts"),
        pytest.param([content(), transport(parent="content")], ["content"], id="within it"),
        pytest.param([content(), transport(at=9, until=21)], ["content"], id="around it in time"),
        pytest.param([content(), transport(at=15, until=30)], ["content"], id="ending after it, as streams do"),
        pytest.param([content(model="m-1-20260101"), transport()], ["content"], id="asked for without the version"),
        pytest.param(
            [
                content(**response("r")),
                transport(at=9, model="m-other", **response("r")),
            ],
            ["content"],
            id="by the id of the response, started first",
        ),
        pytest.param([content(), transport(at=20, until=30)], ["content", "transport"], id="later: another call"),
        pytest.param([content(), transport(model="n-2")], ["content", "transport"], id="another model: another call"),
        pytest.param(
            [content(), transport(scope="instrumentation")],
            ["content", "transport"],
            id="by the same instrumentation: another call",
        ),
        pytest.param(
            [
                content(**response("r")),
                transport(**response("q")),
            ],
            ["content", "transport"],
            id="of another response: another call",
        ),
        pytest.param(
            [
                content("a", at=10, until=50),
                content("b", at=12, until=50),
                transport("x", at=11),
                transport("y", at=13),
            ],
            ["a", "b"],
            id="one each for calls at the same time",
        ),
        pytest.param(
            [content("a", at=10, until=50), transport("x", at=11), transport("y", at=13)],
            ["a", "y"],
            id="one for each call, the nearest",
        ),
    ],
)
def test_what_the_client_library_records_without_content_is_the_same_call(
    spans: list[SpanRecord], kept: list[str]
) -> None:
    found = turn(*spans)
    assert [call.span_id for call in found.model_calls] == kept
    assert (found.input, found.output) == ("Hi", "Hello")


def framework(span_id: str, reply: dict[str, Any] = HELLO[1][0], at: int = 9, **kwargs: Any) -> SpanRecord:
    """A framework's recording of a call, with content."""
    kwargs = {"until": 21, "parent": "root", "scope": "framework", **kwargs}
    sent = kwargs.pop("sent", HELLO[0])
    model = {"gen_ai.request.model": "m-1", **response(span_id)}
    return chat(span_id, sent, [reply], at=at, attributes=model, **kwargs)


@pytest.mark.parametrize(
    ("spans", "kept"),
    [
        pytest.param([framework("f"), content()], ["f"], id="beside it"),
        pytest.param([framework("f", parent="node"), span("node", parent="root"), content()], ["f"], id="elsewhere"),
        pytest.param(
            [
                framework("f", asks("book", {"id": 1}, "c")),
                chat(
                    "x",
                    HELLO[0],
                    [asks("book", {"id": 1}, "c")],
                    "root",
                    10,
                    scope="client",
                    attributes={"gen_ai.request.model": "m-1"},
                ),
            ],
            ["f"],
            id="a reply that asks for a tool",
        ),
        pytest.param(
            [framework("f", at=8), framework("g", at=9), content("a"), content("b", at=11)],
            ["f", "g"],
            id="one each for calls at the same time",
        ),
        pytest.param(
            [content("a"), content("b", at=11)],
            ["a", "b"],
            id="by the same instrumentation: another call",
        ),
        pytest.param([framework("f", at=30, until=40), content()], ["content", "f"], id="later: another call"),
        pytest.param([framework("f"), content(model="n-2")], ["f", "content"], id="another model: another call"),
        pytest.param(
            [framework("f"), content(**response("q"))], ["f", "content"], id="of another response: another call"
        ),
        pytest.param([framework("f", answer("Hi!")), content()], ["f", "content"], id="another reply: another call"),
        pytest.param([framework("f", sent=[user("Yo")]), content()], ["f", "content"], id="other words: another call"),
    ],
)
def test_what_two_instrumentations_record_with_the_same_reply_is_one_call(
    spans: list[SpanRecord], kept: list[str]
) -> None:
    assert [call.span_id for call in turn(*spans).model_calls] == kept


@pytest.mark.parametrize(
    ("second", "kept"),
    [
        pytest.param({}, ["first"], id="the same id, by another instrumentation"),
        pytest.param({"scope": "first"}, ["first", "second"], id="by the same instrumentation: another call"),
        pytest.param({"call_id": "d"}, ["first", "second"], id="another id: another call"),
        pytest.param({"at": 40}, ["first", "second"], id="later: another call"),
    ],
)
def test_a_tool_call_that_two_instrumentations_record_side_by_side_counts_once(
    second: dict[str, Any], kept: list[str]
) -> None:
    facts = {"at": 21, "call_id": "c", "scope": "second", **second}
    found = turn(
        agent("a", "bot", "root", until=90),
        tool("first", "f", {"x": 1}, None, "a", at=20, until=32, call_id="c", scope="first"),
        tool("second", "f", {"x": 1}, "ok", "a", **facts),
    )
    assert [call.span_id for call in found.tool_calls] == kept
    assert [call.result for call in found.tool_calls][-1] == "ok"


@pytest.mark.parametrize(
    ("second", "turns"),
    [
        pytest.param({}, 1, id="by another instrumentation"),
        pytest.param({"scope": "first"}, 2, id="by the same instrumentation: another run"),
        pytest.param({"reply": "Hi!"}, 2, id="with another answer: another run"),
        pytest.param({"at": 50}, 2, id="later: another run"),
    ],
)
def test_a_run_that_two_instrumentations_record_side_by_side_is_one_turn(second: dict[str, Any], turns: int) -> None:
    def run(scope: str, at: int, reply: str) -> list[SpanRecord]:
        model = {"gen_ai.request.model": "m-1"}
        asked = asks("f", {"x": 1}, "c")
        return [
            agent(f"a{at}", "bot", "root", at, until=at + 40, scope=scope),
            chat(f"m{at}", [user("Hi")], [asked], f"a{at}", at + 1, scope=scope, attributes=model),
            tool(f"t{at}", "f", {"x": 1}, "ok", f"a{at}", at + 12, call_id="c", scope=scope),
            chat(f"n{at}", [user("Hi"), asked, told("ok", "c")], [answer(reply)], f"a{at}", at + 25, scope=scope,
                 attributes=model),
        ]  # fmt: skip

    spans = run("first", 1, "Hello"), run(**{"scope": "second", "at": 2, "reply": "Hello", **second})
    trace = read_trace("t", [span("root", until=100), *spans[0], *spans[1]])
    assert [len(each) for each in (trace.turns, trace.tool_calls, trace.model_calls)] == [turns, turns, 2 * turns]


def test_a_call_takes_the_usage_that_only_the_client_library_counted() -> None:
    [call] = turn(content(), transport()).model_calls
    assert call.usage is not None
    assert call.usage.output_tokens == 7


def test_a_later_call_without_content_leaves_the_answer_of_the_one_before() -> None:
    found = turn(content(), transport(at=30, until=40))
    assert (len(found.model_calls), found.output) == (2, "Hello")


@pytest.mark.parametrize("is_first_to_start", [True, False])
def test_a_failed_call_counts_once_with_the_error_that_is_explained(is_first_to_start: bool) -> None:
    def recordings(explained: bool) -> tuple[SpanRecord, SpanRecord]:
        call = chat("content", [user("Hi")], [], "root", at=10, scope="instrumentation", status=2)
        del call.attributes["gen_ai.output.messages"]  # type: ignore[attr-defined]
        call.attributes |= {"gen_ai.request.model": "m-1", "error.type": "BadRequest"}
        sent = transport(
            at=9 if is_first_to_start else 11, status=2, **dict[str, Any]({"error.type": "invalid_request"})
        )
        return (failed(call, "Overloaded."), sent) if explained else (call, failed(sent, "Overloaded."))

    for explained in (True, False):
        found = turn(*recordings(explained))
        [call] = found.model_calls
        assert (call.span_id, call.error, found.output, found.error) == ("content", "Overloaded.", None, "Overloaded.")


def test_a_call_that_has_its_reply_did_not_fail_whatever_an_attempt_at_it_did() -> None:
    [call] = turn(content(), failed(transport(), "Overloaded.")).model_calls
    assert (call.output, call.error) == ("Hello", None)


@pytest.mark.parametrize("is_inner", [True, False])
def test_a_tool_call_recorded_twice_failed_where_either_recording_says_so(is_inner: bool) -> None:
    outer = tool("outer", "f", {"x": 1}, "no such x", "a", at=20, until=40)
    inner = tool("inner", "f", None, None, "outer", at=21)
    (failed(inner, "no such x") if is_inner else failed(outer, "no such x")).status = 2
    [call] = turn(agent("a", "bot", "root", until=90), chat("m", *HELLO, "a", at=50), outer, inner).tool_calls
    assert (call.span_id, call.result, call.error) == ("outer", "no such x", "no such x")


def test_a_result_that_the_model_was_told_is_an_error_is_one_though_the_span_ended_well() -> None:
    def error_of(is_error: bool) -> str | None:
        request, response = asks("f", {"x": 1}, "c1"), told("no such x", "c1")
        response["parts"][0]["is_error"] = is_error
        [call] = turn(
            chat("m1", [user("?")], [request], "root", at=1),
            tool("t", "f", {"x": 1}, "no such x", "root", at=20, call_id="c1", status=1),
            chat("m2", [user("?"), request, response], [answer("Sorry")], "root", at=40),
        ).tool_calls
        return call.error

    assert (error_of(True), error_of(False)) == ("no such x", None)


@pytest.mark.parametrize(
    ("run", "said", "expected"),
    [
        pytest.param(
            {"status": 2, "status_message": "run failed"}, "Overloaded.", (None, "Overloaded."), id="within it"
        ),
        pytest.param({"status": 2, "status_message": "E: No."}, "No.", (None, "No."), id="its status, after the type"),
        pytest.param({"status": 2}, "Partly done.", ("Partly done.", "error"), id="other words are an answer"),
        pytest.param({"status": 1}, "Overloaded.", (None, "Overloaded."), id="its last model call, whatever it says"),
        pytest.param({"status": 1}, "It is overloaded.", ("It is overloaded.", None), id="words of its own answer"),
    ],
)
def test_a_failed_run_that_says_its_error_in_place_of_an_answer_has_none(
    run: dict[str, Any], said: str, expected: tuple[str | None, str | None]
) -> None:
    attributes = {"openinference.span.kind": "AGENT", "input.value": "Hi", "output.value": said}
    found = turn(
        span("a", None, "root", 1, until=90, attributes=attributes, **run),
        failed(span("m", "chat", "a", 2, attributes={"gen_ai.request.model": "m-1"}), "Overloaded."),
    )
    assert (found.output, found.error) == expected


def test_the_id_of_a_response_stands_at_the_beginning_of_its_raw_recording() -> None:
    raw = {"openinference.span.kind": "LLM", "llm.model_name": "m-1", "input.value": "Hi"}
    call = span("content", None, "root", 10, attributes={**raw, "output.value": '{"id": "msg_1", "content": "Hello"}'})
    # Neither the model nor the parent is the same: only the id tells.
    sent = transport(parent="elsewhere", model="n-2", **response("msg_1"))
    found = turn(call, span("elsewhere", None, "root", 10), sent)
    assert [each.span_id for each in found.model_calls] == ["content"]


@pytest.mark.parametrize(("marked", "expected"), [(True, "no such x"), (False, None)])
def test_a_functions_result_recorded_beside_its_message_says_whether_it_failed(
    marked: bool, expected: str | None
) -> None:
    result = {"name": "f", "content": "no such x", "call_id": "c1", "is_error": marked}
    last = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "?",
        "llm.input_messages.1.message.role": "function",
        "llm.input_messages.1.function.0": json.dumps(result),
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "Sorry",
    }
    [call] = turn(
        chat("m1", [user("?")], [asks("f", {"x": 1}, "c1")], "root", at=1),
        span("m2", None, "root", 40, attributes=last),
    ).tool_calls
    assert (call.result, call.error) == ("no such x", expected)


@pytest.mark.parametrize("recording", ["{", "[]", '{"call_id": "c1"}', "7", ""])
def test_a_functions_result_that_cannot_be_read_is_passed_over(recording: str) -> None:
    attributes = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "?",
        "llm.input_messages.1.message.role": "function",
        "llm.input_messages.1.function.0": recording,
    }
    assert turn(span("m", None, "root", 1, attributes=attributes)).input == "?"
