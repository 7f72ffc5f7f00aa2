"""A tool call that two traces of a session record counts once."""

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
