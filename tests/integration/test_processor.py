"""The processor against a real gRPC server: what arrives, when, and what becomes of it when things go wrong."""

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry import baggage as baggage_api
from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import Tracer

import otel_agenteval
from otel_agenteval import AgentEvalSpanProcessor
from otel_agenteval.export import MAX_SPAN_BYTES
from tests.support.eventually import eventually
from tests.support.fake_collector import FakeCollector, Reply, attributes

Make = Callable[..., tuple[AgentEvalSpanProcessor, Tracer]]


@pytest.fixture
def collector() -> Iterator[FakeCollector]:
    with FakeCollector() as collector:
        yield collector


@pytest.fixture
def make(collector: FakeCollector) -> Iterator[Make]:
    made: list[AgentEvalSpanProcessor] = []

    def make(
        endpoint: str | None = None, provider: TracerProvider | None = None, **options: object
    ) -> tuple[AgentEvalSpanProcessor, Tracer]:
        processor = AgentEvalSpanProcessor(endpoint or collector.endpoint, **{"shutdown_timeout": 1.0, **options})  # type: ignore[arg-type]
        provider = provider or TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(processor)
        made.append(processor)
        return processor, provider.get_tracer("agent")

    yield make
    for processor in made:
        processor.shutdown()


def names(collector: FakeCollector) -> list[str]:
    return [span.name for span in collector.spans()]


def span_attributes(collector: FakeCollector) -> dict[str, dict[str, object]]:
    return {span.name: attributes(span) for span in collector.spans()}


def retry_info(seconds: float) -> RetryInfo:
    delay = Duration()
    delay.FromNanoseconds(round(seconds * 1e9))
    return RetryInfo(retry_delay=delay)


def in_status_details(seconds: float) -> bytes:
    detail = AnyMessage()
    detail.Pack(retry_info(seconds))
    return Status(code=8, details=[detail]).SerializeToString()


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


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(Reply(grpc.StatusCode.UNAVAILABLE), id="unavailable"),
        pytest.param(Reply(grpc.StatusCode.RESOURCE_EXHAUSTED), id="resource exhausted without a delay"),
        pytest.param(Reply(grpc.StatusCode.ABORTED), id="aborted"),
        pytest.param(Reply(grpc.StatusCode.CANCELLED), id="cancelled"),
        pytest.param(Reply(grpc.StatusCode.OUT_OF_RANGE), id="out of range"),
        pytest.param(Reply(grpc.StatusCode.DATA_LOSS), id="data loss"),
        pytest.param(Reply(grpc.StatusCode.DEADLINE_EXCEEDED), id="deadline exceeded"),
    ],
)
def test_retryable_error_is_retried_with_the_same_request(collector: FakeCollector, make: Make, reply: Reply) -> None:
    collector.script += [reply, reply]
    processor, tracer = make()
    tracer.start_span("root").end()
    assert processor.force_flush(10_000)
    assert len(collector.received.requests) == 3
    assert len(set(collector.received.requests)) == 1
    assert processor.stats.exported == 1
    assert processor.stats.dropped == {}


@pytest.mark.parametrize(
    "trailer",
    [
        pytest.param(("google.rpc.retryinfo-bin", retry_info(0.7).SerializeToString()), id="in a trailer of its own"),
        pytest.param(("grpc-status-details-bin", in_status_details(0.7)), id="in the status details"),
    ],
)
def test_delay_the_collector_asks_for_is_kept_even_by_a_flush(
    collector: FakeCollector, make: Make, trailer: tuple[str, bytes]
) -> None:
    collector.script.append(Reply(grpc.StatusCode.RESOURCE_EXHAUSTED, trailers=(trailer,)))
    processor, tracer = make()
    started = time.monotonic()
    tracer.start_span("root").end()
    assert collector.wait_for(lambda got: len(got.requests) == 1)
    assert processor.force_flush(10_000)
    assert 0.7 <= time.monotonic() - started < 5
    assert names(collector) == ["root"]


@pytest.mark.parametrize("code", [grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAUTHENTICATED])
def test_permanent_error_drops_counts_and_says_why(
    collector: FakeCollector, make: Make, code: grpc.StatusCode, caplog: pytest.LogCaptureFixture
) -> None:
    collector.script.append(Reply(code, "no such key"))
    processor, tracer = make()
    tracer.start_span("refused").end()
    assert processor.force_flush()
    tracer.start_span("taken").end()
    assert processor.force_flush()
    assert names(collector) == ["taken"]
    assert processor.stats.dropped == {"refused": 1}
    assert "no such key" in caplog.text


def test_rejected_spans_are_counted_and_the_reason_logged(
    collector: FakeCollector, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    collector.script.append(Reply(rejected=1, message="attribute over limit"))
    processor, tracer = make()
    with tracer.start_as_current_span("root"):
        tracer.start_span("child").end()
    processor.force_flush()
    assert (processor.stats.exported, processor.stats.rejected) == (1, 1)
    assert "attribute over limit" in caplog.text


def test_request_over_the_collectors_limit_is_split_and_only_what_never_fits_is_dropped(make: Make) -> None:
    with FakeCollector(max_message_bytes=100_000) as small:
        processor, tracer = make(small.endpoint)
        with tracer.start_as_current_span("root"):
            for n in range(8):
                tracer.start_span(f"child {n}", attributes={"text": "x" * 30_000}).end()
            tracer.start_span("giant", attributes={"text": "x" * 200_000}).end()
        assert processor.force_flush()
        assert sorted(names(small)) == [*(f"child {n}" for n in range(8)), "root"]
        assert processor.stats.dropped == {"refused": 1}


def test_collector_that_was_gone_gets_everything_when_it_is_back(collector: FakeCollector, make: Make) -> None:
    processor, tracer = make()
    tracer.start_span("before").end()
    assert processor.force_flush()
    collector.stop()
    for n in range(1000):
        tracer.start_span(f"meanwhile {n}").end()
    assert not processor.force_flush(200)
    assert processor.stats.buffered == 1000
    with FakeCollector(collector.port) as back:
        assert processor.force_flush(15_000)
        assert names(back) == [f"meanwhile {n}" for n in range(1000)]
    assert processor.stats.dropped == {}


@pytest.mark.parametrize(
    ("bounds", "attribute"),
    [
        pytest.param({"max_buffer_spans": 10}, "", id="by spans"),
        pytest.param({"max_buffer_bytes": 10 * 3000}, "x" * 1500, id="by bytes"),
    ],
)
def test_full_buffer_drops_the_newest_and_the_marker_counts_only_what_is_sent(
    collector: FakeCollector, make: Make, bounds: dict[str, int], attribute: str, caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()
    collector.script.append(Reply(hold=release))
    processor, tracer = make(**bounds)
    root = tracer.start_span("root")
    context = trace.set_span_in_context(root)
    for n in range(30):
        tracer.start_span(f"child {n}", context=context, attributes={"text": attribute}).end()
    assert collector.wait_for(lambda got: len(got.requests) == 1)
    release.set()
    assert processor.force_flush()
    root.end()
    assert processor.force_flush()
    kept = processor.stats.exported - 1
    assert names(collector) == [*(f"child {n}" for n in range(kept)), "root"]
    assert 5 <= kept <= 11
    assert processor.stats.dropped == {"buffer_full": 30 - kept}
    assert span_attributes(collector)["root"]["agenteval.trace.span_count"] == kept + 1
    assert "buffer_full" in caplog.text


def test_slow_collector_never_makes_the_agent_wait(collector: FakeCollector, make: Make) -> None:
    release = threading.Event()
    collector.script.append(Reply(hold=release))
    _, tracer = make()
    tracer.start_span("first").end()
    assert collector.wait_for(lambda got: len(got.requests) == 1)
    started = time.monotonic()
    for _ in range(1000):
        tracer.start_span("more").end()
    assert time.monotonic() - started < 2
    assert len(collector.received.requests) == 1, "one export in flight at a time"
    release.set()


def test_shutdown_delivers_then_counts_later_spans_as_dropped(collector: FakeCollector, make: Make) -> None:
    processor, tracer = make()
    late = tracer.start_span("late")
    tracer.start_span("in time").end()
    processor.shutdown()
    processor.shutdown()
    late.end()
    assert names(collector) == ["in time"]
    assert processor.stats.dropped == {"shutdown": 1}
    assert processor.stats.handed_over == 2


def test_shutdown_without_a_collector_ends_in_time(collector: FakeCollector, make: Make) -> None:
    collector.stop()
    processor, tracer = make()
    tracer.start_span("lost").end()
    started = time.monotonic()
    processor.shutdown()
    assert time.monotonic() - started < 4
    assert processor.stats.dropped == {"shutdown": 1}
    assert processor.stats.buffered == 0


@pytest.mark.parametrize(
    "scheme", [pytest.param("http", id="nothing listens"), pytest.param("https", id="what listens speaks no TLS")]
)
def test_shutdown_gives_up_early_where_there_never_was_a_collector(
    collector: FakeCollector, make: Make, scheme: str
) -> None:
    if scheme == "http":
        collector.stop()
    processor, tracer = make(f"{scheme}://127.0.0.1:{collector.port}", shutdown_timeout=30.0)
    tracer.start_span("lost").end()
    otel_agenteval.run("t1", "r1").report(success=True)
    started = time.monotonic()
    processor.shutdown()
    assert time.monotonic() - started < 3
    assert processor.stats.dropped == {"shutdown": 1}
    assert processor.stats.reports == {"waiting": 0, "delivered": 0, "shutdown": 1}


def test_shutdown_waits_for_a_collector_that_was_reached_before(collector: FakeCollector, make: Make) -> None:
    processor, tracer = make(shutdown_timeout=30.0)
    tracer.start_span("before").end()
    assert processor.force_flush()
    collector.stop()
    tracer.start_span("meanwhile").end()
    stopping = threading.Thread(target=processor.shutdown)
    stopping.start()
    stopping.join(1.5)
    assert stopping.is_alive(), "gave up though the collector had been there"
    with FakeCollector(collector.port) as back:
        stopping.join(20)
        assert names(back) == ["meanwhile"]
    assert processor.stats.dropped == {}


def test_shutdown_waits_for_a_collector_that_answers_unavailable(collector: FakeCollector, make: Make) -> None:
    collector.script += [Reply(grpc.StatusCode.UNAVAILABLE, "starting")] * 15
    processor, tracer = make(shutdown_timeout=30.0)
    tracer.start_span("root").end()
    processor.shutdown()
    assert names(collector) == ["root"]


def test_log_at_shutdown_says_how_much_was_lost_in_one_line(
    collector: FakeCollector, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    collector.stop()
    processor, tracer = make(max_buffer_spans=5000)
    with tracer.start_as_current_span("root"):
        for n in range(5100):
            tracer.start_span(f"child {n}").end()
    processor.shutdown()
    assert processor.stats.dropped == {"shutdown": 5000, "buffer_full": 101}
    lines = [record.getMessage() for record in caplog.records]
    (at_shutdown,) = [line for line in lines if "(shutdown)" in line]
    assert at_shutdown.startswith("dropped 5000 spans (shutdown): ")
    assert "Connection refused" in at_shutdown
    assert logged(lines, "dropped %d spans (buffer_full)") == 101


def logged(lines: list[str], kind: str) -> int:
    """The sum over all lines of a kind."""
    before, after = kind.split("%d")
    return sum(int(line.removeprefix(before).split()[0]) for line in lines if line.startswith(before) and after in line)


@pytest.mark.parametrize(
    ("bounds", "size", "bound"),
    [
        pytest.param({"max_buffer_bytes": 100_000}, 120_000, "max_buffer_bytes is 100000", id="than the buffer"),
        pytest.param({}, MAX_SPAN_BYTES, f"the limit is {MAX_SPAN_BYTES}", id="than a span may be when encoded"),
    ],
)
def test_span_larger_than_its_bound_is_dropped_as_too_large_not_as_too_fast(
    collector: FakeCollector,
    make: Make,
    bounds: dict[str, int],
    size: int,
    bound: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    processor, tracer = make(**bounds)
    tracer.start_span("giant", attributes={"text": "x" * size}).end()
    eventually(lambda: bool(caplog.messages))
    tracer.start_span("small").end()
    assert processor.force_flush()
    assert names(collector) == ["small"]
    assert (processor.stats.handed_over, processor.stats.dropped) == (2, {"too_large": 1})
    (line,) = caplog.messages
    assert line.startswith("dropped 1 spans (too_large): ")
    assert bound in line
    assert str(size)[:2] in line


def test_shutdown_ends_a_request_that_hangs(collector: FakeCollector, make: Make) -> None:
    release = threading.Event()
    collector.script.append(Reply(hold=release))
    processor, tracer = make()
    tracer.start_span("hanging").end()
    assert collector.wait_for(lambda got: len(got.requests) == 1)
    started = time.monotonic()
    processor.shutdown()
    assert time.monotonic() - started < 4
    assert processor.stats.dropped == {"shutdown": 1}
    release.set()


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


def test_report_is_retried_and_does_not_hold_up_spans(collector: FakeCollector, make: Make) -> None:
    later = ("google.rpc.retryinfo-bin", retry_info(1.0).SerializeToString())
    collector.report_script.append(Reply(grpc.StatusCode.RESOURCE_EXHAUSTED, trailers=(later,)))
    processor, tracer = make()
    otel_agenteval.run("t1", "r1").report(success=True)
    eventually(lambda: not collector.report_script)
    tracer.start_span("root").end()
    assert collector.wait_for(lambda got: len(got.accepted) == 1)
    assert collector.received.reports == []
    assert processor.force_flush(10_000)
    assert len(collector.received.reports) == 1
    assert processor.stats.reports == {"waiting": 0, "delivered": 1}


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
        for _ in range(10):
            Stream()
            tracer.start_span("plain").end()
    finally:
        gc.enable()
    assert processor.force_flush()
    assert sorted(names(collector)) == ["plain"] * 10 + ["stream"] * 10
    assert processor.stats.faults == 0


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
