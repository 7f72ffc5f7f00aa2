"""The guard: a looping agent stops at the first call after the verdict, and nobody else stops."""

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from queue import Queue

import pytest
from opentelemetry.trace import Tracer

import otel_agenteval
from otel_agenteval.finding import Mode
from otel_agenteval.processor import AgentEvalSpanProcessor
from otel_agenteval.verdict import Verdict
from tests.support.agent_spans import ask, call, running
from tests.support.attached import Make, collector, make, names
from tests.support.eventually import eventually
from tests.support.fake_collector import FakeCollector

__all__ = ["collector", "make"]

NOWHERE = "http://127.0.0.1:1"


def loop(tracer: Tracer, processor: AgentEvalSpanProcessor, verdicts: int = 1) -> None:
    """Call a tool in vain until the verdict is known."""
    for _ in range(3):
        call(tracer)
    eventually(lambda: processor.stats.verdicts == verdicts, every=0.002)


def test_agent_stops_at_the_first_call_after_the_verdict(collector: FakeCollector, make: Make) -> None:
    processor, tracer = make()

    def agent() -> None:
        with running(tracer):
            loop(tracer, processor)
            with tracer.start_as_current_span("a step of the framework"):
                call(tracer)

    with otel_agenteval.stop_on_loop(), otel_agenteval.session("s1"):
        with pytest.raises(otel_agenteval.AgentLoopDetected) as stopped:
            agent()
        assert stopped.value.verdict.kind == "identical_call"
        assert "look_up was called at least 3 times" in str(stopped.value)
    assert processor.force_flush()
    assert names(collector) == ["execute_tool look_up"] * 3 + ["a step of the framework", "invoke_agent guide"]
    root = collector.spans()[-1]
    marker = {item.key: item.value.int_value for item in root.attributes}
    assert marker["agenteval.trace.span_count"] == 5, "the call that was stopped was never open"


class Hasty:
    """An agent that calls a tool in vain, and takes no time for it."""

    def __init__(self, tracer: Tracer, before: Callable[[], None] = lambda: None) -> None:
        self._tracer = tracer
        self._before = before
        self.calls = 0

    def run(self) -> None:
        while self.calls < 100:
            self._before()
            call(self._tracer)
            self.calls += 1


@pytest.mark.parametrize("attempt", range(5))
def test_calls_that_take_no_time_stop_as_exactly(make: Make, attempt: int) -> None:
    processor, tracer = make(NOWHERE)
    agent = Hasty(tracer)
    with otel_agenteval.stop_on_loop(), otel_agenteval.session(f"s{attempt}"), running(tracer):
        with pytest.raises(otel_agenteval.AgentLoopDetected) as stopped:
            agent.run()
        assert (agent.calls, stopped.value.verdict.kind) == (3, "identical_call")
    assert processor.stats.faults == 0


def test_hooks_of_frameworks_stop_as_exactly(make: Make) -> None:
    _, tracer = make(NOWHERE)
    agent = Hasty(tracer, before=otel_agenteval.raise_if_looping)
    with otel_agenteval.session("s1"), running(tracer), pytest.raises(otel_agenteval.AgentLoopDetected):
        agent.run()
    assert agent.calls == 3


def test_trace_stays_stopped_and_the_session_goes_on(make: Make) -> None:
    processor, tracer = make(NOWHERE)
    with otel_agenteval.stop_on_loop(), otel_agenteval.session("s1"):
        with running(tracer):
            loop(tracer, processor)
            for again in (call, lambda tracer: ask(tracer, "Let me try that again."), call):
                with pytest.raises(otel_agenteval.AgentLoopDetected):
                    again(tracer)
        with running(tracer):
            call(tracer, "another question")


def test_alarm_whose_trace_is_over_stops_the_next_one_of_its_session(make: Make) -> None:
    processor, tracer = make(NOWHERE)
    otel_agenteval.stop_on_loop().disarm()
    with otel_agenteval.session("s1"), running(tracer):
        loop(tracer, processor)
    with otel_agenteval.stop_on_loop():
        with otel_agenteval.session("s2"), running(tracer):
            call(tracer)
        with otel_agenteval.session("s1"):
            with pytest.raises(otel_agenteval.AgentLoopDetected), running(tracer):
                call(tracer)
            with running(tracer):
                call(tracer)


def test_another_trace_of_the_session_goes_on_beside_the_one_that_loops(make: Make) -> None:
    processor, tracer = make(NOWHERE)
    with otel_agenteval.stop_on_loop(), otel_agenteval.session("s1"), running(tracer):
        loop(tracer, processor)
        with ThreadPoolExecutor(1) as pool:

            def other_trace() -> int:
                with otel_agenteval.session("s1"), otel_agenteval.stop_on_loop(), running(tracer):
                    return call(tracer)

            assert pool.submit(other_trace).result()
        with pytest.raises(otel_agenteval.AgentLoopDetected):
            call(tracer)


def test_two_traces_of_a_session_that_both_loop_both_stop(make: Make) -> None:
    processor, tracer = make(NOWHERE)
    with otel_agenteval.stop_on_loop(), otel_agenteval.session("s1"), running(tracer):
        loop(tracer, processor)
        first = copy_context()

        def other_trace() -> None:
            with otel_agenteval.session("s1"), otel_agenteval.stop_on_loop(), running(tracer):
                loop(tracer, processor, verdicts=2)
                with pytest.raises(otel_agenteval.AgentLoopDetected):
                    call(tracer)
                with pytest.raises(otel_agenteval.AgentLoopDetected):
                    first.run(call, tracer)

        with ThreadPoolExecutor(1) as pool:
            pool.submit(other_trace).result()


def test_plain_call_guards_the_process_until_it_is_taken_back(make: Make) -> None:
    processor, tracer = make(NOWHERE)
    guard = otel_agenteval.stop_on_loop()
    try:
        with otel_agenteval.session("s1"), running(tracer):
            loop(tracer, processor)
            with ThreadPoolExecutor(1) as pool:
                context = copy_context()
                with pytest.raises(otel_agenteval.AgentLoopDetected):
                    pool.submit(context.run, call, tracer).result()
            guard.disarm()
            call(tracer)
    finally:
        guard.disarm()


def test_threads_without_the_context_are_reached_by_the_plain_call_alone(make: Make) -> None:
    _, tracer = make(NOWHERE)

    def work(agent: Hasty) -> None:
        with otel_agenteval.session("s1"), running(tracer):
            agent.run()

    with otel_agenteval.stop_on_loop(), ThreadPoolExecutor(1) as pool:
        pool.submit(work, unguarded := Hasty(tracer)).result()
    guard = otel_agenteval.stop_on_loop()
    try:
        with ThreadPoolExecutor(1) as pool, pytest.raises(otel_agenteval.AgentLoopDetected):
            pool.submit(work, guarded := Hasty(tracer)).result()
    finally:
        guard.disarm()
    assert (unguarded.calls, guarded.calls) == (100, 0), "the alarm of the trace that is over stops the next one"


def test_only_what_runs_inside_is_guarded(make: Make) -> None:
    processor, tracer = make(NOWHERE)
    otel_agenteval.current_verdict()
    with otel_agenteval.session("s1"), running(tracer):
        loop(tracer, processor)
        with otel_agenteval.stop_on_loop(), pytest.raises(otel_agenteval.AgentLoopDetected):
            call(tracer)
        call(tracer)


def test_frameworks_that_hide_span_starts_can_ask(make: Make) -> None:
    processor, tracer = make(NOWHERE)
    otel_agenteval.raise_if_looping()
    with otel_agenteval.session("s1"), running(tracer):
        otel_agenteval.raise_if_looping()
        loop(tracer, processor)
        with pytest.raises(otel_agenteval.AgentLoopDetected):
            otel_agenteval.raise_if_looping()
    with otel_agenteval.session("s1"), running(tracer):
        otel_agenteval.raise_if_looping()


def test_calls_outside_spans_are_stopped_while_the_trace_that_loops_is_open(make: Make) -> None:
    processor, tracer = make(NOWHERE)
    otel_agenteval.stop_on_loop().disarm()
    with otel_agenteval.session("s1"):
        outside = copy_context()
        with running(tracer):
            loop(tracer, processor)
            for _ in range(2):
                with pytest.raises(otel_agenteval.AgentLoopDetected):
                    outside.run(otel_agenteval.raise_if_looping)
        otel_agenteval.raise_if_looping()
        with running(tracer):
            otel_agenteval.raise_if_looping()


def test_what_is_raised_passes_where_errors_of_tools_are_caught() -> None:
    verdict = Verdict(
        name="loop_detection",
        kind="cycle",
        mode=Mode.ALARM,
        session_id="s",
        trace_id="t",
        span_id="1",
        reason="round and round",
    )
    raised = otel_agenteval.AgentLoopDetected(verdict)
    assert not isinstance(raised, Exception)
    again = pickle.loads(pickle.dumps(raised))
    assert (again.verdict, str(again)) == (verdict, str(raised))


def test_agent_finishes_untouched_when_the_collector_dies(make: Make) -> None:
    heard: Queue[Verdict] = Queue()
    with FakeCollector() as mortal:
        processor, tracer = make(mortal.endpoint, on_verdict=heard.put, live=True)
        with otel_agenteval.session("s1"), running(tracer):
            call(tracer)
            assert processor.force_flush()
            mortal.stop()
            for _ in range(20):
                call(tracer, "other")
                ask(tracer, "Nothing was found, and so I try again.")
            call(tracer, "last")
    assert heard.get(timeout=30).metadata["tool"] == "other"
    before = threading.active_count()
    processor.shutdown()
    assert processor.stats.faults == 0
    eventually(lambda: threading.active_count() < before)
