"""Repeated answers and judged verdicts of a session reach every process that takes part in it."""

from pathlib import Path
from queue import Queue
from typing import Any

import grpc
import pytest

from otel_agenteval.finding import Mode
from otel_agenteval.proto.v1 import evaluation_pb2 as pb
from otel_agenteval.proto.v1.evaluation_pb2_grpc import EvaluationServiceStub
from otel_agenteval.verdict import Verdict
from tests.support.conversing import Agent
from tests.support.eventually import eventually
from tests.support.judge.judge_server import JudgeServer
from tests.support.looping import tool_span
from tests.support.otlp import trace_id, traces, turn
from tests.support.running_collector import RunningCollector

SAME = "I can only help with orders of our own shop."


def watch(collector: RunningCollector, process_id: str, missed_seconds: float = 0.0) -> grpc.Call:
    """A watch that is known to have begun."""
    request = pb.WatchRequest(process_id=process_id, missed_seconds=missed_seconds)
    call = EvaluationServiceStub(collector.channel).Watch(request, timeout=20)
    call.initial_metadata()
    return call


def say(collector: RunningCollector, number: int, answer: str, process: str) -> None:
    collector.send(traces(turn(number, f"question {number}", answer, session="s-1"), process=process))
    collector.scored(trace_id(number).hex())


def test_judged_verdicts_reach_the_agent_once_and_are_no_loops(tmp_path: Path) -> None:
    heard: Queue[Verdict] = Queue()
    with (
        JudgeServer(score=0.25) as judge,
        RunningCollector(tmp_path, judge={"base_url": judge.url}) as collector,
        Agent(collector.addresses["grpc"], on_verdict=heard.put) as agent,
    ):
        judged = agent.answer("Where is my booking?", "I could not find it.", session_id="s1")

        def settled() -> Any:
            document = collector.scored(judged)
            return document if document["status"] != "pending" else None

        document = eventually(settled)
        low = [each["name"] for each in document["outcomes"] if each["method"] == "llm" and each["success"] is False]
        assert "task_completion" in low
        verdicts = [heard.get(timeout=30) for _ in low]
        assert sorted(verdict.name for verdict in verdicts) == sorted(low)
        for verdict in verdicts:
            assert (verdict.kind, verdict.mode, verdict.session_id) == (None, Mode.OBSERVE, "s1")
            assert verdict.trace_id == judged
            assert verdict.reason.startswith(f"{verdict.name} is 0.25, below its threshold of")
        assert document["findings"] == []
        assert "agenteval_loops_total{" not in collector.get("/metrics")


def next_verdict(call: Any) -> pb.WatchResponse:
    return next(event for event in call if event.WhichOneof("event") != "lost")


def test_a_process_hears_of_the_traces_of_others_in_its_session(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        first, stranger = watch(collector, "p-1"), watch(collector, "p-3")
        say(collector, 1, SAME, "p-1")
        say(collector, 2, SAME, "p-2")
        say(collector, 3, SAME, "p-2")
        verdict = next_verdict(first).finding
        assert (verdict.kind, verdict.trace_id) == ("repeated_answer", trace_id(3).hex())
        collector.send(traces(turn(4, "a", "b", session="s-3"), process="p-3"))
        collector.scored(trace_id(4).hex())
        say(collector, 5, SAME, "p-3")
        assert next_verdict(stranger).finding.trace_id == trace_id(5).hex(), "and of nothing before it took part"


def test_who_was_away_hears_what_was_found_also_by_an_earlier_run(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        for number, process in ((1, "p-1"), (2, "p-2"), (3, "p-3"), (4, "p-3")):
            say(collector, number, SAME, process)
        back = watch(collector, "p-1", missed_seconds=60)
        assert [next_verdict(back).finding.trace_id for _ in (3, 4)] == [trace_id(3).hex(), trace_id(4).hex()]
    with RunningCollector(tmp_path) as collector:
        back, new = watch(collector, "p-1", missed_seconds=60), watch(collector, "p-1")
        say(collector, 5, SAME, "p-1")
        assert [next_verdict(back).finding.trace_id for _ in (3, 4, 5)] == [trace_id(n).hex() for n in (3, 4, 5)]
        assert next_verdict(new).finding.trace_id == trace_id(5).hex()


def test_who_takes_part_is_known_after_a_restart_of_the_collector(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        say(collector, 1, SAME, "p-1")
        say(collector, 2, SAME, "p-1")
    with RunningCollector(tmp_path) as collector:
        first = watch(collector, "p-1")
        say(collector, 3, SAME, "p-2")
        assert next_verdict(first).finding.trace_id == trace_id(3).hex()


@pytest.mark.parametrize("live", [True, False], ids=["told by its starts", "told by a span"])
def test_who_takes_part_by_a_running_trace_alone_hears_of_its_session(tmp_path: Path, live: bool) -> None:
    with RunningCollector(tmp_path, assembly={"settle": 3600.0, "silence": 3600.0}) as collector:
        if live:
            start = pb.SpanStart(trace_id=trace_id(9).hex(), span_id="a" * 16, session_id="s-1")
            stub = EvaluationServiceStub(collector.channel)
            stub.ReportStarts(pb.ReportStartsRequest(process_id="p-2", starts=[start]), timeout=20)
        else:
            collector.send(traces(tool_span(9, 1, session__id="s-1"), process="p-2"))
        second = watch(collector, "p-2")
        for number in (2, 3, 4):
            collector.send(traces(tool_span(1, number, session__id="s-1"), process="p-1"))
        assert next_verdict(second).finding.kind == "identical_call"
