"""Loops as the agent's own process finds them: real spans, real threads, a collector that may be there or not."""

import contextlib
import logging
import threading
from collections.abc import Callable
from queue import Queue

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import format_span_id

import otel_agenteval
from otel_agenteval.finding import Mode
from otel_agenteval.loops.guard import process_wide
from otel_agenteval.proto.v1 import evaluation_pb2 as pb
from otel_agenteval.verdict import Verdict
from tests.support.agent_spans import ask, call, running
from tests.support.attached import Make, collector, make, span_attributes
from tests.support.eventually import eventually
from tests.support.fake_collector import FakeCollector, Reply, attributes

__all__ = ["collector", "make"]

NOWHERE = "http://127.0.0.1:1"
TRACE = "0af7651916cd43dd8448eb211c80319c"


def told(**fields: object) -> pb.WatchResponse:
    finding = {
        "kind": "repeated_answer",
        "severity": "error",
        "mode": "alarm",
        "session_id": "s1",
        "trace_id": TRACE,
        "span_id": "b7ad6b7169203331",
        "reason": "the answer is that of before",
        "metadata_json": b'{"score": 0.1}',
        **fields,
    }
    return pb.WatchResponse(finding=pb.Finding(**finding))  # type: ignore[arg-type]


@pytest.mark.parametrize("endpoint", [None, NOWHERE], ids=["with a collector", "without one"])
def test_loop_is_told_of_on_the_span_that_completes_it(endpoint: str | None, make: Make) -> None:
    heard: Queue[Verdict] = Queue()
    _, tracer = make(endpoint, on_verdict=heard.put)
    with otel_agenteval.session("s1"), running(tracer):
        spans = [call(tracer) for _ in range(5)]
    verdict = heard.get(timeout=30)
    assert (verdict.name, verdict.kind, verdict.session_id) == ("loop_detection", "identical_call", "s1")
    assert verdict.span_id == format_span_id(spans[2])
    assert verdict.metadata["agent"] == "guide"
    assert heard.empty(), "a loop that goes on is told of once"


def test_verdict_travels_on_our_copy_of_its_span_alone(collector: FakeCollector, make: Make) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    processor, tracer = make(provider=provider, on_verdict=id)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with running(tracer):
        spans = [format_span_id(call(tracer)) for _ in range(3)]
        ask(tracer, "I could not find anything at all.")
    assert processor.force_flush()
    copies = {span.span_id.hex(): attributes(span) for span in collector.spans()}
    assert [span_id for span_id, copy in copies.items() if "agenteval.findings" in copy] == [spans[2]]
    carried = copies[spans[2]]["agenteval.findings"]
    assert '"kind": "identical_call"' in carried
    assert '"mode": "alarm"' in carried
    assert [("agenteval.detectors" in copy) for copy in copies.values()] == [True, True, True, True, False]
    assert not [span for span in exporter.get_finished_spans() if "agenteval.findings" in (span.attributes or {})]


def test_every_span_is_looked_at_before_it_leaves(collector: FakeCollector, make: Make) -> None:
    processor, tracer = make(max_buffer_spans=10_000, on_verdict=id)
    for _ in range(200):
        with running(tracer):
            for _ in range(3):
                call(tracer)
    assert processor.force_flush()
    copies = span_of_tools(collector)
    assert len(copies) == 600
    assert all("agenteval.detectors" in copy for copy in copies)
    assert sum("agenteval.findings" in copy for copy in copies) == 200
    assert processor.stats.verdicts == 200
    assert processor.stats.faults == processor.stats.unwatched == 0


@pytest.mark.parametrize("hear", [otel_agenteval.current_verdict, otel_agenteval.raise_if_looping])
def test_an_agent_that_nobody_listens_to_leaves_loops_to_the_collector(
    collector: FakeCollector, make: Make, hear: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another test of this process may have called `stop_on_loop`.
    monkeypatch.setattr(process_wide, "used", False)
    processor, tracer = make()
    for is_heard in (False, True):
        with running(tracer):
            for _ in range(3):
                call(tracer)
        assert processor.force_flush()
        newest = span_of_tools(collector)[-3:]
        assert [("agenteval.detectors" in copy, "agenteval.findings" in copy) for copy in newest] == [
            (is_heard, False), (is_heard, False), (is_heard, is_heard)
        ]  # fmt: skip
        with contextlib.suppress(otel_agenteval.AgentLoopDetected):
            hear()
    assert processor.stats.verdicts == 1


def span_of_tools(collector: FakeCollector) -> list[dict[str, object]]:
    return [attributes(span) for span in collector.spans() if span.name.startswith("execute_tool")]


def test_current_verdict_is_the_sessions_or_the_traces(make: Make) -> None:
    _, tracer = make(NOWHERE)
    assert otel_agenteval.current_verdict() is None
    with otel_agenteval.session("s1"), running(tracer):
        for _ in range(3):
            call(tracer)
        found = eventually(otel_agenteval.current_verdict, every=0.005)
        assert found.kind == "identical_call"
    with otel_agenteval.session("s2"):
        assert otel_agenteval.current_verdict() is None
    with otel_agenteval.session("s1"):
        assert otel_agenteval.current_verdict() == found
    with running(tracer):
        for _ in range(3):
            call(tracer)
        assert eventually(otel_agenteval.current_verdict, every=0.005).trace_id != found.trace_id


def test_observed_loops_are_told_of_but_stop_nobody(make: Make) -> None:
    heard: Queue[Verdict] = Queue()
    _, tracer = make(NOWHERE, on_verdict=heard.put, loops={"identical_call": {"mode": "observe", "repeats": 2}})
    with otel_agenteval.stop_on_loop(), otel_agenteval.session("s1"), running(tracer):
        call(tracer)
        call(tracer)
        assert heard.get(timeout=30).mode is Mode.OBSERVE
        assert otel_agenteval.current_verdict() is None
        call(tracer, "other")


def test_nothing_is_looked_for_where_all_is_off(collector: FakeCollector, make: Make) -> None:
    kinds = ("identical_call", "cycle", "no_progress", "error_storm", "repeated_output", "hung_span", "budget")
    processor, tracer = make(loops={kind: {"mode": "off"} for kind in kinds})
    with running(tracer):
        for _ in range(3):
            call(tracer)
    processor.force_flush()
    assert not any("agenteval.detectors" in copy for copy in span_attributes(collector).values())


def test_handler_that_raises_is_called_again(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    heard: Queue[str] = Queue()

    def handle(verdict: Verdict) -> None:
        heard.put(verdict.session_id)
        raise otel_agenteval.AgentLoopDetected(verdict)

    processor, tracer = make(NOWHERE, on_verdict=handle)
    with caplog.at_level(logging.WARNING, "otel_agenteval"):
        for name in ("s1", "s2"):
            with otel_agenteval.session(name), running(tracer):
                for _ in range(3):
                    call(tracer)
            assert heard.get(timeout=30) == name
        eventually(lambda: processor.verdicts.failures == 2)
    assert [record.message for record in caplog.records].count("on_verdict failed") == 1


def test_slow_handler_loses_the_newest_and_they_are_counted(make: Make) -> None:
    gate = threading.Event()
    heard: Queue[Verdict] = Queue()

    def handle(verdict: Verdict) -> None:
        gate.wait(10)
        heard.put(verdict)

    processor, tracer = make(NOWHERE, on_verdict=handle)
    for _ in range(300):
        with running(tracer):
            for _ in range(3):
                call(tracer)
    eventually(lambda: processor.stats.verdicts == 300)
    lost = processor.stats.unhandled_verdicts
    assert 300 - 258 <= lost <= 300 - 256
    gate.set()
    eventually(lambda: heard.qsize() == 300 - lost)


def test_span_that_hangs_is_reported_before_it_ends_and_by_it(collector: FakeCollector, make: Make) -> None:
    heard: Queue[Verdict] = Queue()
    processor, tracer = make(on_verdict=heard.put, loops={"hung_span": {"after": 0.05}})
    collector.starts_script.append(Reply(grpc.StatusCode.UNAVAILABLE))
    with (
        running(tracer),
        tracer.start_as_current_span(
            "execute_tool wait", attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "wait"}
        ) as span,
    ):
        verdict = heard.get(timeout=30)
        assert verdict.kind == "hung_span"
        assert verdict.span_id == format_span_id(span.get_span_context().span_id)
        assert collector.wait_for(lambda got: any(each.findings for each in got.starts)), "a second attempt is made"
    (reported,) = [each for request in collector.received.starts for each in request.findings]
    assert (reported.kind, reported.mode, reported.span_id) == ("hung_span", "alarm", verdict.span_id)
    processor.force_flush()
    assert '"hung_span"' in str(span_attributes(collector)["execute_tool wait"]["agenteval.findings"])
    starts = {start.name for request in collector.received.starts for start in request.starts}
    assert starts == {"wait"}, "nobody asked for others"


def test_starts_are_streamed_where_asked_for(collector: FakeCollector, make: Make) -> None:
    processor, tracer = make(live=True)
    with otel_agenteval.session("s1"), running(tracer) as root:
        call(tracer)
        with tracer.start_as_current_span("chat small", attributes={"gen_ai.operation.name": "chat"}):
            assert collector.wait_for(
                lambda got: {"invoke_agent guide", "chat small"} <= {s.name for each in got.starts for s in each.starts}
            )
    assert processor.force_flush()
    first = collector.received.starts[0]
    starts = [start for request in collector.received.starts for start in request.starts]
    context = root.get_span_context()
    run, model = (next(start for start in starts if start.name.startswith(name)) for name in ("invoke_agent", "chat"))
    assert (run.span_id, run.parent_span_id, run.session_id) == (format_span_id(context.span_id), "", "s1")
    assert (run.kind, run.agent) == ("other", "guide")
    assert (model.kind, model.parent_span_id, model.agent) == ("model", run.span_id, "guide")
    assert first.process_id == collector.spans_with_resource()[0][0]["agenteval.process.id"]
    assert first.service


def test_what_is_open_is_told_as_soon_as_the_collector_is_there(collector: FakeCollector, make: Make) -> None:
    _, tracer = make(live=True)
    collector.starts_script.extend(Reply(grpc.StatusCode.UNAVAILABLE) for _ in range(3))
    with running(tracer):
        assert collector.wait_for(lambda got: any(request.starts for request in got.starts))
    assert not collector.starts_script, "it was refused three times"
    assert [start.name for start in collector.received.starts[0].starts] == ["invoke_agent guide"]


def test_what_a_collector_refuses_to_hear_of_is_counted(collector: FakeCollector, make: Make) -> None:
    processor, tracer = make(live=True)
    collector.starts_script.append(Reply(grpc.StatusCode.UNIMPLEMENTED))
    with running(tracer):
        eventually(lambda: processor.stats.unannounced == 1)


def test_a_collector_that_puts_off_spans_hears_that_the_process_lives(collector: FakeCollector, make: Make) -> None:
    in_a_minute = RetryInfo(retry_delay=Duration(seconds=60)).SerializeToString()
    later = Reply(grpc.StatusCode.RESOURCE_EXHAUSTED, trailers=(("google.rpc.retryinfo-bin", in_a_minute),))
    collector.script.append(later)
    _, tracer = make(live=True)
    with running(tracer):
        call(tracer)
        eventually(lambda: not collector.script)
        with tracer.start_as_current_span("chat small", attributes={"gen_ai.operation.name": "chat"}):
            names = {"chat small"}
            assert collector.wait_for(lambda got: any(names & {s.name for s in each.starts} for each in got.starts))


def test_collectors_verdicts_come_by_a_stream_that_is_opened_again(collector: FakeCollector, make: Make) -> None:
    heard: Queue[Verdict] = Queue()
    _, tracer = make(on_verdict=heard.put)
    with otel_agenteval.session("s1"), running(tracer):
        pass
    assert collector.wait_for(lambda got: len(got.watches) == 1)
    process_id = collector.received.watches[0].process_id
    assert process_id
    collector.tell(told())
    verdict = heard.get(timeout=30)
    assert (verdict.kind, verdict.session_id, verdict.metadata) == ("repeated_answer", "s1", {"score": 0.1})
    with otel_agenteval.session("s1"):
        assert otel_agenteval.current_verdict() == verdict
    collector.break_stream()
    assert collector.wait_for(lambda got: len(got.watches) == 2)
    collector.tell(told())
    collector.tell(told(kind="budget"))
    assert heard.get(timeout=30).kind == "budget", "what is known is not told of again"


def judged(**fields: object) -> pb.WatchResponse:
    outcome = {
        "name": "task_completion",
        "subject": "trace",
        "subject_id": TRACE,
        "session_id": "s1",
        "trace_id": TRACE,
        "span_id": "b7ad6b7169203331",
        "status": "scored",
        "score": 0.25,
        "success": False,
        "threshold": 0.5,
        "reason": "the flight was found,\nbut not booked",
        "method": "llm",
        **fields,
    }
    return pb.WatchResponse(outcome=pb.Outcome(**outcome))  # type: ignore[arg-type]


def test_judged_alarm_is_observed_once_and_stops_nobody(collector: FakeCollector, make: Make) -> None:
    heard: Queue[Verdict] = Queue()
    _, tracer = make(on_verdict=heard.put)
    with otel_agenteval.session("s1"), running(tracer):
        pass
    assert collector.wait_for(lambda got: len(got.watches) == 1)
    collector.tell(judged())
    collector.tell(judged(revision=2, span_id="a" * 16, reason="it was not booked"))
    collector.tell(judged(name="plan_quality", reason="word " * 1000))
    verdict, other = heard.get(timeout=30), heard.get(timeout=5)
    assert (verdict.name, verdict.kind, verdict.mode, verdict.session_id) == (
        "task_completion", None, Mode.OBSERVE, "s1",
    )  # fmt: skip
    assert (verdict.trace_id, verdict.span_id) == (TRACE, "b7ad6b7169203331")
    assert verdict.reason == (
        "task_completion is 0.25, below its threshold of 0.50: the flight was found, but not booked"
    )
    assert verdict.metadata == {"score": 0.25, "threshold": 0.5}
    assert (other.name, len(other.reason) < 600) == ("plan_quality", True)
    with otel_agenteval.stop_on_loop(), otel_agenteval.session("s1"), running(tracer):
        assert otel_agenteval.current_verdict() is None
        call(tracer)


def test_who_listens_again_asks_for_what_it_missed_and_tells_it_once(collector: FakeCollector, make: Make) -> None:
    heard: Queue[Verdict] = Queue()
    processor, tracer = make(on_verdict=heard.put)
    with running(tracer):
        pass
    collector.tell(told())
    assert heard.get(timeout=30).kind == "repeated_answer"
    collector.break_stream()
    assert collector.wait_for(lambda got: len(got.watches) == 2)
    first, second = collector.received.watches
    assert 0.0 <= first.missed_seconds < second.missed_seconds < 20.0
    collector.tell(told())
    collector.tell(told(kind="budget"))
    assert heard.get(timeout=30).kind == "budget"
    assert processor.stats.verdicts == 2


@pytest.mark.parametrize(
    "message",
    [
        b"\xff\xff",
        told(trace_id="no id"),
        told(mode="shout"),
        told(severity="fatal"),
        told(metadata_json=b"[" * 9000),
        pb.WatchResponse(lost=3),
        judged(trace_id="no id"),
        judged(score=0.5),
        judged(score=float("nan")),
        judged(method="embedding"),
        judged(subject="session"),
        pb.WatchResponse(outcome=pb.Outcome(method="llm", subject="trace", trace_id=TRACE, threshold=0.5)),
    ],
    ids=[
        "no message",
        "no trace",
        "no mode",
        "no severity",
        "no metadata",
        "something else",
        "judged, but no trace",
        "at its threshold",
        "no number",
        "not judged",
        "of a session",
        "no score",
    ],
)
def test_hostile_stream_disturbs_nobody(
    message: bytes | pb.WatchResponse, collector: FakeCollector, make: Make
) -> None:
    heard: Queue[Verdict] = Queue()
    processor, tracer = make(on_verdict=heard.put)
    with running(tracer):
        pass
    assert collector.wait_for(lambda got: len(got.watches) == 1)
    collector.tell(message)
    collector.tell(told(kind="budget", session_id="s9"))
    verdicts = [heard.get(timeout=30)]
    if verdicts[0].kind != "budget":
        assert verdicts[0].metadata == {}
        verdicts.append(heard.get(timeout=30))
    assert verdicts[-1].kind == "budget"
    assert processor.stats.faults == 0


def test_nobody_listens_where_nobody_asked(collector: FakeCollector, make: Make) -> None:
    processor, tracer = make()
    with running(tracer):
        call(tracer)
    processor.force_flush()
    assert not collector.received.watches
    assert otel_agenteval.current_verdict() is None
    assert collector.wait_for(lambda got: len(got.watches) == 1), "who asks once wants to know from here on"


def test_call_hangs_while_other_traces_go_on(make: Make) -> None:
    heard: Queue[Verdict] = Queue()
    _, tracer = make(NOWHERE, on_verdict=heard.put, loops={"hung_span": {"after": 0.05}})
    wait = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "wait"}
    hanging = tracer.start_span("execute_tool wait", attributes=wait)

    def seen() -> bool:
        tracer.start_span("GET /", context=Context()).end()
        return not heard.empty()

    eventually(seen, every=0.01)
    assert heard.get_nowait().span_id == format_span_id(hanging.get_span_context().span_id)
    hanging.end()
