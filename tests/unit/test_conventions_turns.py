"""From spans to turns: what belongs together, what the user asked, what the agent answered."""

import json
from typing import Any

import pytest

from otel_agenteval.conventions.spans import LogRecord, SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import Trace
from tests.support.spans import agent, answer, asks, chat, failed, span, told, tool, user

TRANSFER = asks("transfer_to_booker", {}, "t1")


def read(*spans: SpanRecord, logs: tuple[LogRecord, ...] = ()) -> Trace:
    return read_trace("t", spans, logs)


def inputs_and_outputs(trace: Trace) -> list[tuple[str | None, str | None]]:
    return [(turn.input, turn.output) for turn in trace.turns]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        pytest.param([chat("a", [user("Hi")], [answer("Hello")])], [("Hi", "Hello")], id="a lone model call"),
        pytest.param(
            [
                chat("a", [user("Hi")], [asks("f", {}, "c")], parent="lost", at=1),
                chat("b", [user("Hi"), asks("f", {}, "c"), told("1", "c")], [answer("One")], parent="lost", at=20),
            ],
            [("Hi", "One")],
            id="calls under a parent that never arrived are one turn",
        ),
        pytest.param(
            [chat("a", [user("Hi"), answer("Hello"), user("And now?")], [answer("Bye")])],
            [("And now?", "Bye")],
            id="earlier turns in the history are not the input",
        ),
        pytest.param(
            [chat("a", [user("Hi"), asks("f", {}, "c"), told("1", "c", role="user")], [answer("One")])],
            [("Hi", "One")],
            id="a tool result in role user is not the input",
        ),
        pytest.param(
            [
                span("root"),
                agent("a1", "bot", "root", at=1),
                chat("m1", [user("Hi")], [answer("Hello")], "a1", at=2),
                agent("a2", "bot", "root", at=20),
                chat("m2", [user("Hi"), answer("Hello"), user("Bye")], [answer("Ciao")], "a2", at=21),
            ],
            [("Hi", "Hello"), ("Bye", "Ciao")],
            id="runs under one outer span are turns",
        ),
        pytest.param(
            [
                span("root"),
                chat("m1", [user("Hi")], [answer("Hello")], "root", at=1),
                chat("m2", [user("Hi"), answer("Hello"), user("Bye")], [answer("Ciao")], "root", at=20),
            ],
            [("Hi", "Hello"), ("Bye", "Ciao")],
            id="calls without a run are turns where the user speaks again after the answer",
        ),
        pytest.param(
            [
                span("root"),
                chat("m1", [user("Hi")], [answer("Hello")], "root", at=1),
                chat("m2", [user("Judge: Hello")], [answer("Good")], "root", at=20),
            ],
            [("Hi", "Good")],
            id="calls that do not go on from an answer are steps of one turn",
        ),
        pytest.param(
            [
                span("flow", operation="invoke_workflow"),
                agent("a1", "bot", "flow", at=1),
                chat("m1", [user("Hi")], [answer("Hello")], "a1", at=2),
                agent("a2", "bot", "flow", at=20),
                chat("m2", [user("Hi"), answer("Hello"), user("Bye")], [answer("Ciao")], "a2", at=21),
            ],
            [("Hi", "Hello"), ("Bye", "Ciao")],
            id="runs in a workflow that says nothing are turns where the user speaks again after the answer",
        ),
        pytest.param(
            [
                span("flow", operation="invoke_workflow"),
                agent("a1", "writer", "flow", at=1),
                chat("m1", [user("Hi")], [answer("Hello")], "a1", at=2),
                agent("a2", "judge", "flow", at=20),
                chat("m2", [user("Hi"), user("The writer said: Hello")], [answer("Good")], "a2", at=21),
            ],
            [("Hi", "Good")],
            id="agents that work one after the other in a workflow are one turn",
        ),
        pytest.param(
            [
                span("root"),
                agent("a1", "desk", "root", at=1),
                chat("m1", [user("Book")], [TRANSFER], "a1", at=2),
                agent("a2", "booker", "root", at=20),
                chat("m2", [user("Book"), TRANSFER, told("ok", "t1")], [answer("Booked")], "a2", at=21),
            ],
            [("Book", "Booked")],
            id="a run after a hand-off continues the turn",
        ),
        pytest.param(
            [
                agent("a1", "desk", at=1),
                chat("m1", [user("Book")], [asks("booker", {"task": "x"}, "c")], "a1", at=2),
                tool("t1", "booker", {"task": "x"}, "done", "a1", at=13, call_id="c", until=40),
                agent("a2", "booker", "t1", at=14),
                chat("m2", [user("x")], [answer("done")], "a2", at=15),
                chat("m3", [user("Book"), asks("booker", {}, "c"), told("done", "c")], [answer("Done!")], "a1", at=50),
            ],
            [("Book", "Done!")],
            id="an agent called as a tool is part of the turn",
        ),
        pytest.param(
            [span("a", "create_agent", attributes={"gen_ai.agent.name": "bot"})], [], id="construction is no turn"
        ),
        pytest.param([span("a"), span("b", parent="a")], [], id="spans without GenAI are no turn"),
        pytest.param(
            [agent("a", "bot"), span("b", "chat", "a", at=1)], [(None, None)], id="without content nothing is said"
        ),
        pytest.param(
            [agent("a", "bot"), chat("b", [user("Hi")], [asks("f", {}, "c", text="Let me see.")], "a", at=1)],
            [("Hi", None)],
            id="a turn that ends with a request has no answer",
        ),
        pytest.param(
            [agent("a", "bot", attributes={
                "gen_ai.input.messages": [user("Hi")],
                "gen_ai.output.messages": "just text",
            }), chat("b", [user("inner")], [answer("inner")], "a", at=1)],
            [("Hi", "just text")],
            id="what the run itself says outranks its model calls",
        ),
        pytest.param(
            [chat("a", [user("Hi")], [answer("__REDACTED__")])], [("Hi", None)], id="a redacted answer is not recorded"
        ),
    ],
)  # fmt: skip
def test_turns(spans: list[SpanRecord], expected: list[tuple[str | None, str | None]]) -> None:
    assert inputs_and_outputs(read(*spans)) == expected


def test_a_failed_model_call_leaves_the_turn_without_answer_and_with_an_error() -> None:
    trace = read(agent("a", "bot"), failed(chat("m", [user("Hi")], [], "a", at=1), "overloaded"))
    assert (trace.turns[0].output, trace.turns[0].error) == (None, "overloaded")


def test_a_retry_that_succeeds_is_no_failed_turn() -> None:
    first = failed(chat("m1", [user("Hi")], [], "a", at=1), "overloaded")
    trace = read(agent("a", "bot"), first, chat("m2", [user("Hi")], [answer("Hello")], "a", at=20))
    assert (trace.turns[0].output, trace.turns[0].error) == ("Hello", None)
    assert [call.error for call in trace.model_calls] == ["overloaded", None]


@pytest.mark.parametrize(
    ("inner_at", "last", "expected"),
    [
        pytest.param(4, answer("Done!"), ("Book", "Done!"), id="meanwhile"),
        pytest.param(-40, answer("Done!"), ("Book", "Done!"), id="by a clock that is behind"),
        pytest.param(60, answer("Done!"), ("Book", "Done!"), id="by a clock that is ahead, or after the answer"),
        pytest.param(
            60, asks("g", {}, "d"), ("Book", None), id="by a clock that is ahead, of a turn without an answer"
        ),
    ],
)
def test_a_turn_has_the_words_of_its_own_run_whenever_an_agent_within_a_tool_call_speaks(
    inner_at: int, last: dict[str, Any], expected: tuple[str, str | None]
) -> None:
    trace = read(
        agent("a1", "bot", at=0, until=60),
        chat("m1", [user("Book")], [asks("booker", {}, "c")], "a1", at=1, until=2),
        tool("t1", "booker", {}, "started", "a1", at=3, call_id="c", until=20),
        agent("a2", "booker", "t1", at=inner_at),
        chat("m2", [user("x")], [answer("inner")], "a2", at=inner_at + 1),
        chat("m3", [user("Book"), asks("booker", {}, "c"), told("started", "c")], [last], "a1", at=50),
    )
    assert inputs_and_outputs(trace) == [expected]


def test_the_answer_of_a_tool_that_ran_last_is_that_of_the_turn() -> None:
    trace = read(
        agent("a1", "bot", until=60),
        chat("m1", [user("Book")], [asks("booker", {}, "c")], "a1", at=1),
        tool("t1", "booker", {}, None, "a1", at=13, call_id="c", until=50),
        chat("m2", [user("x")], [answer("Booked.")], "t1", at=14),
    )
    assert inputs_and_outputs(trace) == [("Book", "Booked.")]


@pytest.mark.parametrize(
    ("sent", "answered_until", "expected"),
    [
        pytest.param("Hi", 20, ("Hello", None), id="another attempt at the call, which answered after it"),
        pytest.param("Hi", 12, ("Hello", None), id="another attempt at the call, which answered meanwhile"),
        pytest.param("Hi", 5, (None, "overloaded"), id="an earlier call: this one is a step after it"),
        pytest.param("Is it safe: Hi", 20, (None, "overloaded"), id="a call that was sent something else"),
    ],
)
@pytest.mark.parametrize("kind", ["RateLimitError", "asyncio.CancelledError"])
def test_the_answer_of_one_attempt_stays_though_another_one_beside_it_failed(
    kind: str, sent: str, answered_until: int, expected: tuple[str | None, str | None]
) -> None:
    first = chat("m1", [user(sent)], [answer("Hello")], "a", at=1, until=answered_until)
    second = failed(chat("m2", [user("Hi")], [], "a", at=8, attributes={"error.type": kind}), "overloaded")
    trace = read(agent("a", "bot", until=50), first, second)
    assert (trace.turns[0].output, trace.turns[0].error) == expected
    assert [call.error for call in trace.model_calls] == [None, "overloaded"]


def test_cut_history_says_nothing_of_the_users_last_message_and_makes_the_trace_partial() -> None:
    full = json.dumps([user("Hi"), answer("Hello"), user("And now?")])
    record = chat("a", [], [answer("Bye")])
    record.attributes = {**record.attributes, "gen_ai.input.messages": full[:-30]}
    trace = read(record)
    assert (trace.input, trace.output, trace.partial) == (None, "Bye", True)


def test_a_cut_answer_is_its_beginning() -> None:
    record = chat("a", [user("Hi")], [])
    record.attributes = {
        **record.attributes, "gen_ai.output.messages": json.dumps([answer("A long answer")])[:-8]
    }  # fmt: skip
    trace = read(record)
    assert trace.partial
    assert trace.output is not None
    assert "A long answer".startswith(trace.output)


def test_dropped_attributes_make_the_trace_partial_only_where_they_could_be_content() -> None:
    model = chat("a", [user("Hi")], [answer("Hello")])
    assert not read(span("root", dropped_attributes_count=3), model).partial
    model.dropped_attributes_count = 1
    assert read(model).partial


def test_content_of_log_records_and_span_events_is_read_where_attributes_have_none() -> None:
    name = "gen_ai.client.inference.operation.details"
    log = LogRecord(
        span_id="a", event_name=name,
        attributes={"gen_ai.input.messages": [user("Hi")], "gen_ai.output.messages": [answer("Hello")]},
    )  # fmt: skip
    assert inputs_and_outputs(read(span("a", "chat"), logs=(log,))) == [("Hi", "Hello")]


def test_a_model_call_recorded_by_two_instrumentations_counts_once_and_completes_itself() -> None:
    outer = span("m1", "chat", "a", at=1, until=30, attributes={"gen_ai.usage.input_tokens": 5})
    inner = chat("m2", [user("Hi")], [answer("Hello")], "m1", at=2)
    trace = read(agent("a", "bot"), outer, inner)
    assert len(trace.model_calls) == 1
    assert (trace.model_calls[0].output, trace.model_calls[0].usage is not None) == ("Hello", True)


@pytest.mark.parametrize(("second_at", "calls"), [(5, 1), (50, 2)])
def test_one_response_recorded_twice_at_a_time_counts_once_and_a_reused_id_does_not(second_at: int, calls: int) -> None:
    response = {"gen_ai.response.id": "r"}
    first = span("m1", "chat", "a", at=1, until=30, attributes=response)
    second = span("m2", "chat", "a", at=second_at, attributes=response)
    assert len(read(agent("a", "bot"), first, second).model_calls) == calls


@pytest.mark.parametrize("skew", [0, -4], ids=["one clock", "the clock of another service is behind"])
def test_agents_are_listed_from_the_outermost_inwards(skew: int) -> None:
    inner = agent("b", "inner", "a", at=5 + skew), agent("c", "innermost", "b", at=6 + skew)
    trace = read(*inner, agent("d", "second", "a", at=20), agent("a", "outer", at=5, until=30))
    assert trace.agents == ("outer", "inner", "innermost", "second")
    assert trace.turns[0].agent == "outer"


def test_reasoning_that_only_the_next_call_repeats_belongs_to_the_turn() -> None:
    thought = {"role": "assistant", "parts": [{"type": "reasoning", "content": "Rain."}]}
    old = {"role": "assistant", "parts": [{"type": "reasoning", "content": "Old."}]}
    history = [user("Before"), old, answer("x"), user("Weather?")]
    trace = read(
        agent("a", "bot"),
        chat("m1", history, [asks("f", {}, "c", text="Plan: look.")], "a", at=1),
        chat("m2", [*history, thought, asks("f", {}, "c"), told("wet", "c")], [answer("Wet")], "a", at=20),
    )
    assert (trace.turns[0].reasoning, trace.turns[0].plan) == (("Rain.",), ("Plan: look.",))


IDENTITY: list[tuple[dict[str, Any], str | None]] = [
    ({"session.id": "s", "gen_ai.conversation.id": "c", "agenteval.session.id": "a"}, "a"),
    ({"session.id": "s", "gen_ai.conversation.id": "c"}, "c"),
    ({"session.id": "s", "langfuse.session.id": "l"}, "s"),
    ({"traceloop.association.properties.thread_id": "t"}, "t"),
    ({"session.id": "", "metadata": '{"thread_id": "m"}'}, "m"),
    ({"session.id": 42}, "42"),
    ({"gen_ai.conversation.id": "[Scrubbed due to 'session']", "session.id": "s"}, "s"),
    ({"session.id": ["odd"]}, None),
    ({}, None),
]


@pytest.mark.parametrize(("attributes", "expected"), IDENTITY)
def test_session_of_a_trace(attributes: dict[str, Any], expected: str | None) -> None:
    assert read(span("root"), span("b", parent="root", attributes=attributes)).session_id == expected


def test_where_spans_disagree_the_run_is_believed() -> None:
    trace = read(
        span("root", attributes={"session.id": "web"}),
        agent("a", "bot", "root", at=1, attributes={"session.id": "chat"}),
    )
    assert trace.session_id == "chat"


def test_a_resource_may_say_what_came_of_the_run_and_which_versions_took_part() -> None:
    said = read(
        span("a", resource={"agenteval.run.success": True, "service.version": "2"}),
        span("b", parent="a", resource={"service.version": "1"}),
    )
    assert said.run_outcome.success is True
    assert sorted(said.service_versions) == ["1", "2"]


def test_run_identity_needs_a_task() -> None:
    stamped = {"agenteval.task.id": "refund", "agenteval.run.id": "3", "agenteval.condition": "noisy"}
    run = read(span("a", attributes=stamped)).run
    assert run is not None
    assert (run.task_id, run.run_id, run.condition) == ("refund", "3", "noisy")
    assert read(span("a", attributes={"agenteval.run.id": "3"})).run is None


def test_service_is_that_of_the_run() -> None:
    web, bot = {"service.name": "web"}, {"service.name": "bot", "service.version": "2"}
    trace = read(span("root", resource=web), agent("a", "bot", "root", at=1, resource=bot))
    assert (trace.service, trace.service_version) == ("bot", "2")


def test_many_nested_and_many_parallel_spans_are_read_in_time_that_grows_with_their_number() -> None:
    deep = [agent(f"{n:06}", "bot", f"{n - 1:06}", at=n) for n in range(20_000)]
    wide = [tool(f"w{n:06}", "f", {"n": n}, "x", "000000", at=n, call_id=str(n)) for n in range(5_000)]
    trace = read(*deep, *wide)
    assert (len(trace.turns), len(trace.tool_calls)) == (1, 5_000)


@pytest.mark.parametrize("value", ["[{'role': 'user', 'parts': []}]", '"[{\\"role\\": \\"us', '{"odd": 1}', 7])
def test_what_was_meant_to_be_messages_and_is_not_is_nobodys_words(value: Any) -> None:
    trace = read(span("a", "chat", attributes={"gen_ai.input.messages": value}))
    assert (trace.input, trace.unread) == (None, {"message": 1})
