"""Each kind of finding: what shows it, and what looks like it and is none."""

import time
from dataclasses import replace
from typing import Any

import pytest
from agenteval_collector.evaluation.findings.trace import MAX_OF_A_KIND, OBSERVED, findings_in

from otel_agenteval.finding import Finding, Severity
from otel_agenteval.model import CallOutcome, Json, ModelCall, Tool, ToolCall, Trace, Turn
from tests.support.evaluating import call, trace, turn

ORDER = Tool(
    name="get_order",
    parameters={
        "type": "object",
        "properties": {"order_id": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["order_id"],
    },
)


def found(subject: Trace, *, is_first: bool = True) -> list[Finding]:
    return findings_in(subject, session_id="s-1", is_first=is_first, found_at=7)


def kinds(subject: Trace, *, is_first: bool = True) -> list[str]:
    return [str(finding.kind) for finding in found(subject, is_first=is_first)]


def replied(**changes: Any) -> Turn:
    """A turn with one model call, which is changed."""
    reply = ModelCall(
        span_id="c1", model="m", output=changes.pop("output", "Sunny."), started_at=1, ended_at=2, **changes
    )
    return Turn(span_id="t1", input="Weather?", output=reply.output, model_calls=(reply,), started_at=1, ended_at=3)


def test_an_ordinary_trace_has_none() -> None:
    assert kinds(trace(turn("Order 7731?", "It is on its way.", call("get_order", {"order_id": "7731"})))) == []


def test_a_finding_says_what_where_and_whose() -> None:
    subject = trace(
        turn(),
        turn("q", "a", ToolCall(name="book", error="full", span_id="e1", agent="booker"), agent="front"),
        agents=("front", "booker"),
        service="shop",
        service_version="2",
    )
    assert found(subject) == [
        Finding(
            kind="tool_failed",
            severity=Severity.WARNING,
            reason="book failed: full",
            trace_id=subject.trace_id,
            session_id="s-1",
            span_id="e1",
            turn=1,
            agent="booker",
            tool="book",
            service="shop",
            service_version="2",
            metadata={"told_by": "status", "shape": "full"},
            found_at=7,
        )
    ]


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        pytest.param(turn("q", "a", error="boom"), ["turn_failed"], id="a turn that failed, whatever was answered"),
        pytest.param(turn("q", None, error="boom"), ["turn_failed"], id="a turn that failed without one"),
        pytest.param(turn("q", None, error="gone", is_cancelled=True), [], id="a turn that was cancelled"),
        pytest.param(turn("q", None), [], id="an answer that was not recorded"),
        pytest.param(turn("q", ""), ["no_answer"], id="an answer that was recorded empty"),
        pytest.param(turn("q", " \n"), ["no_answer"], id="a blank answer"),
        pytest.param(turn("q", "", error="boom"), ["turn_failed"], id="an empty answer of a turn that failed"),
        pytest.param(replied(error="timeout"), ["model_failed"], id="a model call that failed beside an answer"),
        pytest.param(replied(finish_reason="length"), ["answer_cut"], id="the answer cut by OpenAI's limit"),
        pytest.param(replied(finish_reason="MAX_TOKENS"), ["answer_cut"], id="the answer cut by Gemini's limit"),
        pytest.param(replied(finish_reason="FinishReason.SAFETY"), ["answer_cut"], id="the answer filtered"),
        pytest.param(replied(finish_reason="content-filter"), ["answer_cut"], id="the answer filtered, Vercel"),
        pytest.param(replied(finish_reason="stop"), [], id="an answer that ended"),
        pytest.param(replied(finish_reason="tool_calls"), [], id="a reply that asks for tools"),
        pytest.param(replied(finish_reason="whatever comes"), [], id="a reason that nobody knows"),
    ],
)
def test_turns_and_model_calls(subject: Turn, expected: list[str]) -> None:
    assert kinds(trace(subject)) == expected


def test_only_the_call_that_answers_can_cut_the_answer() -> None:
    calls = [
        ModelCall(span_id=name, output=said, finish_reason=reason, started_at=at, ended_at=at)
        for at, (name, said, reason) in enumerate([("c1", "Draft", "length"), ("c2", "Done.", "stop")])
    ]
    answered = Turn(span_id="t", input="q", output="Done.", model_calls=tuple(calls), started_at=0, ended_at=9)
    assert kinds(trace(answered)) == []
    drafted = Turn(span_id="t", input="q", output="Draft", model_calls=tuple(calls), started_at=0, ended_at=9)
    (finding,) = found(trace(drafted))
    assert (finding.kind, finding.span_id) == ("answer_cut", "c1")


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        pytest.param([call(error="refused")], ["tool_failed"], id="a call that failed"),
        pytest.param([call(result=None)], [], id="a call whose outcome was not recorded"),
        pytest.param([call(result="sorry, no such order")], [], id="words in a result"),
        pytest.param([ToolCall(name="fly", is_offered=False)], ["unknown_tool"], id="a tool that was not offered"),
        pytest.param([ToolCall(name="fly", is_offered=None)], [], id="a tool where nothing says what was offered"),
        pytest.param([ToolCall(name="transfer_to_billing", is_offered=False)], [], id="a hand-off"),
        pytest.param([call(arguments={"order_id": 7731})], ["invalid_arguments"], id="an argument of the wrong type"),
        pytest.param([call(arguments={"count": 1})], ["invalid_arguments"], id="arguments without the one required"),
        pytest.param([call(arguments='{"order_id": 7731,}')], ["invalid_arguments"], id="broken JSON"),
        pytest.param([call(arguments="7731")], [], id="arguments that are plain text"),
        pytest.param([call(arguments="{'order_id': '7731'}")], [], id="arguments as a library printed them"),
        pytest.param([call(arguments={"order_id": "9999"})], ["value_not_said"], id="an identifier that nobody said"),
        pytest.param([call(arguments={"order_id": "7731"})], [], id="an identifier that the user said"),
        pytest.param(
            [call(arguments={"order_id": "7731"}), call("other"), call(arguments={"order_id": "7731"})],
            ["repeated_call"],
            id="the same call with the same result, others between",
        ),
        pytest.param(
            [call(arguments={"order_id": "7731"}, result="a"), call(arguments={"order_id": "7731"}, result="b")],
            [],
            id="the same call with another result",
        ),
        pytest.param(
            [call(arguments={"order_id": "7731"}, result=None), call(arguments={"order_id": "7731"}, result=None)],
            [],
            id="the same call, no result recorded",
        ),
        pytest.param([call(arguments=None), call(arguments=None)], [], id="calls without recorded arguments"),
        pytest.param(
            [call(arguments={"order_id": "7731"}, error="full"), call(arguments={"order_id": "7731"}, error="full")],
            ["tool_failed", "tool_failed", "repeated_call"],
            id="the same call with the same error",
        ),
    ],
)
def test_tool_calls(calls: list[ToolCall], expected: list[str]) -> None:
    assert kinds(trace(turn("Where is 7731?", "a", *calls), tools=[ORDER])) == expected


@pytest.mark.parametrize(
    ("arguments", "results", "is_effect"),
    [
        ({"title": "Refund"}, [{"ok": True, "id": 1000}, {"ok": True, "id": 1001}], True),
        ({"titel": "Erstattung"}, ["Vorgang V-881 angelegt", "Vorgang V-882 angelegt"], True),
        ({"件名": "返金"}, ["チケット #812 を作成しました", "チケット #813 を作成しました"], True),
        ({"payment": "p1", "amount": 4900}, [{"status": "captured", "charge": f"ch_{n}a77"} for n in range(3)], True),
        (
            {"channel": "C1", "text": "You are welcome!"},
            [{"ok": True, "ts": f"17690{n}1.0002"} for n in range(2)],
            True,
        ),
        # Neither a time, nor a number that was measured or asked for, is something new in the world.
        ({"job": 7}, [{"status": "running", "ts": 1769001 + n} for n in range(2)], False),
        ({"service": "billing"}, [{"state": "up", "checked_at": f"10:00:0{n}"} for n in range(2)], False),
        ({"tz": "Europe/Paris"}, [{"time": "10:00:01"}, {"time": "10:00:07"}], False),
        ({"city": "Paris"}, [{"temp": 21.2}, {"temp": 22.2}], False),
        ({"min": 1, "max": 1000}, ["64", "262"], False),
        ({"path": "a.py", "content": "print(1)"}, ["ok", "ok"], False),
        ({}, ["slide s-17a", "slide s-18b"], False),
        (
            {},
            [{"text": "Welcome to the long page " * 9, "shot": "a8c1f1e0"}, {"text": "Other", "shot": "b8c1f1e0"}],
            False,
        ),
    ],
)
def test_an_effect_is_repeated_if_the_same_call_names_something_new(
    arguments: Json, results: list[Json], is_effect: bool
) -> None:
    calls = [
        ToolCall(name="fazer", arguments=arguments, result=result, outcome=CallOutcome.WORKED) for result in results
    ]
    assert ("repeated_effect" in kinds(trace(turn("q", "a", *calls)))) is is_effect
    # One that searches finds, and one that failed did nothing.
    looks = [replace(each, name="search_tickets") for each in calls]
    failed = [replace(each, outcome=CallOutcome.FAILED) for each in calls]
    for others in (looks, failed):
        assert "repeated_effect" not in kinds(trace(turn("q", "a", *others)))


def test_a_call_that_failed_without_words_shows_its_result() -> None:
    failed = ToolCall(name="book", error="error", result={"success": False, "code": 12}, is_error_read=True)
    (finding,) = found(trace(turn("q", "a", failed)))
    assert finding.reason == 'book failed: {"code": 12, "success": false}'
    assert finding.metadata == {"told_by": "result", "shape": '{"code": …, "success": false}'}


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(call(arguments='{"order_id": 77,}'), id="broken JSON may have been cut by an exporter"),
        pytest.param(ToolCall(name="fly", is_offered=False), id="definitions may have been dropped"),
        pytest.param(call(arguments={"order_id": "9999"}), id="what was said may have been dropped"),
    ],
)
def test_what_a_cut_trace_lacks_is_not_held_against_the_agent(wrong: ToolCall) -> None:
    assert kinds(trace(turn("q", "a", wrong), partial=True)) == []
    assert len(kinds(trace(turn("q", "a", wrong)))) == 1


def test_arguments_that_a_framework_adds_to_an_execution_are_not_the_models() -> None:
    strict = Tool(name="get_order", parameters={"properties": {"order_id": {}}, "additionalProperties": False})
    arguments: Json = {"order_id": "7731", "runtime": {}}
    executed = ToolCall(name="get_order", arguments=arguments, result="fine", span_id="e")
    asked = ToolCall(name="get_order", arguments=arguments, result="fine")
    assert kinds(trace(turn("Where is 7731?", "a", executed), tools=[strict])) == []
    assert kinds(trace(turn("Where is 7731?", "a", asked), tools=[strict])) == ["invalid_arguments"]


def test_results_answers_and_instructions_are_what_was_said_but_not_what_comes_later() -> None:
    finds, opens = call("find", {"q": "my order"}, {"order": "AB12345"}), call("open", {"id": "AB12345"})
    assert kinds(trace(turn("my order?", "a", finds, opens))) == []
    assert kinds(trace(turn("my order?", "a", opens, finds))) == ["value_not_said"]
    assert kinds(trace(turn("hello", "Shall I open AB12345?"), turn("yes", "a", opens))) == []
    assert kinds(trace(turn("hello", "a", opens), system_instructions="The customer is AB12345.")) == []
    described = Tool(name="open", description="Opens an account such as AB12345")
    assert kinds(trace(turn("hello", "a", opens), tools=[described])) == []


@pytest.mark.parametrize(
    ("changes", "is_first", "expected"),
    [
        pytest.param({}, True, ["value_not_said"], id="the first trace of a session"),
        pytest.param({}, False, [], id="a later one, without what came before"),
        pytest.param(
            {"history": ("hi", "yes?"), "is_history_begun": True}, False, ["value_not_said"], id="one with all of it"
        ),
        pytest.param({"history": ("AB12345",), "is_history_begun": True}, False, [], id="one where it was said before"),
        pytest.param({"history": ("yes?", "hi")}, False, [], id="one that was sent the newest messages only"),
        pytest.param(
            {"history": ("yes?", "hi")}, True, [], id="the first that is known of a session that began before"
        ),
    ],
)
def test_a_value_is_unsaid_only_where_all_that_was_said_is_known(
    changes: dict[str, Any], is_first: bool, expected: list[str]
) -> None:
    subject = trace(turn("hello", "a", call("open", {"id": "AB12345"})), **changes)
    assert kinds(subject, is_first=is_first) == expected


def test_nothing_is_unsaid_after_a_result_that_was_not_recorded() -> None:
    unknown, used = call("find", {"q": "my order"}, None), call("open", {"id": "AB12345"})
    assert kinds(trace(turn("q", "a", unknown, used))) == []


def test_findings_stand_in_order_of_turns() -> None:
    subject = trace(turn("q", "a", call(error="x")), turn("q", ""), turn("q", "a", error="y"))
    assert [(finding.turn, str(finding.kind)) for finding in found(subject)] == [
        (0, "tool_failed"),
        (1, "no_answer"),
        (2, "turn_failed"),
    ]


def test_findings_of_a_kind_are_bounded_and_say_so() -> None:
    failing = found(trace(turn("q", "a", *[call(error="refused")] * (MAX_OF_A_KIND + 1))))
    assert len(failing) == MAX_OF_A_KIND
    assert failing[-1].reason == "get_order failed: refused; and there are more of this kind"
    just_so = found(trace(turn("q", "a", *[call(error="refused")] * MAX_OF_A_KIND)))
    assert (len(just_so), just_so[-1].reason) == (MAX_OF_A_KIND, "get_order failed: refused")


def test_every_kind_is_looked_for_once() -> None:
    assert len({kind for kind, _ in OBSERVED}) == len(OBSERVED)


@pytest.mark.parametrize(
    "evidence",
    [
        pytest.param("x" * 1_000_000, id="long"),
        pytest.param("\x1b[31mred\x00\u202e\ud800", id="unprintable"),
        pytest.param("a\n\n\tb" * 1_000, id="of many lines"),
    ],
)
def test_evidence_is_short_and_printable(evidence: str) -> None:
    subject = trace(
        turn("q", "a", call(evidence, error=evidence), error=evidence), turn("q", f"<tool_call>{{{evidence}")
    )
    findings = found(subject)
    assert findings
    for finding in findings:
        assert len(finding.reason) < 600
        assert finding.reason.isprintable()
        assert finding.tool is None or (len(finding.tool) <= 200 and finding.tool.isprintable())


def deep(levels: int) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = [value]
    return value


def test_a_hostile_trace_takes_no_longer_than_its_bounds() -> None:
    huge = call(arguments={"order_id": "7" * 1_000_000, "items": ["x1"] * 10_000}, result="9" * 1_000_000)
    nested = call(arguments={"order_id": "7731", "in": deep(60)}, result=deep(60))
    many = [call(arguments={"order_id": f"A{number}"}, error="x") for number in range(10_000)]
    answers = "<tool_call>" * 100_000
    started = time.process_time()
    findings = found(trace(turn("Order 7731?", answers, huge, nested, *many), tools=[ORDER]))
    assert time.process_time() - started < 10
    assert len(findings) <= MAX_OF_A_KIND * len(OBSERVED)


def test_a_failure_that_only_the_next_trace_is_told_of_is_found_there_once() -> None:
    old, new = (ToolCall(name="book", arguments={"seat": seat}, error="full", is_error_read=True) for seat in (1, 2))
    subject = trace(turn("Book a seat.", "None is free."), told=(old, new), told_now=1, continues_turn=True)
    assert [(finding.kind, finding.turn, finding.tool) for finding in found(subject)] == [("tool_failed", 0, "book")]
