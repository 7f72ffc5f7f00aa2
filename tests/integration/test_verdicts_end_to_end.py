"""An agent, its processor and a real collector: what either finds, both know, once."""

import json
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import format_trace_id

import otel_agenteval
from otel_agenteval.verdict import Verdict
from tests.support.agent_spans import call, running
from tests.support.eventually import eventually
from tests.support.looping import loops_in
from tests.support.running_collector import RunningCollector
from tests.support.spans import answer, user

ANSWER = "I am sorry, I could not find your booking. Could you tell me its number, please?"


class Agent:
    """Answers the same whatever it is asked; its verdicts stand in `heard`."""

    def __init__(self, collector: RunningCollector) -> None:
        self.heard: Queue[Verdict] = Queue()
        self.processor = otel_agenteval.AgentEvalSpanProcessor(
            f"http://{collector.addresses['grpc']}", on_verdict=self.heard.put, live=True, shutdown_timeout=2
        )
        self._provider = TracerProvider(resource=Resource.create({"service.name": "booking"}), shutdown_on_exit=False)
        self._provider.add_span_processor(self.processor)
        self.tracer = self._provider.get_tracer("agent")

    def answer(self, question: str, calls: int = 0) -> str:
        said = {
            "gen_ai.input.messages": json.dumps([user(question)]),
            "gen_ai.output.messages": json.dumps([answer(ANSWER)]),
        }
        with otel_agenteval.session("s1"), running(self.tracer, **said) as root:
            for _ in range(calls):
                call(self.tracer)
            return format_trace_id(root.get_span_context().trace_id)


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[RunningCollector]:
    with RunningCollector(tmp_path) as collector:
        yield collector


def test_loop_found_in_the_agent_is_known_to_the_collector_once(collector: RunningCollector) -> None:
    agent = Agent(collector)
    trace_id = agent.answer("Where is my booking?", calls=4)
    assert agent.heard.get(timeout=30).kind == "identical_call"
    document = collector.scored(trace_id)
    found = eventually(lambda: loops_in(collector.get(f"/api/v1/traces/{trace_id}")))
    assert [each["kind"] for each in found] == ["identical_call"]
    assert document["complete"]
    assert agent.heard.empty(), "what the collector says of it is known here"
    counted = eventually(lambda: [line for line in loops(collector) if "identical_call" in line])
    assert [line.rpartition(" ")[2] for line in counted] == ["1.0"]
    agent.processor.shutdown()


def test_loop_across_traces_reaches_the_agent(collector: RunningCollector) -> None:
    agent = Agent(collector)
    for question in ("Where is my booking?", "Is it under Miller?", "Then try Smith.", "And under Jones?"):
        collector.scored(agent.answer(question))
    verdict = agent.heard.get(timeout=30)
    assert (verdict.kind, verdict.session_id) == ("repeated_answer", "s1")
    with otel_agenteval.session("s1"):
        assert otel_agenteval.current_verdict() is not None
    agent.processor.shutdown()


def test_loop_found_while_the_stream_is_away_reaches_the_agent_once(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        agent = Agent(collector)
        collector.scored(agent.answer("Where is my booking?"))
        collector.scored(agent.answer("Is it under Jones?"))
        address = collector.addresses["grpc"]
    again = agent.answer("Is it under Miller?")
    with RunningCollector(tmp_path, server={"grpc_address": address}) as collector:
        collector.scored(again)
        verdict = agent.heard.get(timeout=30)
        assert (verdict.kind, verdict.trace_id) == ("repeated_answer", again)
        collector.scored(agent.answer("Then try Smith."))
        assert agent.heard.get(timeout=30).trace_id != again
        assert agent.heard.empty()
        agent.processor.shutdown()


def test_running_trace_is_seen_before_any_span_of_it_ends(collector: RunningCollector) -> None:
    agent = Agent(collector)
    with otel_agenteval.session("s1"), running(agent.tracer) as root:
        trace_id = format_trace_id(root.get_span_context().trace_id)
        document = eventually(lambda: collector.get(f"/api/v1/traces/{trace_id}"))
        assert document["status"] == "running"
        assert [span["name"] for span in document["open_spans"]] == ["invoke_agent guide"]
    agent.processor.shutdown()


def loops(collector: RunningCollector) -> list[str]:
    return [line for line in collector.get("/metrics").splitlines() if line.startswith("agenteval_loops_total")]
