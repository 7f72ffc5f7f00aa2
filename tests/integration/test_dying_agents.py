"""Agents and collectors that die in the middle of a trace: how that is told, and what is known after it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.cli.command_line import command_line
from agenteval_collector.live.open_spans import FORGOTTEN_AFTER, GONE_AFTER
from typer.testing import CliRunner

from otel_agenteval.proto.v1 import evaluation_pb2 as pb
from otel_agenteval.proto.v1.evaluation_pb2_grpc import EvaluationServiceStub
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.looping import root_span, tool_span
from tests.support.otlp import START, marked, span, span_id, trace_id, traces
from tests.support.running_collector import RunningCollector

DIED = (
    "the agent died in the middle: nothing was heard of its process after 2023-11-14T22:13:20Z, when there were open: "
)


@contextmanager
def dying_agent(address: str, calls: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process with our processor, which is in the middle of a trace; and that trace's id."""
    command = [sys.executable, "-m", "tests.support.dying_agent", address, str(calls)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.parametrize("calls", [2, 0], ids=["after two calls", "before anything of it has arrived"])
def test_an_agent_that_is_killed_is_reported_as_such(tmp_path: Path, calls: int) -> None:
    clock = ManualClock()
    with RunningCollector(tmp_path, clock) as collector:
        with dying_agent(collector.addresses["grpc"], calls) as (process, trace):
            path = f"/api/v1/traces/{trace}"
            eventually(lambda: len((collector.get(path) or {"open_spans": []})["open_spans"]) == 2)
            assert collector.get("/api/v1/sessions/s-1")["status"] == "running"
            process.kill()
            process.wait(10)
        clock.advance(GONE_AFTER + 1)
        document = collector.scored(trace)
        died = document["status_reason"]
        root, model = document["open_spans"]
        assert (root["name"], model["name"]) == ("invoke_agent guide", "chat small")
        began = [f"{each['name']} (since {each['started_at'][:19]}Z)" for each in (model, root)]
        assert died == f"{DIED}{', '.join(began)}"
        assert (document["agent"], document["session_id"], document["service"]) == ("guide", "s-1", "booking")
        assert (document["span_count"], document["partial"]) == (calls, True)
        session = eventually(lambda: running_no_more(collector))
        assert (session["status"], session["agent"], session["trace_count"]) == ("active", "guide", 1)
        assert session["status_reason"] == f"trace {trace}: {died}"
        url = f"http://{collector.addresses['web']}"
        for command in (["sessions"], ["session", "s-1"], ["trace", trace], ["why", trace]):
            shown = piped(*command, "--url", url)
            assert "he agent died in the middle" in shown, command
            assert "invoke_agent guide (since" in shown, command
        for page in ("/", "/sessions/s-1", f"/traces/{trace}"):
            assert "the agent died in the middle" in collector.get(page)
    # It is known for good.
    with RunningCollector(tmp_path, clock) as collector:
        assert collector.get(path)["status_reason"] == died
        assert collector.get("/api/v1/sessions/s-1")["status_reason"] == f"trace {trace}: {died}"


def piped(*arguments: str) -> str:
    """What `agenteval` writes where there is no terminal, in one line."""
    result = CliRunner().invoke(command_line(), list(arguments))
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def running_no_more(collector: RunningCollector) -> Any:
    [session] = collector.get("/api/v1/sessions")["items"]
    assert session["status"] in ("running", "active")
    return session if session["status"] != "running" and not session["running_traces"] else None


class Agent:
    """A process that reports by hand what it has begun in trace 1."""

    def __init__(self, collector: RunningCollector) -> None:
        self._stub = EvaluationServiceStub(collector.channel)

    def report(self, *numbers: int, **request: Any) -> None:
        starts = [
            pb.SpanStart(
                trace_id=trace_id(1).hex(), span_id=span_id(number).hex(), name=f"span {number}", session_id="s-1",
                agent="planner", started_at_unix_nano=START,
            )
            for number in numbers
        ]  # fmt: skip
        request = {"process_id": "p-1", "service": "shop", **request}
        self._stub.ReportStarts(pb.ReportStartsRequest(starts=starts, **request), timeout=20)


PATH = f"/api/v1/traces/{trace_id(1).hex()}"
OPEN: dict[str, Any] = {"assembly": {"settle": 3600.0, "silence": 3600.0}}


def test_a_long_model_call_is_no_death(tmp_path: Path) -> None:
    clock = ManualClock()
    with RunningCollector(tmp_path, clock) as collector:
        agent = Agent(collector)
        for _ in range(20):
            agent.report(1)
            clock.advance(GONE_AFTER)
        document = collector.get(PATH)
        assert (document["status"], document["status_reason"], document["complete"]) == ("running", None, False)


def test_an_agent_that_was_only_suspended_goes_on(tmp_path: Path) -> None:
    clock = ManualClock()
    with RunningCollector(tmp_path, clock, **OPEN) as collector:
        agent = Agent(collector)
        agent.report(1)
        clock.advance(GONE_AFTER + 1)
        assert collector.scored(trace_id(1).hex())["status_reason"] is not None
        eventually(lambda: running_no_more(collector))
        agent.report(1)
        document = collector.get(PATH)
        assert (document["status"], document["status_reason"], document["complete"]) == ("running", None, False)
        session = collector.get("/api/v1/sessions/s-1")
        assert (session["status"], session["running_traces"]) == ("running", [trace_id(1).hex()])
        assert session["status_reason"] is None
        [listed] = collector.get("/api/v1/sessions")["items"]
        assert (listed["status"], listed["status_reason"]) == ("running", None)
        collector.send(traces(tool_span(1, 2), marked(root_span(1, session="s-1"), 2, "p-1"), process="p-1"))
        document = collector.scored(trace_id(1).hex(), revision=2)
        assert (document["status_reason"], document["open_spans"], document["partial"]) == (None, [], False)
        assert collector.get("/api/v1/sessions/s-1")["status_reason"] is None


def test_a_running_trace_is_of_the_agent_whose_span_is_open(tmp_path: Path) -> None:
    with RunningCollector(tmp_path, **OPEN) as collector:
        Agent(collector).report(1)
        assert collector.get(PATH)["agent"] == "planner"
        collector.send(traces(span(1, 2, parent=1, gen_ai__operation__name="execute_tool"), process="p-1"))
        document = eventually(lambda: found if (found := collector.get(PATH))["span_count"] == 1 else None)
        assert (document["agent"], document["session_id"], document["service"]) == ("planner", "s-1", "shop")
        [session] = collector.get("/api/v1/sessions")["items"]
        assert (session["agent"], session["session_id"]) == ("planner", "s-1")


def test_a_death_stands_when_spans_of_another_process_come_late(tmp_path: Path) -> None:
    clock = ManualClock()
    with RunningCollector(tmp_path, clock) as collector:
        Agent(collector).report(1)
        clock.advance(GONE_AFTER + 1)
        collector.scored(trace_id(1).hex())
        collector.send(traces(marked(tool_span(1, 3), 1), process="p-2"))
        eventually(lambda: collector.get(PATH)["span_count"] == 1)
        clock.advance(1.0)
        document = collector.scored(trace_id(1).hex(), revision=2)
        assert document["status_reason"].startswith("the agent died in the middle")
        clock.advance(FORGOTTEN_AFTER)
        assert collector.get(PATH)["status_reason"].startswith("the agent died in the middle")


def test_what_a_process_tells_again_is_known_after_a_restart_of_the_collector(tmp_path: Path) -> None:
    hung = pb.Finding(
        kind="hung_span", mode="alarm", reason="search has been open for 600 s",
        session_id="s-1", trace_id=trace_id(1).hex(), span_id=span_id(2).hex(), metadata_json=b"{}",
    )  # fmt: skip
    with RunningCollector(tmp_path) as collector:
        Agent(collector).report(1, 2, findings=[hung])
    with RunningCollector(tmp_path) as collector:
        document = collector.get(PATH)
        assert [each["kind"] for each in document["findings"]] == ["hung_span"]
        assert (document["status"], document["session_id"]) == ("running", "s-1")
        assert document["status_reason"].startswith("no process has told of it since")
        Agent(collector).report(1, 2)
        document = collector.get(PATH)
        assert document["status_reason"] is None
        assert (document["status"], [each["kind"] for each in document["findings"]]) == ("running", ["hung_span"])
        [session] = collector.get("/api/v1/sessions")["items"]
        assert (session["status"], session["running_traces"]) == ("running", [trace_id(1).hex()])
        assert [each["kind"] for each in session["findings"]] == ["hung_span"]


def test_what_was_complete_as_far_as_a_new_collector_knew_runs_as_soon_as_it_is_told(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        collector.send(traces(marked(tool_span(1, 2, session__id="s-1"), 1), process="p-1"))
        collector.scored(trace_id(1).hex())
        Agent(collector).report(1)
        document = collector.get(PATH)
        assert (document["status"], document["complete"], len(document["open_spans"])) == ("running", False, 1)
        session = collector.get("/api/v1/sessions/s-1")
        assert (session["status"], session["agent"]) == ("running", "planner")
