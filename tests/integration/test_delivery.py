"""The processor against a real gRPC server that refuses, delays, fails or is gone."""

import threading
import time

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry import trace

import otel_agenteval
from otel_agenteval.sending.export import MAX_SPAN_BYTES
from tests.support.attached import Make, collector, make, names, span_attributes
from tests.support.eventually import eventually
from tests.support.fake_collector import FakeCollector, Reply

__all__ = ["collector", "make"]


def retry_info(seconds: float) -> RetryInfo:
    delay = Duration()
    delay.FromNanoseconds(round(seconds * 1e9))
    return RetryInfo(retry_delay=delay)


def in_status_details(seconds: float) -> bytes:
    detail = AnyMessage()
    detail.Pack(retry_info(seconds))
    return Status(code=8, details=[detail]).SerializeToString()


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
    assert time.monotonic() - started >= 0.7
    assert names(collector) == ["root"]


def test_collector_that_asks_for_no_delay_gets_our_own(collector: FakeCollector, make: Make) -> None:
    at_once = Reply(
        grpc.StatusCode.RESOURCE_EXHAUSTED, trailers=(("google.rpc.retryinfo-bin", retry_info(0).SerializeToString()),)
    )
    collector.script += [at_once] * 3
    _, tracer = make()
    started = time.monotonic()
    tracer.start_span("root").end()
    assert collector.wait_for(lambda got: len(got.requests) == 4)
    assert time.monotonic() - started >= 0.05 + 0.1 + 0.2


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


@pytest.mark.parametrize("reply", ["refuses", "rejects", "warns"])
def test_what_a_collector_says_cannot_move_the_cursor_or_forge_a_line(
    collector: FakeCollector, make: Make, caplog: pytest.LogCaptureFixture, reply: str
) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J no\r\nERROR all is lost \u202e\x9b"
    collector.script.append(
        Reply(grpc.StatusCode.INVALID_ARGUMENT, hostile)
        if reply == "refuses"
        else Reply(rejected=int(reply == "rejects"), message=hostile)
    )
    processor, tracer = make()
    tracer.start_span("root").end()
    assert processor.force_flush()
    [line] = [each.getMessage() for each in caplog.records if "all is lost" in each.getMessage()]
    assert line.isprintable()


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
    for _ in range(1000):
        tracer.start_span("more").end()
    # The collector still holds the first: whoever waited for it would come here after its answer.
    assert not collector.received.accepted
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
    assert time.monotonic() - started < 9
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
    assert time.monotonic() - started < 20
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
    assert time.monotonic() - started < 9
    assert processor.stats.dropped == {"shutdown": 1}
    release.set()


def test_report_is_retried_and_does_not_hold_up_spans(collector: FakeCollector, make: Make) -> None:
    later = ("google.rpc.retryinfo-bin", retry_info(2.5).SerializeToString())
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
