"""A tool call that two traces of a session record counts once."""

from dataclasses import replace

import pytest
from agenteval_collector.evaluation.findings.effort import effort_of
from agenteval_collector.evaluation.shared_calls import SharedCalls
from agenteval_collector.model.agent_work import work_of

from otel_agenteval.model import ToolCall, Trace, Turn


def trace(trace_id: str, *calls: ToolCall) -> Trace:
    turn = Turn(span_id="t", input="q", output="a", tool_calls=calls, started_at=0, ended_at=1)
    return Trace(trace_id=trace_id, turns=(turn,))


def asked(call_id: str | None) -> ToolCall:
    return ToolCall(name="weather", call_id=call_id)


def executed(call_id: str | None, span_id: str = "e" * 16) -> ToolCall:
    return ToolCall(name="weather", call_id=call_id, span_id=span_id, started_at=0, ended_at=1)


@pytest.mark.parametrize("first_executed", [True, False])
def test_a_call_that_was_asked_for_in_one_trace_and_executed_in_another_counts_once(first_executed: bool) -> None:
    known = SharedCalls()
    one, other = trace("1", executed("c-1"), executed("c-2")), trace("2", asked("c-1"), asked("c-2"), asked("c-3"))
    first, second = (one, other) if first_executed else (other, one)
    steps, calls = 0.0, 0
    for each in (first, second, second, first):
        elsewhere = known.elsewhere(each, "s")
        effort, work = effort_of(each, elsewhere=elsewhere), work_of(each, lambda _: None, elsewhere=elsewhere)
        assert effort.steps == len(work.tools)
        if each is first:
            assert elsewhere == frozenset(), "also when a revision of it comes again"
        else:
            assert elsewhere == {"c-1", "c-2"}
    for each in (first, second):
        elsewhere = known.elsewhere(each, "s")
        steps += effort_of(each, elsewhere=elsewhere).steps or 0
        calls += len(work_of(each, lambda _: None, elsewhere=elsewhere).tools)
    assert (steps, calls) == (3, 3)


@pytest.mark.parametrize(
    ("one", "other", "sessions"),
    [
        (executed("c-1"), executed("c-1"), ("s", "s")),
        (asked("c-1"), asked("c-1"), ("s", "s")),
        (executed("c-1"), asked("c-1"), ("s", "t")),
        (executed(None), asked(None), ("s", "s")),
        (executed("c-1"), asked("c-2"), ("s", "s")),
    ],
    ids=["executed twice", "asked for twice", "two sessions", "no ids", "two ids"],
)
def test_other_calls_count_each(one: ToolCall, other: ToolCall, sessions: tuple[str, str]) -> None:
    known = SharedCalls()
    assert known.elsewhere(trace("1", one), sessions[0]) == frozenset()
    assert known.elsewhere(trace("2", other), sessions[1]) == frozenset()


SECOND = 1_000_000_000


def alone(
    trace_id: str, call_id: str | None = "c-1", *, at: int = 5, tool: str = "weather", service: str = "shop"
) -> Trace:
    """A tool's span in a trace of its own, which began `at` that second."""
    call = replace(executed(call_id), name=tool, started_at=at * SECOND, ended_at=at * SECOND + 1)
    turn = Turn(span_id="e", input=None, output=None, tool_calls=(call,), is_orphan=True, started_at=0, ended_at=1)
    return Trace(trace_id=trace_id, service=service, turns=(turn,), started_at=at * SECOND, ended_at=at * SECOND + 1)


def asking(trace_id: str, *calls: ToolCall, until: int = 10) -> Trace:
    """A run that began at 0 and asked for these calls."""
    return replace(trace(trace_id, *calls), service="shop", started_at=0, ended_at=until * SECOND)


@pytest.mark.parametrize("alone_first", [True, False])
def test_a_tool_in_a_trace_of_its_own_is_the_call_that_a_run_of_its_service_asked_for(alone_first: bool) -> None:
    known = SharedCalls()
    one, other = alone("1"), asking("2", asked("c-1"), asked("c-2"))
    first, second = (one, other) if alone_first else (other, one)
    for each in (first, second, first, second):
        # Sessions differ: the tool's span names none.
        assert known.elsewhere(each, each.trace_id) == (frozenset() if each is first else {"c-1"})


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(alone("1", "c-2"), id="another id"),
        pytest.param(alone("1", None), id="no id"),
        pytest.param(alone("1", at=60), id="at another time"),
        pytest.param(alone("1", tool="hotels"), id="another tool"),
        pytest.param(alone("1", service="bank"), id="another service"),
    ],
)
def test_a_tool_in_a_trace_of_its_own_is_no_other_call(other: Trace) -> None:
    known = SharedCalls()
    assert known.elsewhere(other, "1") == frozenset()
    assert known.elsewhere(asking("2", asked("c-1")), "2") == frozenset()
