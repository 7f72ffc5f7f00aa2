"""The processor against a real gRPC server: what arrives, and whose it is."""

import gc
import logging
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any
from weakref import WeakSet

import grpc
import pytest
from opentelemetry import baggage as baggage_api
from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import otel_agenteval
from otel_agenteval import AgentLoopDetected
from otel_agenteval.finding import Mode
from otel_agenteval.verdict import Verdict
from tests.support.attached import Make, collector, make, names, span_attributes
from tests.support.fake_collector import FakeCollector, Reply, attributes

__all__ = ["collector", "make"]

VERDICT = Verdict(
    name="loop_detection", kind="cycle", mode=Mode.ALARM, session_id="s", trace_id="1" * 32, span_id="2" * 16,
    reason="round and round",
)  # fmt: skip


def test_closed_trace_goes_at_once_and_says_how_many_spans_it_has(collector: FakeCollector, make: Make) -> None:
    processor, tracer = make()
    with tracer.start_as_current_span("root"), tracer.start_as_current_span("child"):
        pass
    assert collector.wait_for(lambda got: len(got.accepted) == 1)
    (child_resource, child), (_, root) = collector.spans_with_resource()
    process_id = child_resource["agenteval.process.id"]
    assert attributes(child) == {}
    assert attributes(root) == {"agenteval.process.id": process_id, "agenteval.trace.span_count": 2}
    assert processor.force_flush()
    assert processor.stats.exported == 2


def test_open_trace_lingers_into_one_request(collector: FakeCollector, make: Make) -> None:
    _, tracer = make()
    with tracer.start_as_current_span("root"):
        for n in range(5):
            tracer.start_span(f"child {n}").end()
        assert collector.wait_for(lambda got: len(got.requests) == 1)
    assert collector.wait_for(lambda got: len(got.requests) == 2)
    assert len(names(collector)) == 6


def test_count_of_a_reopened_trace_is_cumulative(collector: FakeCollector, make: Make) -> None:
    processor, tracer = make()
    root = tracer.start_span("root")
    context = trace.set_span_in_context(root)
    root.end()
    tracer.start_span("late", context=context).end()
    processor.force_flush()
    counts = {name: found["agenteval.trace.span_count"] for name, found in span_attributes(collector).items()}
    assert counts == {"root": 1, "late": 2}


def test_identity_comes_from_context_then_parent_then_trace(collector: FakeCollector, make: Make) -> None:
    processor, tracer = make()
    with otel_agenteval.session("s1", user_id="u1"), otel_agenteval.run("t1", "r1", "fault"):
        root = tracer.start_span("root")
    in_root = trace.set_span_in_context(root, Context())
    with otel_agenteval.session("s2"):
        named = tracer.start_span("named", context=trace.set_span_in_context(root))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: tracer.start_span("of parent", context=trace.set_span_in_context(named, Context())).end())
    named.end()
    root.end()
    tracer.start_span("of trace", context=in_root).end()
    tracer.start_span("nobody's").end()
    with otel_agenteval.session("s3"):
        tracer.start_span("detached", context=Context()).end()
    processor.force_flush()

    found = span_attributes(collector)
    run = {"agenteval.task.id": "t1", "agenteval.run.id": "r1", "agenteval.condition": "fault"}
    first = {"agenteval.session.id": "s1", "agenteval.user.id": "u1", **run}
    second = {"agenteval.session.id": "s2", **run}
    assert {name: identity(found[name]) for name in found} == {
        "root": first,
        "named": second,
        "of parent": second,
        "of trace": first,
        "nobody's": {},
        "detached": {"agenteval.session.id": "s3"},
    }


def identity(found: dict[str, object]) -> dict[str, object]:
    marker = ("agenteval.process.id", "agenteval.trace.span_count")
    return {key: value for key, value in found.items() if key not in marker}


def test_other_exporters_see_nothing_of_ours_unless_stamped(collector: FakeCollector, make: Make) -> None:
    for stamp, expected in ((False, {}), (True, {"agenteval.session.id": "s1"})):
        exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        processor, tracer = make(provider=provider, stamp=stamp)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        with otel_agenteval.session("s1"):
            tracer.start_span("root").end()
        processor.force_flush()
        assert [dict(span.attributes or {}) for span in exporter.get_finished_spans()] == [expected]
    assert [attributes(span)["agenteval.session.id"] for span in collector.spans()] == ["s1", "s1"]


def test_session_in_baggage_joins_the_next_process_only_when_asked(collector: FakeCollector, make: Make) -> None:
    processor, tracer = make()
    for name, baggage in (("private", False), ("shared", True)):
        with otel_agenteval.session("s1", "u1", baggage=baggage):
            carried = dict(baggage_api.get_all())
        context = Context()
        for key, value in carried.items():
            context = baggage_api.set_baggage(key, value, context)
        tracer.start_span(name, context=context).end()
    processor.force_flush()
    found = {name: identity(of_span) for name, of_span in span_attributes(collector).items()}
    assert found == {"private": {}, "shared": {"agenteval.session.id": "s1", "agenteval.user.id": "u1"}}


def test_unsampled_spans_are_not_exported(collector: FakeCollector, make: Make) -> None:
    processor, tracer = make(provider=TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))
    tracer.start_span("unsampled").end()
    assert processor.force_flush()
    assert collector.received.requests == []


def test_report_reaches_the_collector_once_per_endpoint(collector: FakeCollector, make: Make) -> None:
    processor, _ = make()
    other, _ = make()
    with otel_agenteval.session("s1"), otel_agenteval.run("t1", "r1") as run:
        run.report(success=True, confidence=0.8)
    run.report(success=False)
    for each in (processor, other):
        assert each.force_flush()
    first, second = collector.received.reports
    assert (first.task_id, first.run_id, first.condition, first.session_id) == ("t1", "r1", "baseline", "s1")
    assert (first.success, first.confidence) == (True, 0.8)
    assert second.success is False
    assert not second.HasField("confidence")
    assert second.session_id == "s1"


def test_report_names_the_version_of_the_service_whose_spans_it_has_seen(collector: FakeCollector, make: Make) -> None:
    resource = Resource.create({"service.version": "1.4"})
    processor, tracer = make(provider=TracerProvider(resource=resource, shutdown_on_exit=False))
    before = time.time_ns()
    with otel_agenteval.run("t1", "r1") as run:
        tracer.start_span("agent").end()
    run.report(success=True)
    tracer.start_span("outside").end()
    otel_agenteval.run("t1", "r2").report(success=True)
    assert processor.force_flush()
    seen, unseen = collector.received.reports
    assert (seen.service_version, unseen.service_version) == ("1.4", "")
    assert before <= seen.reported_at_unix_nano <= unseen.reported_at_unix_nano <= time.time_ns()


@pytest.mark.parametrize(
    ("reported", "raised", "said"),
    [
        pytest.param(None, RuntimeError, [False], id="not reported"),
        pytest.param(None, AgentLoopDetected, [False], id="stopped in a loop"),
        pytest.param({"success": True}, RuntimeError, [True], id="reported"),
        pytest.param({"confidence": 0.5}, RuntimeError, [None, False], id="only the confidence reported"),
        pytest.param(None, KeyboardInterrupt, [], id="somebody stopped the program"),
    ],
)
def test_a_run_that_an_exception_leaves_failed(
    collector: FakeCollector,
    make: Make,
    reported: dict[str, Any] | None,
    raised: type[BaseException],
    said: list[bool | None],
) -> None:
    processor, _ = make()

    def fail() -> None:
        with otel_agenteval.run("t1", "r1") as run:
            if reported is not None:
                run.report(**reported)
            raise raised(VERDICT)

    with pytest.raises(raised):
        fail()
    assert processor.force_flush()
    reports = collector.received.reports
    assert [each.success if each.HasField("success") else None for each in reports] == said


def test_where_no_thread_can_be_started_a_report_waits_and_the_agent_goes_on(
    collector: FakeCollector, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor, _ = make()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def fail() -> None:
        with otel_agenteval.run("t1", "r1"):
            raise KeyError("the agent's own")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(KeyError, match="the agent's own"):
            fail()
    processor.shutdown()
    assert [each.run_id for each in collector.received.reports] == ["r1"]


def test_a_report_is_sent_though_its_session_has_an_id_that_it_cannot_hold(
    collector: FakeCollector, make: Make
) -> None:
    processor, _ = make()
    for session_id in ("s\ud800", "s" * 1025):
        with otel_agenteval.session(session_id), otel_agenteval.run("t1", "r1") as run:
            run.report(success=True)
    assert processor.force_flush()
    assert [each.session_id for each in collector.received.reports] == ["", ""]


def test_collector_without_our_service_costs_the_report_and_nothing_else(collector: FakeCollector, make: Make) -> None:
    collector.report_script.append(Reply(grpc.StatusCode.UNIMPLEMENTED))
    processor, tracer = make()
    otel_agenteval.run("t1", "r1").report(success=True)
    tracer.start_span("root").end()
    assert processor.force_flush()
    assert names(collector) == ["root"]
    assert processor.stats.reports == {"waiting": 0, "delivered": 0, "refused": 1}


def test_headers_and_key_go_with_every_request(
    collector: FakeCollector, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTEVAL_API_KEY", "k-1")
    processor, tracer = make(headers={"X-Team": "a"})
    tracer.start_span("root").end()
    processor.force_flush()
    sent = collector.received.metadata[0]
    assert (sent["authorization"], sent["x-team"]) == ("Bearer k-1", "a")


def test_own_requests_run_with_instrumentation_suppressed(collector: FakeCollector, make: Make) -> None:
    seen: list[tuple[object, object]] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(
                (
                    context_api.get_value("suppress_instrumentation"),
                    context_api.get_value(context_api._SUPPRESS_INSTRUMENTATION_KEY),
                )
            )

    handler = Handler()
    logging.getLogger("otel_agenteval").addHandler(handler)
    try:
        collector.script.append(Reply(rejected=1, message="logged from the sender thread"))
        processor, tracer = make()
        tracer.start_span("root").end()
        processor.force_flush()
        assert seen == [(True, True)]
    finally:
        logging.getLogger("otel_agenteval").removeHandler(handler)


def test_span_that_ends_inside_a_garbage_collection_does_not_deadlock(collector: FakeCollector, make: Make) -> None:
    def collecting_clock() -> float:
        # On this thread the processor reads the time while it holds its lock, as a span closes its trace.
        if threading.current_thread() is threading.main_thread():
            gc.collect()
        return time.monotonic()

    processor, tracer = make(monotonic=collecting_clock)

    class Stream:
        """As instrumentations wrap a streamed reply: its span ends when nobody holds the stream any more."""

        def __init__(self) -> None:
            self.cycle = self
            self.span = tracer.start_span("stream")

        def __del__(self) -> None:
            self.span.end()

    gc.disable()
    try:
        for _ in range(3):
            Stream()
            tracer.start_span("plain").end()
        # Which of them were collected by now depends on who took the others in.
        gc.collect()
    finally:
        gc.enable()
    assert processor.force_flush()
    assert sorted(names(collector)) == ["plain"] * 3 + ["stream"] * 3
    assert processor.stats.faults == 0


@pytest.mark.timeout(30)
def test_a_signal_handler_may_ask_and_shut_down_while_the_agent_asks(make: Make) -> None:
    processor, _ = make()
    interrupted: list[None] = []

    def handle(frame: FrameType, event: str, _: object) -> None:
        # The moment in which the agent goes through all processors.
        if event == "call" and frame.f_code is WeakSet.__iter__.__code__ and not interrupted:
            interrupted.append(None)
            otel_agenteval.current_verdict()
            processor.shutdown()

    sys.setprofile(handle)
    try:
        otel_agenteval.current_verdict()
    finally:
        sys.setprofile(None)
    assert interrupted
    processor.report("method", b"")
    assert processor.stats.reports["shutdown"] == 1


def test_many_threads_lose_nothing_and_every_trace_counts_its_own_spans(collector: FakeCollector, make: Make) -> None:
    processor, tracer = make()

    def agent(n: int) -> None:
        for m in range(20):
            with tracer.start_as_current_span(f"root {n} {m}"):
                for _ in range(4):
                    tracer.start_span("child").end()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(agent, range(8)))
    assert processor.force_flush()
    spans = collector.spans()
    assert len(spans) == 8 * 20 * 5
    counts = [attributes(span)["agenteval.trace.span_count"] for span in spans if span.name.startswith("root")]
    assert counts == [5] * 160
    assert processor.stats.faults == 0


def test_span_we_cannot_read_costs_the_agent_nothing(collector: FakeCollector, make: Make) -> None:
    processor, tracer = make()
    processor.on_end(object())  # type: ignore[arg-type]
    processor.on_start(object())  # type: ignore[arg-type]
    tracer.start_span("negative time", start_time=-1).end()
    tracer.start_span("good").end()
    assert processor.force_flush()
    assert names(collector) == ["good"]
    assert processor.stats.faults == 2
    assert processor.stats.dropped == {"not_encodable": 1}


def test_span_with_values_of_wrong_types_is_lost_alone(
    collector: FakeCollector, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    processor, tracer = make()
    with tracer.start_as_current_span("root"):
        tracer.start_span(123).end()  # type: ignore[arg-type]
        with tracer.start_as_current_span("unnamed event") as span:
            span.add_event(None)  # type: ignore[arg-type]
        with tracer.start_as_current_span("seconds") as span:
            span.add_event("event", timestamp=time.time())  # type: ignore[arg-type]
        tracer.start_span("good").end()
    assert processor.force_flush()
    assert sorted(names(collector)) == ["good", "root"]
    assert processor.stats.dropped == {"not_encodable": 3}
    assert "span 123: AttributeError" in caplog.text
