"""Loops found by a running collector: in foreign telemetry, and as our processor reports them."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from agenteval_collector.app.collector import WATCHERS
from agenteval_collector.live.stage import NAMED_WITHIN
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_agenteval.proto.v1 import evaluation_pb2 as pb
from otel_agenteval.proto.v1.evaluation_pb2_grpc import EvaluationServiceStub
from tests.support.clock import ManualClock
from tests.support.crashing import CollectorProcess
from tests.support.eventually import eventually
from tests.support.looping import loops_in, root_span, tool_span
from tests.support.otlp import START, marked, span, span_id, trace_id, traces, turn
from tests.support.running_collector import RunningCollector

OPEN: dict[str, Any] = {"assembly": {"settle": 3600.0, "silence": 3600.0}}
"""Settings under which a trace without a marker stays open."""

LOOP = {
    "kind": "identical_call",
    "mode": "alarm",
    "reason": "search was called 3 times",
    "metadata": {"tool": "search"},
}


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[RunningCollector]:
    with RunningCollector(tmp_path, **OPEN) as collector:
        yield collector


def watch(collector: RunningCollector, **request: Any) -> Any:
    """A watch that is known to have begun."""
    call = EvaluationServiceStub(collector.channel).Watch(pb.WatchRequest(**request), timeout=20)
    call.initial_metadata()
    return call


def next_finding(call: Any) -> pb.Finding:
    return next(event.finding for event in call if event.WhichOneof("event") == "finding")


def loops(collector: RunningCollector) -> dict[str, float]:
    """How many loops were counted, by kind."""
    lines = [line for line in collector.get("/metrics").splitlines() if line.startswith("agenteval_loops_total{")]
    return {line.partition('agenteval_loop_kind="')[2].partition('"')[0]: float(line.split()[-1]) for line in lines}


def report(collector: RunningCollector, **request: Any) -> None:
    EvaluationServiceStub(collector.channel).ReportStarts(pb.ReportStartsRequest(**request), timeout=20)


def start(trace: int, number: int, **changes: Any) -> pb.SpanStart:
    said = {"name": f"span {number}", "started_at_unix_nano": START + number, **changes}
    return pb.SpanStart(trace_id=trace_id(trace).hex(), span_id=span_id(number).hex(), **said)


def test_a_loop_in_foreign_telemetry_is_told_while_its_trace_runs(collector: RunningCollector) -> None:
    call = watch(collector)
    for number in (2, 3, 4):
        collector.send(traces(tool_span(1, number, session__id="s-1")))
    finding = next_finding(call)
    assert (finding.kind, finding.severity, finding.mode, finding.session_id, finding.tool) == (
        "identical_call", "error", "alarm", "s-1", "search",
    )  # fmt: skip
    assert (finding.trace_id, finding.span_id) == (trace_id(1).hex(), span_id(4).hex())
    assert json.loads(finding.metadata_json)["span_ids"] == [span_id(number).hex() for number in (2, 3, 4)]
    document = collector.get(f"/api/v1/traces/{trace_id(1).hex()}")
    assert document["status"] == "running"
    assert [(each["kind"], each["span_id"]) for each in loops_in(document)] == [
        ("identical_call", span_id(4).hex()),
    ]
    [session] = collector.get("/api/v1/sessions")["items"]
    assert (session["session_id"], session["status"], session["trace_count"]) == ("s-1", "running", 0)
    assert [each["trace_id"] for each in loops_in(session)] == [trace_id(1).hex()]
    # Watchers are told before it is counted.
    eventually(lambda: loops(collector) == {"identical_call": 1})


def test_a_loop_that_is_found_at_completion_counts_for_the_service_that_it_is_in(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        # In this order none of them is looked at before the trace is complete.
        for number in (4, 3, 2):
            collector.send(traces(tool_span(1, number), service="other"))
        collector.send(traces(root_span(1), service="shop"))
        collector.scored(trace_id(1).hex())
        [line] = [line for line in collector.get("/metrics").splitlines() if line.startswith("agenteval_loops_total{")]
    assert 'service_name="other"' in line


def test_a_loop_that_was_told_live_is_not_told_again_when_the_trace_is_complete(collector: RunningCollector) -> None:
    call = watch(collector)
    for number in (2, 3, 4):
        collector.send(traces(tool_span(1, number)))
    next_finding(call)
    collector.send(traces(marked(root_span(1, session="s-1"), 4, "p")))
    document = collector.scored(trace_id(1).hex())
    assert [each["kind"] for each in loops_in(document)] == ["identical_call"]
    assert [each["kind"] for each in loops_in(collector.get("/api/v1/sessions/s-1"))] == ["identical_call"]
    assert loops(collector) == {"identical_call": 1}


def nameless(*numbers: int, trace: int = 1) -> list[Span]:
    """Equal calls that do not say whose they are, as foreign instrumentations make them."""
    calls = [tool_span(trace, number) for number in numbers]
    for item in calls:
        kept = [pair for pair in item.attributes if pair.key != "gen_ai.agent.name"]
        del item.attributes[:]
        item.attributes.extend(kept)
    return calls


def test_a_loop_of_whom_nobody_knew_is_named_when_its_trace_is_complete_and_counts_then(
    collector: RunningCollector,
) -> None:
    """The names that only some instrumentations give agents are known when the trace is read as a whole."""
    everything = watch(collector)
    of_trace = watch(collector, session_id=trace_id(1).hex())
    for item in nameless(2, 3, 4):
        collector.send(traces(item))
    told = next_finding(everything)
    assert (told.session_id, told.agent) == (next_finding(of_trace).session_id, "") == (trace_id(1).hex(), "")
    assert loops(collector) == {}
    root = span(1, 1, traceloop__span__kind="agent", traceloop__entity__name="guide", session__id="s-1")
    root.end_time_unix_nano = START + 10_000_000_000
    collector.send(traces(marked(root, 4, "p")))
    [found] = loops_in(collector.scored(trace_id(1).hex()))
    assert (found["agent"], found["turn"]) == ("guide", 0)
    assert [each["agent"] for each in loops_in(collector.get("/api/v1/sessions/s-1"))] == ["guide"]
    eventually(lambda: loops(collector) == {"identical_call": 1})
    assert 'gen_ai_agent_name="guide"' in collector.get("/metrics").partition("agenteval_loops_total{")[2]
    # What comes next is the first that the others hear of since.
    for number in (2, 3, 4):
        collector.send(traces(tool_span(2, number, session__id="s-2")))
    assert next_finding(everything).trace_id == trace_id(2).hex()


def test_an_agent_with_rules_of_its_own_is_not_told_of_before_its_root_has_named_it(tmp_path: Path) -> None:
    """A model call of some seconds, and the trace looks complete without its root."""
    rules = {"agents": {"planner": {"identical_call": {"mode": "off"}}}}
    with RunningCollector(tmp_path, loops=rules) as collector:
        collector.send(traces(*nameless(2, 3, 4)))
        assert loops_in(collector.scored(trace_id(1).hex())) == []
        collector.send(traces(root_span(1)))
        assert loops_in(collector.scored(trace_id(1).hex(), revision=2)) == []
        # Its agent is known by nobody, and there is no root to come.
        calls = nameless(2, 3, 4, trace=2)
        for item in calls:
            item.flags = 0x300
        collector.send(traces(*calls))
        assert [each["kind"] for each in loops_in(collector.scored(trace_id(2).hex()))] == ["identical_call"]


def test_what_nobody_names_is_counted_after_a_while(tmp_path: Path) -> None:
    clock = ManualClock()
    with RunningCollector(tmp_path, clock, **OPEN) as collector:
        call = watch(collector)
        for item in nameless(2, 3, 4):
            collector.send(traces(item))
        next_finding(call)
        clock.advance(NAMED_WITHIN + 2)
        eventually(lambda: loops(collector) == {"identical_call": 1})


def test_what_its_spans_do_not_tell_is_found_when_the_trace_is_complete(collector: RunningCollector) -> None:
    """Without results on their spans, equal calls may be polling: the messages of the trace may tell."""
    silent = [tool_span(1, number) for number in (2, 3, 4)]
    for item in silent:
        kept = [pair for pair in item.attributes if pair.key != "gen_ai.tool.call.result"]
        del item.attributes[:]
        item.attributes.extend(kept)
        collector.send(traces(item))
    collector.send(traces(marked(root_span(1), 4, "p")))
    [finding] = loops_in(collector.scored(trace_id(1).hex()))
    assert (finding["kind"], finding["mode"]) == ("identical_call", "observe")
    assert loops(collector) == {}


def test_a_loop_that_travels_on_its_span_is_taken_over_and_nothing_is_looked_for_again(
    collector: RunningCollector,
) -> None:
    call = watch(collector)
    carried = {"agenteval__findings": json.dumps([{**LOOP, "kind": "cycle"}])}
    for number in (2, 3, 4):
        item = tool_span(1, number, agenteval__detectors="1", **(carried if number == 4 else {}))
        collector.send(traces(item, process="p-1"))
    finding = next_finding(call)
    assert (finding.kind, finding.span_id, finding.reason) == ("cycle", span_id(4).hex(), LOOP["reason"])
    collector.send(traces(marked(root_span(1), 4, "p-1"), process="p-1"))
    assert [each["kind"] for each in loops_in(collector.scored(trace_id(1).hex()))] == ["cycle"]
    assert loops(collector) == {"cycle": 1}


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("[", id="no JSON"),
        pytest.param("[" * 100_000, id="JSON of any depth"),
        pytest.param('{"kind": "cycle"}', id="no list"),
        pytest.param(json.dumps([{**LOOP, "reason": "x" * 300_000}]), id="more than anybody reads"),
        pytest.param('[1, null, "cycle"]', id="no objects"),
        pytest.param(json.dumps([{**LOOP, "kind": "made up"}]), id="a kind that is none"),
        pytest.param(json.dumps([{**LOOP, "mode": "off"}]), id="a mode that tells of nothing"),
        pytest.param(json.dumps([{**LOOP, "kind": ["cycle"], "mode": {}}]), id="no texts"),
    ],
)
def test_what_is_no_finding_is_passed_over(collector: RunningCollector, said: str) -> None:
    item = tool_span(1, 2, agenteval__detectors="1", agenteval__findings=said)
    collector.send(traces(item, marked(root_span(1), 2, "p"), process="p"))
    assert loops_in(collector.scored(trace_id(1).hex())) == []
    assert loops(collector) == {}


def test_a_hostile_finding_is_cut_to_what_can_be_kept(collector: RunningCollector) -> None:
    said = {**LOOP, "reason": "\ud800" + "x" * 2000, "metadata": {"deep": "y" * 9000}, "agent": 7}
    item = tool_span(1, 2, agenteval__detectors="1", agenteval__findings=json.dumps([said] * 17))
    collector.send(traces(item, marked(root_span(1), 2, "p"), process="p"))
    [finding] = loops_in(collector.scored(trace_id(1).hex()))
    assert (len(finding["reason"]), finding["metadata"]) == (1000, {})


def test_a_process_hears_of_its_own_traces_only(collector: RunningCollector) -> None:
    own, other = watch(collector, process_id="p-1"), watch(collector, process_id="p-2")
    for trace, process in ((1, "p-1"), (2, "p-2")):
        for number in (2, 3, 4):
            collector.send(traces(tool_span(trace, number), process=process))
    assert next_finding(own).trace_id == trace_id(1).hex()
    assert next_finding(other).trace_id == trace_id(2).hex()


def test_a_repeated_answer_is_found_on_the_turn_that_repeats(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        call = watch(collector, process_id="p")
        for number in (1, 2, 3):
            said = turn(number, f"question {number}", "I can only help with orders of our own shop.", session="s-1")
            collector.send(traces(said, process="p"))
            collector.scored(trace_id(number).hex())
        finding = next_finding(call)
        assert (finding.kind, finding.trace_id, finding.session_id) == ("repeated_answer", trace_id(3).hex(), "s-1")
        assert json.loads(finding.metadata_json)["threshold"] == 0.5
        eventually(lambda: loops(collector) == {"repeated_answer": 1})


def test_what_is_only_to_be_observed_is_told_and_stored_but_not_counted(tmp_path: Path) -> None:
    with RunningCollector(tmp_path, loops={"identical_call": {"mode": "observe"}}, **OPEN) as collector:
        call = watch(collector)
        for number in (2, 3, 4):
            collector.send(traces(tool_span(1, number)))
        assert next_finding(call).mode == "observe"
        [finding] = loops_in(collector.get(f"/api/v1/traces/{trace_id(1).hex()}"))
        assert finding["mode"] == "observe"
        assert loops(collector) == {}


def test_reported_starts_show_what_runs_before_any_span_has_arrived(collector: RunningCollector) -> None:
    starts = [start(1, 1, session_id="s-9", agent="planner"), start(1, 2, session_id="s-9")]
    report(collector, process_id="p-1", service="shop", starts=starts)
    [session] = collector.get("/api/v1/sessions")["items"]
    assert {key: session[key] for key in ("session_id", "agent", "services", "status", "running_traces")} == {
        "session_id": "s-9", "agent": "planner", "services": ["shop"], "status": "running",
        "running_traces": [trace_id(1).hex()],
    }  # fmt: skip
    assert collector.get("/api/v1/sessions/s-9")["trace_ids"] == []
    document = collector.get(f"/api/v1/traces/{trace_id(1).hex()}")
    assert (document["status"], document["status_reason"], document["span_count"]) == ("running", None, 0)
    assert [each["span_id"] for each in document["open_spans"]] == [span_id(1).hex(), span_id(2).hex()]

    collector.send(traces(tool_span(1, 2), process="p-1"))

    def open_spans() -> Any:
        return collector.get(f"/api/v1/traces/{trace_id(1).hex()}")["open_spans"]

    eventually(lambda: [each["span_id"] for each in open_spans()] == [span_id(1).hex()])
    collector.send(traces(marked(root_span(1, session="s-9"), 2, "p-1"), process="p-1"))
    assert collector.scored(trace_id(1).hex())["open_spans"] == []


def test_a_loop_on_an_open_span_is_taken_from_the_report(collector: RunningCollector) -> None:
    call = watch(collector, process_id="p-1")
    hung = pb.Finding(
        kind="hung_span", mode="alarm", reason="search has been open for 600 s",
        trace_id=trace_id(1).hex(), span_id=span_id(2).hex(), metadata_json=b'{"silent_seconds": 600}',
    )  # fmt: skip
    for _ in range(2):
        report(collector, process_id="p-1", service="shop", starts=[start(1, 2, agent="planner")], findings=[hung])
    assert next_finding(call).reason == hung.reason
    [finding] = loops_in(collector.get(f"/api/v1/traces/{trace_id(1).hex()}"))
    assert (finding["kind"], finding["agent"]) == ("hung_span", "planner")
    eventually(lambda: loops(collector) == {"hung_span": 1})


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        pytest.param({}, "process_id has 0 characters", id="no process"),
        pytest.param({"process_id": "p", "starts": [pb.SpanStart(trace_id="x")]}, "trace_id is 'x'", id="no trace id"),
        pytest.param(
            {"process_id": "p", "findings": [pb.Finding(trace_id="0" * 32, span_id="0" * 16, metadata_json=b"[")]},
            "metadata_json is no JSON",
            id="metadata that is none",
        ),
        pytest.param({"process_id": "p", "starts": [start(1, 1)] * 10_001}, "10001 starts", id="too much"),
    ],
)
def test_a_report_that_is_none_is_refused(collector: RunningCollector, request_: Any, message: str) -> None:
    with pytest.raises(grpc.RpcError) as error:
        report(collector, **request_)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert message in error.value.details()


def test_as_many_agents_as_may_watch_leave_ingestion_alone(collector: RunningCollector) -> None:
    watches = [watch(collector, process_id=f"p-{number}") for number in range(WATCHERS * 3 // 4)]
    with pytest.raises(grpc.RpcError) as error:
        watch(collector).next()
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    for number in (2, 3, 4):
        collector.send(traces(tool_span(1, number), process="p-7"))
    assert next_finding(watches[7]).trace_id == trace_id(1).hex()
    for call in watches:
        call.cancel()


@pytest.mark.slow
def test_after_a_kill_no_loop_is_counted_twice(tmp_path: Path) -> None:
    looping = [tool_span(1, number) for number in (2, 3, 4)]
    process = CollectorProcess(tmp_path)
    process.send(traces(*looping, marked(root_span(1, session="s-1"), 4, "p")))
    path = f"/api/v1/traces/{trace_id(1).hex()}"
    eventually(lambda: (process.get(path) or {}).get("findings"))
    process.stop(signal.SIGKILL)
    # Late spans have the whole trace looked at again; one that is open is read from the log again.
    process.start()
    process.send(traces(marked(tool_span(1, 9, result="sunny"), 5, "p")))
    process.send(traces(*(tool_span(2, number) for number in (2, 3, 4))))
    running = f"/api/v1/traces/{trace_id(2).hex()}"
    eventually(lambda: (process.get(path) or {}).get("revision") == 2)
    eventually(lambda: (process.get(running) or {}).get("findings"))
    process.stop(signal.SIGKILL)
    process.start()
    process.send(traces(marked(root_span(2), 4, "p")))
    eventually(lambda: (process.get(running) or {}).get("complete"))
    assert [each["kind"] for each in loops_in(process.get(running))] == ["identical_call"]
    assert [each["kind"] for each in loops_in(process.get(path))] == ["identical_call"]
    assert "agenteval_loops_total{" not in process.get("/metrics")
    process.stop(signal.SIGTERM)


@pytest.mark.slow
def test_a_kill_before_the_root_came_costs_no_name_and_no_count(tmp_path: Path) -> None:
    process = CollectorProcess(tmp_path)
    for item in nameless(2, 3, 4):
        process.send(traces(item))
    path = f"/api/v1/traces/{trace_id(1).hex()}"
    eventually(lambda: (process.get(path) or {}).get("findings"))
    process.stop(signal.SIGKILL)
    process.start()
    process.send(traces(marked(root_span(1, session="s-1"), 4, "p")))
    eventually(lambda: (process.get(path) or {}).get("complete"))
    assert [(each["kind"], each["agent"]) for each in loops_in(process.get(path))] == [("identical_call", "planner")]
    counted = 'agenteval_loop_kind="identical_call",gen_ai_agent_name="planner"'
    eventually(lambda: counted in process.get("/metrics"))
    process.stop(signal.SIGTERM)
