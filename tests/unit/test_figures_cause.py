"""The first decisive step of what went wrong."""

import random
from dataclasses import replace
from typing import Any

import pytest
from agenteval_collector.figures.cause import cause_by_judge, cause_of_trace
from agenteval_collector.model.judge_jobs import FAILED_AGENT, FAILED_SPAN, FAILED_TURN
from agenteval_collector.model.trace_view import DoubtfulStep, TraceView, TurnView

from otel_agenteval.finding import Finding, Severity
from otel_agenteval.model import CallOutcome, ToolCall

WORKED, FAILED = CallOutcome.WORKED, CallOutcome.FAILED


def call(name: str, outcome: CallOutcome, number: int, **fields: Any) -> ToolCall:
    error = "timeout" if outcome is FAILED else None
    return ToolCall(name=name, outcome=outcome, error=error, span_id=f"{number:016x}", **fields)


def view(*turns: list[ToolCall], trace_id: str = "ab" * 16, **changes: Any) -> TraceView:
    shown = [TurnView(input="q", output="a", tool_calls=calls) for calls in turns]
    fields: dict[str, Any] = {"trace_id": trace_id, "session_id": "s", "names_session": True, "agents": ("planner",)}
    return TraceView(turns=shown, revision=1, complete=True, **fields | changes)


def finding(kind: str, severity: Severity = Severity.ERROR, **fields: Any) -> Finding:
    return Finding(kind=kind, severity=severity, reason=f"{kind} it is", trace_id="ab" * 16, session_id="s", **fields)


def test_a_failure_that_a_later_success_of_the_tool_makes_good_is_no_cause() -> None:
    calls = [call("search", FAILED, 1), call("search", WORKED, 2), call("book", FAILED, 3), call("search", WORKED, 4)]
    cause = cause_of_trace(view(calls), ())
    assert cause is not None
    assert (cause.span_id, cause.turn, cause.agent) == (f"{3:016x}", 0, "planner")
    assert (cause.what, cause.told_by) == ("book failed: timeout", "tool_failed")


def test_a_failure_that_was_made_good_is_the_cause_if_nothing_else_is_known() -> None:
    calls = [call("search", FAILED, 1), call("search", FAILED, 2), call("search", WORKED, 3)]
    cause = cause_of_trace(view(calls), ())
    assert cause is not None
    assert cause.span_id == f"{1:016x}"
    cause = cause_of_trace(view(calls), [finding("turn_failed", turn=0)])
    assert cause is not None
    assert cause.told_by == "turn_failed"


def test_success_of_another_tool_makes_nothing_good() -> None:
    cause = cause_of_trace(view([call("search", FAILED, 1), call("book", WORKED, 2)]), ())
    assert cause is not None
    assert cause.span_id == f"{1:016x}"


def test_a_loop_is_decided_at_its_first_step() -> None:
    calls = [call("look", WORKED, 1), *(call("search", WORKED, n, arguments={"q": 1}) for n in (2, 3, 4))]
    cause = cause_of_trace(view([], calls), [finding("identical_call", span_id=f"{4:016x}", turn=1)])
    assert cause is not None
    assert (cause.span_id, cause.turn, cause.told_by) == (f"{2:016x}", 1, "identical_call")


def test_the_earliest_of_several_facts_is_the_cause() -> None:
    late = finding("turn_failed", turn=1, span_id=f"{9:016x}")
    early = finding("no_answer", turn=0, span_id=f"{8:016x}")
    for found in ([late, early], [early, late]):
        cause = cause_of_trace(view([], [call("book", FAILED, 1)]), found)
        assert cause is not None
        assert cause.told_by == "no_answer"


def test_a_fact_about_the_whole_trace_comes_last() -> None:
    died = finding("agent_died")
    cause = cause_of_trace(view([call("book", WORKED, 1)]), [died])
    assert cause is not None
    assert (cause.turn, cause.told_by) == (None, "agent_died")


def test_a_failed_call_of_the_model_is_a_cause_only_where_its_turn_failed() -> None:
    failed = finding("model_failed", Severity.WARNING, turn=0, span_id=f"{5:016x}")
    good = view([])
    assert cause_of_trace(good, [failed]) is None
    bad = replace(good, turns=[replace(good.turns[0], error="overloaded")])
    cause = cause_of_trace(bad, [failed])
    assert cause is not None
    assert cause.told_by == "model_failed"


def doubtful(calls_before: int) -> DoubtfulStep:
    return DoubtfulStep(span_id="d" * 16, turn=0, calls_before=calls_before, agent="expert", what="states 42")


@pytest.mark.parametrize(("calls_before", "told_by"), [(0, "unsaid_figures"), (1, "tool_failed"), (2, "tool_failed")])
def test_a_doubtful_reply_stands_among_the_calls_by_its_place(calls_before: int, told_by: str) -> None:
    calls = [call("run", FAILED, 1), call("look", WORKED, 2)]
    cause = cause_of_trace(view(calls, doubtful=doubtful(calls_before)), ())
    assert cause is not None
    assert cause.told_by == told_by


def test_a_doubtful_reply_weighs_more_than_a_failure_that_was_made_good() -> None:
    calls = [call("run", FAILED, 1), call("run", WORKED, 2)]
    cause = cause_of_trace(view(calls, doubtful=doubtful(2)), ())
    assert cause is not None
    assert (cause.span_id, cause.agent, cause.turn, cause.what) == ("d" * 16, "expert", 0, "states 42")


def test_nothing_is_blamed_where_nothing_shows_it() -> None:
    assert cause_of_trace(view([call("book", WORKED, 1)]), [finding("value_not_said", Severity.INFO, turn=0)]) is None


@pytest.mark.parametrize("seed", range(20))
def test_the_cause_is_the_first_call_whose_tool_never_works_again(seed: int) -> None:
    chance = random.Random(seed)
    outcomes = [(chance.choice("abc"), chance.choice((WORKED, FAILED))) for _ in range(12)]
    calls = [call(name, outcome, number) for number, (name, outcome) in enumerate(outcomes)]
    cut = chance.randrange(12)
    cause = cause_of_trace(view(calls[:cut], calls[cut:]), ())
    failed = [number for number, (_, outcome) in enumerate(outcomes) if outcome is FAILED]
    lost = [number for number in failed if (outcomes[number][0], WORKED) not in outcomes[number:]] or failed
    assert (None if cause is None else cause.span_id) == (f"{lost[0]:016x}" if lost else None)


@pytest.mark.parametrize(("number", "trace_id", "turn"), [(1, "a", 0), (2, "a", 1), (3, "b", 0)])
def test_the_judges_turn_is_found_in_its_trace(number: int, trace_id: str, turn: int) -> None:
    traces = [view([], [], trace_id="a"), view([], trace_id="b")]
    metadata = {FAILED_TURN: number, FAILED_SPAN: "c" * 16, FAILED_AGENT: "searcher"}
    cause = cause_by_judge(metadata, "booked the wrong flight", traces, {"a": 0, "b": 2})
    assert cause is not None
    assert (cause.trace_id, cause.turn, cause.agent) == (trace_id, turn, "searcher")
    assert (cause.span_id, cause.what, cause.told_by) == ("c" * 16, "booked the wrong flight", "goal_success")


def test_a_judge_that_names_no_turn_names_no_cause() -> None:
    assert cause_by_judge({FAILED_TURN: None}, "it went well", [view([])], {"ab" * 16: 0}) is None
