import json
import re
import resource
import shutil
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from agenteval_collector.app.collector import Collector
from agenteval_collector.cli.command_line import command_line
from agenteval_collector.cli.offline_replay import replay
from agenteval_collector.cli.recordings import Recorded, read_recording
from agenteval_collector.model.logged_requests import Signal
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from typer.testing import CliRunner

from otel_agenteval.proto.v1 import evaluation_pb2 as pb
from otel_agenteval.proto.v1.evaluation_pb2_grpc import EvaluationServiceStub
from tests.support import asking
from tests.support.clock import ManualClock
from tests.support.crashing import CollectorProcess
from tests.support.eventually import eventually
from tests.support.otlp import marked, span, trace_id, traces, turn
from tests.support.recordings import recordings
from tests.support.running_collector import RunningCollector, settings

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[RunningCollector]:
    with RunningCollector(tmp_path) as running:
        yield running


def outcomes(document: Any) -> dict[str, Any]:
    return {outcome["name"]: outcome for outcome in document["outcomes"]}


def test_a_trace_is_scored_and_seen_everywhere(collector: RunningCollector) -> None:
    service = EvaluationServiceStub(collector.channel)
    stream = service.Watch(pb.WatchRequest(session_id="s"), timeout=30)
    stream.initial_metadata()
    collector.send(traces(turn(1, "Where is my order?", "Your order is on its way.", session="s")))
    collector.send(traces(turn(2, "Where is my order?", "Your order is on its way.", session="s")))

    document = collector.scored(trace_id(2).hex())
    assert (document["status"], document["session_id"], document["agent"]) == ("scored", "s", "planner")
    assert outcomes(document)["loop_detection"]["score"] == pytest.approx(0.0, abs=1e-6)
    assert (outcomes(document)["loop_detection"]["threshold"], outcomes(document)["loop_detection"]["success"]) == (
        None,
        None,
    )
    assert outcomes(document)["task_completion"]["status"] == "no_judge"

    session = collector.get("/api/v1/sessions/s")
    assert session["trace_ids"] == [trace_id(1).hex(), trace_id(2).hex()]
    assert session["flagged_traces"] == []
    assert {each["status"] for each in session["outcomes"]} == {"no_judge"}
    assert outcomes(session)["agent_reliability"]["reason"] == (
        "confidence takes a judge; coherence has weight 0 with the embedded embedder; "
        "coverage 0.20 is below session.min_coverage 0.5"
    )

    # Of traces that are committed together the session is told of once, behind them.
    missing = {("trace", "coherence"), ("trace", "loop_detection"), ("session", "agent_reliability")}
    while missing:
        told = next(stream).outcome
        missing.discard((told.subject, told.name))
    stream.cancel()
    scrape = collector.get("/metrics")
    assert "agenteval_loops_total{" not in scrape, "who asks the same may be given the same"
    assert "agenteval_collector_spans_received_total 2.0" in scrape
    shown = set(re.findall(r"^# TYPE (agenteval_collector_\w+)", scrape, re.MULTILINE))
    assert "agenteval_collector_memory_bytes" in shown
    assert shown - set(re.findall(r"`(agenteval_collector_\w+)`", OPERATIONS.read_text())) == set()
    [unjudged] = [
        line
        for line in scrape.splitlines()
        if line.startswith("agenteval_evaluation_outcomes_total{") and '"task_completion"' in line
    ]
    assert 'agenteval_status="no_judge"' in unjudged
    assert "score_label" not in unjudged
    assert "agenteval_sessions_low{" not in scrape


def test_a_trace_that_lost_a_span_to_a_limit_is_partial(tmp_path: Path) -> None:
    with RunningCollector(tmp_path, server={"max_span_bytes": 2_000}) as collector:
        huge = span(1, 2, parent=1, result="x" * 4_000)
        whole = turn(1, "hi", "hello")
        whole.attributes[-1].value.int_value = 2
        response = collector.send(traces(huge, whole))
        assert response.partial_success.rejected_spans == 1
        document = collector.scored(trace_id(1).hex())
        assert (document["complete"], document["partial"], document["span_count"]) == (True, True, 1)


def test_a_refused_request_is_counted_by_the_type_of_its_error(collector: RunningCollector) -> None:
    export = collector.channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export", bytes, bytes)
    with pytest.raises(grpc.RpcError):
        export(b"no protobuf", timeout=10)
    scrape = collector.get("/metrics")
    assert 'agenteval_collector_requests_refused_total{error_type="InvalidRequest"} 1.0' in scrape


def test_a_final_score_is_watched_once(collector: RunningCollector) -> None:
    service = EvaluationServiceStub(collector.channel)
    stream = service.Watch(pb.WatchRequest(session_id="s", names=["agent_reliability"]), timeout=30)
    stream.initial_metadata()
    for number in (1, 2):
        collector.send(traces(turn(number, "hi", f"answer {number}", session="s")))
        collector.scored(trace_id(number).hex())
    service.EndSession(pb.EndSessionRequest(session_id="s"), timeout=10)
    eventually(lambda: _session_scores(collector) == 1)
    collector.send(traces(turn(3, "hi", "answer 3", session="s")))
    watched = [next(stream).outcome.revision for _ in range(3)]
    stream.cancel()
    assert watched == [1, 2, 3]


def test_a_session_is_running_while_a_trace_of_it_is(tmp_path: Path) -> None:
    with RunningCollector(tmp_path, assembly={"silence": 600}) as collector:
        collector.send(traces(turn(1, "hi", "answer 1", session="s")))
        collector.scored(trace_id(1).hex())
        collector.send(traces(span(2, 1, parent=2, **dict[str, Any]({"session.id": "s"}))))
        eventually(lambda: collector.get("/api/v1/sessions/s")["status"] == "running")
        [item] = collector.get("/api/v1/sessions")["items"]
        assert item["status"] == "running"

        collector.send(traces(marked(span(2, 2), 2, "p")))
        eventually(lambda: collector.get("/api/v1/sessions/s")["status"] == "active")


def test_an_ended_session_is_counted_once_also_when_it_goes_on(collector: RunningCollector) -> None:
    service = EvaluationServiceStub(collector.channel)
    collector.send(traces(turn(1, "hi", "answer 1", session="s"), turn(2, "hi", "answer 2", session="s")))
    collector.scored(trace_id(2).hex())
    for number in (3, 4):
        assert collector.get("/api/v1/sessions/s")["status"] == "active"
        service.EndSession(pb.EndSessionRequest(session_id="s"), timeout=10)
        eventually(lambda: _session_scores(collector) == 1)
        assert collector.get("/api/v1/sessions/s")["status"] == "ended"
        collector.send(traces(turn(number, "hi", f"answer {number}", session="s")))
        collector.scored(trace_id(number).hex())
    assert _session_scores(collector) == 1


def test_an_end_holds_for_turns_that_were_on_the_way(tmp_path: Path) -> None:
    clock = ManualClock()
    with RunningCollector(tmp_path, clock, assembly={"settle_logs": 60}) as collector:
        service = EvaluationServiceStub(collector.channel)

        def say(number: int) -> None:
            collector.send(traces(turn(number, "hi", f"answer {number}", session="s")))
            collector.scored(trace_id(number).hex())

        def status() -> Any:
            return collector.get("/api/v1/sessions/s")["status"]

        for number, known in ((1, False), (2, True)):
            assert service.EndSession(pb.EndSessionRequest(session_id="s"), timeout=10).known is known
            clock.advance(59)
            eventually(lambda: collector.service.pipeline.evaluation.stage.waiting == 0)
            say(number)
            eventually(lambda: status() == "ended")
        assert _active(collector) == 0, "what was on the way opens no session again"
        assert _session_scores(collector) == 0
        clock.advance(62)
        eventually(lambda: _session_scores(collector) == 1)
        say(3)
        assert status() == "active"
        assert _active(collector) > 0


def test_what_has_ended_counts_before_the_collector_stops(tmp_path: Path) -> None:
    with RunningCollector(tmp_path, assembly={"settle_logs": 3600}) as collector:
        collector.send(traces(turn(1, "hi", "answer", session="s"), turn(2, "hi", "answer", session="s")))
        collector.scored(trace_id(2).hex())
        EvaluationServiceStub(collector.channel).EndSession(pb.EndSessionRequest(session_id="s"), timeout=10)
        assert _session_scores(collector) == 0
        collector.service.pipeline.evaluation.stage.shutdown()
        assert _session_scores(collector) == 1


def _active(collector: RunningCollector) -> float:
    lines = [line for line in collector.get("/metrics").splitlines() if line.startswith("agenteval_sessions_active{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def _session_scores(collector: RunningCollector) -> float:
    """How many outcomes of reliability were counted."""
    lines = [
        line
        for line in collector.get("/metrics").splitlines()
        if line.startswith("agenteval_evaluation_outcomes_total{") and "agent_reliability" in line
    ]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def test_a_restart_scores_what_was_open_and_repeats_nothing(tmp_path: Path) -> None:
    patient: dict[str, Any] = {"assembly": {"settle": 60}}
    with RunningCollector(tmp_path, **patient) as first:
        first.send(traces(turn(1, "a", "b", session="s")))
        first.scored(trace_id(1).hex())
        first.send(traces(span(2, 1)))
        eventually(lambda: first.service.pipeline.assembly.assembler.peek(trace_id(2).hex()))
        assert first.get(f"/api/v1/traces/{trace_id(2).hex()}")["status"] == "running"
    with RunningCollector(tmp_path) as second:
        assert second.scored(trace_id(2).hex())["span_count"] == 1
        assert second.get(f"/api/v1/traces/{trace_id(1).hex()}")["revision"] == 1
        second.send(traces(turn(3, "a", "b", session="s")))
        second.scored(trace_id(3).hex())
        assert len(second.get("/api/v1/sessions/s")["trace_ids"]) == 2
        assert "agenteval_evaluation_outcomes_total{" in second.get("/metrics")


def test_a_session_that_became_idle_while_the_collector_was_away_is_counted_once(tmp_path: Path) -> None:
    short: dict[str, Any] = {"session": {"idle": 0.2}}
    with RunningCollector(tmp_path) as first:
        first.send(traces(turn(1, "a", "b", session="s"), turn(2, "a", "c", session="s")))
        first.scored(trace_id(2).hex())
        assert _session_scores(first) == 0
    with RunningCollector(tmp_path, **short) as second:
        eventually(lambda: _session_scores(second) == 1)
        assert second.get("/api/v1/sessions/s")["status"] == "idle"
    with RunningCollector(tmp_path, **short) as third:
        third.send(traces(turn(3, "a", "d", session="s")))
        third.scored(trace_id(3).hex())
        eventually(lambda: third.get("/api/v1/sessions/s")["status"] == "idle")
        assert _session_scores(third) == 0


def test_a_late_span_makes_a_revision_that_supersedes(collector: RunningCollector) -> None:
    collector.send(traces(turn(1, "a", "b")))
    assert collector.scored(trace_id(1).hex())["span_count"] == 1
    collector.send(traces(span(1, 2, parent=1)))
    assert collector.scored(trace_id(1).hex(), revision=2)["span_count"] == 2
    assert "agenteval_collector_spans_late_total 1.0" in collector.get("/metrics")


def test_a_late_span_moves_its_trace_to_the_session_it_names(collector: RunningCollector) -> None:
    for number, asked in enumerate(("a", "b", "c"), 1):
        collector.send(traces(turn(number, asked, "the same words every time", session="s")))
    assert outcomes(collector.scored(trace_id(3).hex()))["loop_detection"]["status"] == "scored"
    collector.send(traces(span(1, 2, parent=1, agenteval__session__id="other")))
    assert collector.scored(trace_id(1).hex(), revision=2)["session_id"] == "other"
    eventually(lambda: collector.get("/api/v1/sessions/s")["trace_ids"] == [trace_id(2).hex(), trace_id(3).hex()])
    first = outcomes(collector.get(f"/api/v1/traces/{trace_id(2).hex()}"))["loop_detection"]
    assert (first["status"], first["score"]) == ("not_applicable", None)
    kinds = [each["kind"] for each in collector.get("/api/v1/sessions/s")["findings"]]
    assert kinds == ["repeated_answer"], "what was told stands"
    assert collector.get("/api/v1/sessions/other")["trace_ids"] == [trace_id(1).hex()]


def test_a_trace_that_had_no_session_leaves_none_behind(collector: RunningCollector) -> None:
    collector.send(traces(turn(1, "a", "b")))
    collector.scored(trace_id(1).hex())
    assert collector.get(f"/api/v1/sessions/{trace_id(1).hex()}") is not None
    collector.send(traces(span(1, 2, parent=1, agenteval__session__id="s")))
    collector.scored(trace_id(1).hex(), revision=2)
    eventually(lambda: collector.get(f"/api/v1/sessions/{trace_id(1).hex()}") is None)
    assert [each["session_id"] for each in collector.get("/api/v1/sessions")["items"]] == ["s"]


def _hostile() -> dict[str, ExportTraceServiceRequest]:
    future, past = turn(1, "a", "b"), turn(2, "a", "b")
    future.start_time_unix_nano = future.end_time_unix_nano = 2**64 - 1
    past.start_time_unix_nano, past.end_time_unix_nano = 0, 1
    names = turn(3, "a", "b", session="s" * 100_000)
    surrogate = turn(4, "a", "b")
    surrogate.attributes.add(key="metadata").value.string_value = '{"session_id": "\\ud800"}'
    zero = turn(5, "nul \0 in", "nul \0 out", session="nul\0session")
    numbers = turn(6, "a", "b")
    numbers.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = -(2**63)
    numbers.attributes.add(key="x").value.double_value = float("nan")
    tool = span(7, 2, gen_ai__operation__name="execute_tool", gen_ai__tool__name="t")
    tool.attributes.add(key="gen_ai.tool.call.arguments").value.string_value = '{"a":' * 900 + "NaN" + "}" * 900
    lone = turn(8, "a", "\\ud800")
    lone.attributes.add(key="gen_ai.output.messages").value.string_value = json.dumps(
        [{"role": "assistant", "parts": [{"type": "text", "content": "\ud800 \udfff"}]}]
    )
    return {
        "times beyond the calendar": traces(future),
        "times at the epoch": traces(past),
        "a session id of 100 kB": traces(names),
        "a session id that is a lone surrogate": traces(surrogate),
        "NUL in texts and ids": traces(zero),
        "numbers at their limits": traces(numbers),
        "arguments nested 900 deep with NaN": traces(tool, turn(7, "a", "b")),
        "lone surrogates in the answer": traces(lone),
    }


@pytest.mark.parametrize("what", _hostile())
def test_hostile_content_is_scored_like_any_other(collector: RunningCollector, what: str) -> None:
    request = _hostile()[what]
    collector.send(request)
    spans = request.resource_spans[0].scope_spans[0].spans
    document = collector.scored(spans[0].trace_id.hex())
    assert document["status"] == "scored"
    assert document["span_count"] == len(spans)
    [session] = collector.get("/api/v1/sessions")["items"]
    assert (session["session_id"], session["trace_count"]) == (document["session_id"], 1)
    collector.send(traces(turn(99, "still", "there")))
    assert collector.scored(trace_id(99).hex())["status"] == "scored"


def test_readiness_falls_with_the_ports(tmp_path: Path) -> None:
    collector = RunningCollector(tmp_path)
    assert collector.get("/readyz")
    collector.stop()
    assert not collector.service.ready
    collector.service.shutdown()


def test_shutdown_is_safe_before_start(tmp_path: Path) -> None:
    service = Collector(settings(tmp_path))
    service.shutdown()
    service.shutdown()


def test_what_is_acknowledged_while_it_stops_is_there_after_the_next_start(tmp_path: Path) -> None:
    collector = RunningCollector(tmp_path)
    acknowledged: list[int] = []
    stop = threading.Event()

    def load(worker: int) -> None:
        with grpc.insecure_channel(collector.addresses["grpc"]) as channel:
            number = worker
            while not stop.is_set():
                number += 4
                try:
                    TraceServiceStub(channel).Export(traces(turn(number, "a", "b", session=f"s{worker}")), timeout=5)
                except grpc.RpcError:
                    return
                acknowledged.append(number)

    workers = [threading.Thread(target=load, args=(worker,)) for worker in range(1, 5)]
    for worker in workers:
        worker.start()
    eventually(lambda: len(acknowledged) > 50)
    collector.stop()
    stop.set()
    for worker in workers:
        worker.join(10)
    with RunningCollector(tmp_path) as again:
        assert all(again.scored(trace_id(number).hex())["revision"] == 1 for number in acknowledged)


def test_a_large_replay_is_scored_while_new_spans_come(tmp_path: Path) -> None:
    with RunningCollector(tmp_path, assembly={"settle": 600}) as first:
        for number in range(1, 100):
            first.send(traces(span(number, 1)))
    with RunningCollector(tmp_path, assembly={"settle": 0.5}) as second:
        second.send(traces(turn(1000, "a", "b")))
        assert second.scored(trace_id(1000).hex())["status"] == "scored"
        assert all(second.scored(trace_id(number).hex())["revision"] == 1 for number in range(1, 100))
        assert "agenteval_collector_requests_replayed_total 99.0" in second.get("/metrics")


@pytest.mark.timeout(300)
def test_an_offline_replay_says_what_the_live_collector_says(collector: RunningCollector) -> None:
    requests: list[Recorded] = [each for path in recordings("corpus") for each in read_recording(path)]
    offline = replay(requests, settings(Path("unused")), lambda _: None)
    for each in requests:
        if each.signal is Signal.TRACES:
            collector.send(ExportTraceServiceRequest.FromString(each.body))
        else:
            collector.send_logs(ExportLogsServiceRequest.FromString(each.body))
    assert len(offline["traces"]) > 50
    for document in offline["traces"]:
        path = f"/api/v1/traces/{document['trace_id']}"
        eventually(lambda: _agree(collector.get(path), document))  # noqa: B023
    for session in offline["sessions"]:
        path = f"/api/v1/sessions/{session['session_id']}"
        eventually(lambda: _agree(collector.get(path), session))  # noqa: B023


def _agree(live: Any, offline: Any) -> bool:
    """Whether both say the same. Only a live collector waits for a root in vain, and then names whose the run is."""
    unfinished = any(each["kind"] == "unfinished" for each in live["findings"])
    but = ("agent", "agents") if unfinished else ()
    return bool(_stable(live, but) == _stable(offline, but))


def _stable(document: Any, but: Sequence[str] = ()) -> Any:
    """Without what depends on when, in which order and in how many parts the telemetry came: also the versions that
    follow from prompts, as an agent with many different ones has none."""
    within_traces = [each for each in document["findings"] if each["kind"] not in ("repeated_answer", "unfinished")]
    by_order = (
        "last_seen_at",
        "revision",
        "closing",
        "seen",
        "findings_count",
        "worst",
        "flagged_traces",
        "cause",
        "versions",
    )
    return {
        **{key: value for key, value in document.items() if key not in (*by_order, *but)},
        "findings": sorted((each["kind"], each["span_id"], each["reason"]) for each in within_traces),
    }


def test_sigterm_under_load_ends_it_with_success_in_time(tmp_path: Path) -> None:
    process = CollectorProcess(tmp_path)
    with process.load() as acknowledged:
        eventually(lambda: len(acknowledged) > 30, within=60)
        assert process.stop(signal.SIGTERM, within=20) == 0


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limits of another process are set on Linux only")
def test_it_is_not_ready_while_the_disk_refuses_and_again_when_it_takes(tmp_path: Path) -> None:
    process = CollectorProcess(tmp_path)

    def readyz() -> httpx.Response:
        return asking.get(f"http://{process.addresses['web']}/readyz", trust_env=False)

    try:
        process.send(traces(turn(1, "a", "b")))
        assert readyz().status_code == 200
        # No file of it may grow over this size: what a full disk says to a database.
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
        with pytest.raises(grpc.RpcError) as refused:
            process.send(traces(turn(2, "a", "b")))
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert readyz().status_code == 503
        assert "log is held up: the collector's log cannot be written: " in readyz().text
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        # Nobody sends meanwhile: senders may stay away from what is not ready.
        eventually(lambda: readyz().status_code == 200)
        process.send(traces(turn(3, "a", "b")))
        eventually(lambda: process.get(f"/api/v1/traces/{trace_id(3).hex()}"))
    finally:
        assert process.stop(signal.SIGTERM, within=20) == 0


@pytest.mark.parametrize("name", ["log.db", "agenteval.db", ""], ids=["its log", "its store", "its whole folder"])
def test_what_would_go_into_a_deleted_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "data").mkdir()
    process = CollectorProcess(tmp_path / "data", stderr=tmp_path / "stderr")
    try:
        process.send(traces(turn(1, "a", "b")))
        assert {file.name for file in (tmp_path / "data").iterdir() if file.stat().st_mode & 0o077} == set()
        lost = tmp_path / "data" / name
        lost.unlink() if name else shutil.rmtree(lost)
        with pytest.raises(grpc.RpcError) as refused:
            process.send(traces(turn(2, "a", "b")))
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "was deleted while it was in use" in str(refused.value.details())
        assert asking.get(f"http://{process.addresses['web']}/readyz", trust_env=False).status_code == 503
    finally:
        assert process.stop(signal.SIGTERM, within=20) == 1


def test_a_start_that_cannot_be_says_why_in_one_line(tmp_path: Path, collector: RunningCollector) -> None:
    free = [f"--{port}-address=127.0.0.1:0" for port in ("grpc", "http", "web")]
    ended = CliRunner().invoke(command_line(), ["collector", f"--data-dir={tmp_path}", *free])
    assert isinstance(ended.exception, SystemExit), "no traceback"
    assert ended.exit_code not in (0, None)
    assert "a collector uses" in ended.stderr
