"""What is watched beside the agent: spans of a real SDK, looked at without threads."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.trace import format_span_id, set_span_in_context

from otel_agenteval.context import SpanIdentity
from otel_agenteval.detectors.rules import HungSpanRule, RepetitionRule, RuleBook, Rules
from otel_agenteval.finding import Finding
from otel_agenteval.loops.watch import MAX_EVENTS, MAX_TRACES, Watch
from otel_agenteval.sending.announcements import Announcements
from otel_agenteval.sending.buffer import ended_span
from tests.support.agent_spans import ask, call, running
from tests.support.watched import Watched

SECOND = 1_000_000_000
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "wait"}


@pytest.mark.parametrize("every", [Watch.look, lambda _: None], ids=["span by span", "all at once"])
def test_it_does_not_matter_when_it_looks(every: Callable[[Watch], None]) -> None:
    watched = Watched(every=every)
    with running(watched.tracer):
        for _ in range(4):
            call(watched.tracer)
        for _ in range(3):
            ask(watched.tracer, "I could not find anything at all.")
    watched.watch.look()
    assert watched.kinds() == ["identical_call", "repeated_output"]
    assert [ended.loops is not None for ended in watched.ended] == [True] * 7 + [False]
    assert [bool(ended.loops) for ended in watched.ended].index(True) == 2
    assert watched.watch.faults == 0


def test_tools_and_models_inside_an_agent_are_its_own() -> None:
    watched = Watched(RuleBook(agents={"poller": Rules(identical_call=RepetitionRule(repeats=5))}))
    with running(watched.tracer, "chief"):
        for name in ("poller", "other"):
            with running(watched.tracer, name), watched.tracer.start_as_current_span("step of a framework"):
                for _ in range(4):
                    call(watched.tracer)
    assert [loop.agent for loop in watched.found] == ["other"]


def test_two_agents_that_take_turns_do_not_repeat_each_other() -> None:
    watched = Watched()
    with running(watched.tracer, "chief"):
        for name in ("a", "b", "a", "b"):
            with running(watched.tracer, name):
                call(watched.tracer)
    assert not watched.found


def test_agent_that_is_named_after_its_run_began_counts() -> None:
    watched = Watched()
    with watched.tracer.start_as_current_span("run") as run:
        run.set_attribute("gen_ai.agent.name", "late")
        for _ in range(3):
            call(watched.tracer)
    assert watched.found[0].agent == "late"


def test_session_is_what_was_named_else_what_spans_say_else_the_trace() -> None:
    watched = Watched()
    with running(watched.tracer):
        for _ in range(3):
            call(watched.tracer)
    with running(watched.tracer, **{"gen_ai.conversation.id": "c-1"}):
        for _ in range(3):
            call(watched.tracer)
    watched.identity = SpanIdentity(session_id="s-1")
    with running(watched.tracer, **{"gen_ai.conversation.id": "c-1"}):
        for _ in range(3):
            call(watched.tracer)
    unnamed, by_convention, named = watched.found
    assert unnamed.session_id == unnamed.trace_id
    assert (by_convention.session_id, named.session_id) == ("c-1", "s-1")


@pytest.mark.parametrize("is_heard", [True, False])
def test_call_hangs_when_nothing_goes_on_inside_it(is_heard: bool) -> None:
    watched = Watched(RuleBook(default=Rules(hung_span=HungSpanRule(after=60))), is_heard=is_heard)
    span = watched.tracer.start_span("execute_tool wait", attributes=TOOL, start_time=1)
    inside = set_span_in_context(span)
    for second in (50, 100, 150):
        watched.tracer.start_span("GET /", context=inside, start_time=second * SECOND).end((second + 1) * SECOND)
        watched.now = (second + 45) * SECOND
        watched.watch.tick()
        assert not watched.found
    watched.now = 212 * SECOND
    watched.watch.tick()
    watched.watch.tick()
    assert watched.kinds() == ["hung_span"]
    span.end(300 * SECOND)
    assert watched.ended[-1].loops == (tuple(watched.found) if is_heard else None)
    assert watched.found[0].span_id == format_span_id(span.get_span_context().span_id)
    watched.now = 900 * SECOND
    watched.watch.tick()
    assert watched.kinds() == ["hung_span"]


def test_traces_without_agents_cost_no_detectors_and_end() -> None:
    watched = Watched()
    for _ in range(2 * MAX_TRACES):
        watched.tracer.start_span("GET /").end()
    assert not watched.watch.has_open
    assert all(ended.loops is None for ended in watched.ended)


def test_oldest_trace_is_forgotten_and_goes_on_unharmed() -> None:
    watched = Watched()
    old = watched.tracer.start_span("root")
    context = set_span_in_context(old)
    for _ in range(MAX_TRACES + 1):
        watched.tracer.start_span("root").end()
    for _ in range(3):
        watched.tracer.start_span("execute_tool t", context=context, attributes=TOOL).end()
    old.end()
    assert watched.watch.faults == 0


def test_loops_count_from_the_moment_on_at_which_somebody_hears_of_them() -> None:
    watched = Watched(is_heard=False)
    with running(watched.tracer):
        for _ in range(5):
            call(watched.tracer)
        watched.watch.look_for_all()
        for _ in range(2):
            call(watched.tracer)
        assert not watched.found
        call(watched.tracer)
    assert watched.kinds() == ["identical_call"]
    watched.watch.tick()
    assert not watched.watch.has_open


def test_events_beyond_the_bound_are_counted() -> None:
    watched = Watched(every=lambda _: None)
    for _ in range(MAX_EVENTS):
        watched.tracer.start_span("GET /").end()
    assert watched.watch.unwatched == MAX_EVENTS
    watched.watch.look()
    watched.watch.ended(ended_span(watched.ended[0].span, None))
    assert watched.watch.unwatched == MAX_EVENTS


@pytest.mark.parametrize("is_heard", [True, False])
def test_what_ended_unseen_neither_hangs_nor_is_told_as_open(is_heard: bool) -> None:
    watched = Watched(RuleBook(default=Rules(hung_span=HungSpanRule(after=60))), lambda _: None, is_heard=is_heard)
    span = watched.tracer.start_span("execute_tool wait", attributes=TOOL, start_time=1)
    for _ in range(MAX_EVENTS):
        watched.tracer.start_span("GET /").end()
    span.end(2)
    assert watched.ended[-1].span.name == "execute_tool wait"
    watched.now = 600 * SECOND
    watched.watch.tick()
    assert not watched.found
    assert not watched.watch.has_open


def test_fault_in_one_trace_costs_no_other_its_look(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(loop: Finding) -> None:
        if not found:
            found.append(loop)
            raise RuntimeError("can't start new thread")
        found.append(loop)

    found: list[Finding] = []
    announcements = Announcements("p", False, lambda: None, lambda: 0.0, lambda: 600 * SECOND)
    watch = Watch(
        RuleBook(default=Rules(hung_span=HungSpanRule(after=60))),
        refuse,
        announcements,
        lambda: 0.0,
        lambda: 600 * SECOND,
    )
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("agent")
    for _ in range(2):
        span = tracer.start_span("execute_tool wait", attributes=TOOL, start_time=1)
        assert isinstance(span, ReadableSpan)
        watch.started(span, None)
    with caplog.at_level(logging.WARNING):
        watch.tick()
    assert (len(found), watch.faults, len(caplog.records)) == (2, 1, 1)


class Unreadable(ReadableSpan):
    """A span of an SDK that does not keep its word."""

    @property
    def status(self) -> Any:
        raise RuntimeError("no status")


def test_fault_costs_a_step_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched()
    with running(watched.tracer):
        for number in range(3):
            call(watched.tracer)
            if number:
                good = watched.ended[-1].span
                broken = Unreadable("execute_tool t", context=good.get_span_context(), attributes=TOOL)
                with caplog.at_level(logging.WARNING):
                    watched.watch.ended(ended_span(broken, None))
                    watched.watch.look()
    assert watched.kinds() == ["identical_call"]
    assert watched.watch.faults == 2
    assert len(caplog.records) == 1
