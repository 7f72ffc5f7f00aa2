"""The same words are the same conversation, however a call and the next one write them down."""

from typing import Any

import pytest

from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import ConversationDigests, Trace
from tests.support.spans import agent, answer, asks, chat, failed, span, told, tool, user

SYSTEM = {"role": "system", "content": "Be brief."}
ARGUMENTS = {"city": "Lisbon", "days": 2}
WRITTEN = {"name": "f", "arguments": '{"days": 2, "city": "Lisbon"}'}


def read(sent: list[Any], received: list[Any], **changes: Any) -> Trace:
    return read_trace("t", [chat("m", sent, received, **changes)])


def of(trace: Trace) -> ConversationDigests:
    assert trace.conversation is not None
    return trace.conversation


@pytest.mark.parametrize(
    ("received", "sent_back"),
    [
        pytest.param([answer("Hello!")], [answer("Hello!")], id="the same message"),
        pytest.param([answer("Hello!")], [{"role": "assistant", "content": "Hello!"}], id="a text in place of parts"),
        pytest.param(
            [answer("Hello!")],
            [{"role": "assistant", "content": [{"type": "text", "text": "Hello!"}]}],
            id="blocks of Anthropic's",
        ),
        pytest.param([answer("Hello!\n\nYou.\n")], [answer("Hello!"), answer("You.")], id="parts in a row"),
        pytest.param([answer(" Hello! ")], [answer("Hello!")], id="blanks at the ends"),
        pytest.param(
            [{"role": "assistant", "parts": [{"type": "reasoning", "content": "Hm."}, *answer("Hello!")["parts"]]}],
            [answer("Hello!")],
            id="without what the model thought",
        ),
        pytest.param(
            [{**answer("Hello!"), "finish_reason": "stop", "name": None}],
            [{**answer("Hello!"), "name": "bot"}],
            id="with other fields around it",
        ),
        pytest.param([asks("f", ARGUMENTS, "c1")], [asks("f", ARGUMENTS, "c1")], id="a request"),
        pytest.param(
            [asks("f", ARGUMENTS, "c1", text="Let me look.")],
            [{"role": "assistant", "tool_calls": [{"id": "c1", "function": WRITTEN}]}],
            id="arguments as JSON, and no text beside the request",
        ),
        pytest.param(
            [asks("f", {}, "c1"), asks("g", {}, "c2")],
            [{"role": "assistant", "parts": [asks("g", {}, "c2")["parts"][0], asks("f", {}, "c1")["parts"][0]]}],
            id="requests in another order",
        ),
    ],
)  # fmt: skip
def test_a_call_that_is_sent_the_reply_goes_on_from_it(received: list[Any], sent_back: list[Any]) -> None:
    before = read([SYSTEM, user("Hi")], received)
    behind = [told("r", "c1"), told("r", "c2")] if of(before).calls else [user("More")]
    after = read([{**SYSTEM, "content": "It is Monday."}, user("Hi"), *sent_back, *behind], [answer("Done.")])
    assert of(after).follows == of(before).said
    assert of(after).follows is not None


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([user("Ho"), answer("Hello!"), user("More")], id="another question"),
        pytest.param([user("Hi"), answer("Hullo!"), user("More")], id="another answer"),
        pytest.param([user("Hi"), user("Hi"), answer("Hello!"), user("More")], id="a question more"),
        pytest.param([user("Hi"), answer("Hello!"), user("More"), answer("Yes"), user("Ok")], id="a turn more"),
    ],
)
def test_other_words_are_another_conversation(sent: list[Any]) -> None:
    before = read([user("Hi")], [answer("Hello!")])
    assert of(read(sent, [answer("Done.")])).follows != of(before).said


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([user("Hi")], id="the user's first words"),
        pytest.param([SYSTEM, user("Hi"), user("Are you there?")], id="several of them"),
        pytest.param([user("Hi"), answer("{")], id="the beginning of the reply itself"),
    ],
)
def test_without_words_of_the_model_a_conversation_begins(sent: list[Any]) -> None:
    assert of(read(sent, [answer("Hello!")])).follows is None


def test_calls_and_results_of_earlier_turns_are_part_of_what_was_said() -> None:
    def turn(call_id: str | None, result: str = "r") -> list[Any]:
        return [user("Hi"), asks("f", {}, call_id), told(result, call_id)]

    def next_turn(*steps: Any) -> bytes | None:
        return of(read([*steps, answer("Hello!"), user("More")], [answer("Yes.")])).follows

    said = of(read(turn("c1"), [answer("Hello!")])).said
    assert next_turn(*turn("c1")) == said
    others = [next_turn(user("Hi")), next_turn(*turn("c2")), next_turn(*turn(None)), next_turn(*turn("c1", "other"))]
    assert len({said, *others}) == 5


def test_the_first_call_of_a_conversation_is_known_by_what_it_is_sent() -> None:
    first, again = (
        read([SYSTEM, user("Hi")], [answer("Hello!")]),
        read_trace("t", [failed(chat("m", [user("Hi")], []), "down")]),
    )
    assert of(first).begins == of(again).begins is not None
    assert (of(first).follows, of(again).said) == (None, None)
    assert of(read([user("Hi"), answer("Hello!"), user("More")], [answer("Yes.")])).begins is None


def test_equal_requests_in_a_row_are_different_places() -> None:
    step = [asks("f", {}, None), told("r")]
    ends = [of(read([user("Hi"), *step * times], [asks("f", {}, None)])).said for times in range(6)]
    assert len(set(ends)) == 6


def test_results_go_on_from_the_calls_where_the_service_keeps_the_conversation() -> None:
    before = read([user("Hi")], [asks("f", {}, "c1"), asks("g", {}, "c2")])
    after = read([told("r", "c2"), told("r", "c1")], [answer("Done.")])
    assert of(after).follows == of(before).calls
    assert of(after).said is None


def test_a_call_may_name_the_reply_that_it_goes_on_from() -> None:
    before = read([user("Hi")], [answer("Hello!")], attributes={"gen_ai.response.id": "resp_1"})
    after = read([user("More")], [answer("Yes.")], attributes={"gen_ai.request.previous_response.id": "resp_1"})
    assert of(after).follows == of(before).reply
    assert of(after).said is None


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(read([SYSTEM], [answer("Hello!")]), id="instructions alone"),
        pytest.param(read_trace("t", [SpanRecord(span_id="1", name="GET /")]), id="nothing of a model"),
        pytest.param(read_trace("t", [failed(chat("m", [], []), "down")]), id="neither words nor a reply"),
    ],
)
def test_nothing_to_be_joined_by(trace: Trace) -> None:
    assert trace.conversation is None


def test_a_trace_is_told_of_the_calls_before_it() -> None:
    sent = [
        user("Old"), asks("old", {}, "c0"), told("r0", "c0"), answer("Done."), user("Hi"),
        asks("f", {"x": 1}, "c1"), told("r1", "c1"),
        asks("g", {}, "c2"), asks("h", {}, "c3"), told("r3", "c3"), told("Error: no", "c2"),
    ]  # fmt: skip
    trace = read(sent, [asks("i", {}, "c4")])
    assert [(each.name, each.result, each.error) for each in trace.told] == [
        ("f", "r1", None),
        ("g", "Error: no", "Error: no"),
        ("h", "r3", None),
    ]
    assert (trace.told_now, trace.continues_turn, trace.turn_goes_on) == (2, True, True)
    assert [each.name for each in trace.tool_calls] == ["i"]
    assert [each.name for each in trace.with_earlier_calls().tool_calls] == ["f", "g", "h", "i"]


def test_results_whose_ids_name_no_request_are_taken_in_order() -> None:
    trace = read([user("Hi"), asks("f", {}, "fc_1"), asks("g", {}, "fc_2"), told("r1", "c1"), told("r2", "c2")], [])
    assert [(each.name, each.result) for each in trace.told] == [("f", "r1"), ("g", "r2")]


def test_results_that_are_sent_without_their_requests_are_kept_by_id() -> None:
    trace = read([told("r1", "c1"), told("Error: no", "c2"), told("of no call")], [asks("f", {}, "c3")])
    alone = [(each.name, each.call_id, each.result, each.error) for each in trace.results_alone]
    assert alone == [("", "c1", "r1", None), ("", "c2", "Error: no", "Error: no")]
    assert (trace.told, trace.told_now, trace.continues_turn, trace.turn_goes_on) == ((), 0, True, True)


def test_no_result_is_alone_where_requests_are_sent() -> None:
    trace = read([user("Hi"), asks("f", {}, "fc_1"), told("r1", "c1")], [answer("Done.")])
    assert trace.results_alone == ()


@pytest.mark.parametrize(
    ("sent", "results"),
    [
        pytest.param(
            [asks("f", {}, "c1"), asks("g", {}, "c2"), told("r2", "c2")],
            [("f", None), ("g", "r2")],
            id="the first has no result",
        ),
        pytest.param(
            [asks("f", {}, "c1"), told("r1", "c1"), asks("g", {}, "c2"), told("again", "c1")],
            [("f", "r1"), ("g", None)],
            id="a result is repeated",
        ),
        pytest.param(
            [asks("f", {}, "c1"), asks("g", {}, "c2"), told("r2"), told("r1", "c1")],
            [("f", "r1"), ("g", "r2")],
            id="one result has no id",
        ),
    ],
)
def test_an_earlier_call_never_takes_the_result_of_another_id(sent: list[Any], results: list[Any]) -> None:
    trace = read([user("Hi"), *sent], [answer("Done.")])
    assert [(each.name, each.result) for each in trace.told] == results


def test_a_turn_within_one_trace_neither_continues_nor_goes_on() -> None:
    first = chat("m", [user("Hi")], [asks("f", {}, "c1")], at=0)
    second = chat("n", [user("Hi"), asks("f", {}, "c1"), told("r", "c1")], [answer("Done.")], at=20)
    trace = read_trace("t", [first, second])
    assert (trace.told, trace.continues_turn, trace.turn_goes_on) == ((), False, False)
    assert of(trace).said == of(read([user("Hi"), asks("f", {}, "c1"), told("r", "c1")], [answer("Done.")])).said


ASKS = chat("m", [user("Hi")], [asks("f", {}, "c1")], parent="r", at=1)


@pytest.mark.parametrize(
    ("spans", "goes_on"),
    [
        pytest.param([agent("r", "a"), ASKS], True, id="nobody ran the tool"),
        pytest.param([span("r"), ASKS], True, id="in a request without a run"),
        pytest.param(
            [agent("r", "a"), ASKS, tool("t", "f", parent="r", at=2, call_id="c1")], False, id="a span ran it"
        ),
        pytest.param(
            [agent("r", "a"), ASKS, tool("t", "e", parent="r", at=0, call_id="c0")],
            True,
            id="a span ran what was asked for before",
        ),
        pytest.param(
            [agent("r", "a", attributes={"gen_ai.output.messages": [answer("Done.")]}), ASKS],
            False,
            id="the run has an answer",
        ),
        pytest.param([failed(agent("r", "a"), "too many turns"), ASKS], False, id="the run failed"),
        pytest.param(
            [agent("r", "a"), chat("m", [user("Hi")], [asks("transfer_to_b", {}, "c1")], parent="r"), agent("b", "b")],
            False,
            id="it hands over",
        ),
    ],
)
def test_a_turn_goes_on_that_ends_in_a_request_which_no_span_executed(spans: list[SpanRecord], goes_on: bool) -> None:
    assert read_trace("t", spans).turn_goes_on is goes_on


@pytest.mark.parametrize("run", [agent("r", "a"), span("r")], ids=["a run", "no run"])
def test_text_beside_a_result_continues_the_turn_and_is_no_question(run: SpanRecord) -> None:
    beside = told("r1", "c1", "user")
    beside["parts"] += user("Remember to be brief.")["parts"]
    sent = [user("Hi"), asks("f", {}, "c1"), beside]
    trace = read_trace("t", [run, chat("m", sent, [answer("Done.")], parent="r")])
    assert (trace.input, trace.continues_turn, [each.result for each in trace.told]) == ("Hi", True, ["r1"])
    alone = read_trace("t", [run, chat("m", [beside], [answer("Done.")], parent="r")])
    assert (alone.input, alone.continues_turn, alone.is_history_begun) == (None, True, False)
    assert [each.result for each in alone.results_alone] == ["r1"]


@pytest.mark.parametrize("whole", [True, False], ids=["whole history", "results alone"])
def test_a_call_that_was_asked_for_earlier_and_executed_here_is_no_other_call(whole: bool) -> None:
    sent = [user("Hi"), asks("f", {}, "c1"), told("r1", "c1"), asks("f", {}, "c2"), told("r2", "c2")]
    spans = [
        agent("r", "a"),
        tool("t", "f", {}, "r2", parent="r", at=1, until=2, call_id="c2"),
        chat("m", sent if whole else sent[-1:], [asks("f", {}, "c3")], parent="r", at=5),
    ]
    trace = read_trace("t", spans)
    assert [(each.call_id, each.result) for each in trace.tool_calls] == [("c2", "r2"), ("c3", None)]
    assert [each.call_id for each in trace.told] == (["c1"] if whole else [])
    assert (trace.told_now, trace.continues_turn, trace.turn_goes_on) == (0, True, True)
