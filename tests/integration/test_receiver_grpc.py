import gzip
from collections.abc import Iterator
from concurrent import futures
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import grpc
import pytest
from agenteval_collector.config.settings import QuotasConfig
from agenteval_collector.ingest.grpc import otlp_handlers
from agenteval_collector.ingest.ingest import Ingest, sender_stamp
from agenteval_collector.ingest.quotas import Quotas
from agenteval_collector.ingest.rejections import RejectionLog
from agenteval_collector.ingest.validity import Limits
from agenteval_collector.model.callers import ANONYMOUS
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.runtime.errors import Overloaded, Unavailable
from agenteval_collector.runtime.memory import MemoryGuard
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.assembling import Counting
from tests.support.databases import locked
from tests.support.eventually import eventually
from tests.support.otlp import log, logs, marked, span, trace_id, traces, turn
from tests.support.running_collector import RunningCollector

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

MANY_PARTS: dict[str, Any] = {f"part{number}": "x" * 8_000 for number in range(20)}


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    limits = {"max_span_bytes": 100_000, "max_request_bytes": 1_000_000}
    with RunningCollector(tmp_path_factory.mktemp("data"), server=limits) as running:
        yield running


def raw(collector: RunningCollector, body: bytes, **options: Any) -> bytes:
    export: Any = collector.channel.unary_unary(EXPORT)
    return export(body, timeout=20, **options)


def logged(collector: RunningCollector) -> int:
    return collector.service.pipeline.base.storage.requests.last_offset()


def test_an_accepted_request_is_on_disk_when_it_is_answered(collector: RunningCollector) -> None:
    before = logged(collector)
    assert collector.send(traces(span(1, 1))) == ExportTraceServiceResponse()
    [request] = collector.service.pipeline.base.storage.requests.get([before + 1])
    assert request.body == traces(span(1, 1)).SerializeToString() + sender_stamp("anonymous")


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        pytest.param(Span(trace_id=b"short", span_id=b"12345678"), "trace id", id="a trace id of five bytes"),
        pytest.param(Span(trace_id=bytes(16), span_id=b"12345678"), "trace id", id="a trace id of zeros"),
        pytest.param(Span(trace_id=trace_id(1), span_id=bytes(8)), "span id", id="a span id of zeros"),
        pytest.param(Span(trace_id=trace_id(1)), "span id", id="no span id"),
        pytest.param(
            span(1, 2, **MANY_PARTS),
            "larger than 100000 bytes (server.max_span_bytes)",
            id="a span over the limit",
        ),
    ],
)
def test_bad_spans_are_rejected_one_by_one(collector: RunningCollector, bad: Span, reason: str) -> None:
    before = logged(collector)
    answer = collector.send(traces(bad, span(5, 1), bad))
    assert answer.partial_success.rejected_spans == 2
    assert reason in answer.partial_success.error_message
    [request] = collector.service.pipeline.base.storage.requests.get([before + 1])
    assert request.body == traces(span(5, 1)).SerializeToString() + sender_stamp("anonymous")


def test_a_parent_of_zeros_is_none(collector: RunningCollector) -> None:
    before = logged(collector)
    root = span(8, 1)
    root.parent_span_id = bytes(8)
    assert collector.send(traces(root, span(8, 2, parent=1))) == ExportTraceServiceResponse()
    [request] = collector.service.pipeline.base.storage.requests.get([before + 1])
    assert request.body == traces(span(8, 1), span(8, 2, parent=1)).SerializeToString() + sender_stamp("anonymous")


def test_a_request_of_which_nothing_is_left_is_not_logged(collector: RunningCollector) -> None:
    before = logged(collector)
    assert collector.send(traces(Span())).partial_success.rejected_spans == 1
    assert collector.send(traces()) == ExportTraceServiceResponse()
    assert logged(collector) == before


def test_bad_log_records_are_rejected_one_by_one(collector: RunningCollector) -> None:
    good, bad = log(6, 1, gen_ai__x="y"), log(6, 1, gen_ai__x="y")
    bad.trace_id = b"no"
    assert collector.send_logs(logs(good, bad)).partial_success.rejected_log_records == 1


def test_our_own_telemetry_is_dropped_counted_and_answered_with_success(collector: RunningCollector) -> None:
    before = logged(collector)
    assert collector.send(traces(span(9, 1), span(9, 2), scope="otel_agenteval")) == ExportTraceServiceResponse()
    assert logged(collector) == before
    assert "agenteval_collector_spans_own_scope_total 2.0" in collector.get("/metrics")


def test_what_is_no_protobuf_is_an_invalid_argument(collector: RunningCollector) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        raw(collector, b"\xff\xff not protobuf")
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "ExportTraceServiceRequest" in refused.value.details()


def test_a_request_over_the_limit_is_refused_with_the_limit_in_the_message(collector: RunningCollector) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        collector.send(traces(*(span(1, n, text="x" * 90_000) for n in range(1, 13))))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "the limit is 1000000" in refused.value.details()


def test_gzip_is_read(collector: RunningCollector) -> None:
    stub = TraceServiceStub(collector.channel)
    request = traces(marked(span(20, 1), 1, "p"))
    assert stub.Export(request, timeout=20, compression=grpc.Compression.Gzip) == ExportTraceServiceResponse()
    assert collector.scored(trace_id(20).hex())["span_count"] == 1


def test_a_gzip_bomb_is_refused_before_it_is_unpacked(collector: RunningCollector) -> None:
    bomb = traces(span(1, 1, text="x" * 50_000_000)).SerializeToString()
    assert len(gzip.compress(bomb)) < 100_000
    with pytest.raises(grpc.RpcError) as refused:
        raw(collector, bomb, compression=grpc.Compression.Gzip)
    assert refused.value.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT)


class _Refusing:
    """A log that takes nothing, before an assembly that has room."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def admit(self) -> None: ...

    def append(self, signal: object, body: bytes) -> list[Future[int]]:
        raise self._error

    def label(self, *said: object) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(Overloaded("full", retry_after=2.5), grpc.StatusCode.RESOURCE_EXHAUSTED, id="overloaded"),
        pytest.param(Unavailable("no disk", retry_after=2.5), grpc.StatusCode.UNAVAILABLE, id="unavailable"),
    ],
)
def test_a_refusal_for_now_says_when_to_come_back_in_both_forms(error: Exception, code: grpc.StatusCode) -> None:
    limits, memory = Limits(request=1000, span=1000), MemoryGuard(1 << 40, SystemClock())
    refusing, rejections = _Refusing(error), RejectionLog(SystemClock().monotonic)
    ingest = Ingest(
        refusing, refusing, refusing, limits, Counting(), memory, rejections, Quotas(QuotasConfig(), SystemClock())
    )
    server = grpc.server(futures.ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers(otlp_handlers(lambda _context: ingest, lambda _context: ANONYMOUS))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel, pytest.raises(grpc.RpcError) as refused:
            TraceServiceStub(channel).Export(traces(span(1, 1)), timeout=20)
    finally:
        server.stop(None).wait(5)
    assert refused.value.code() is code
    metadata: Any = refused.value.trailing_metadata()
    trailing = dict(metadata)
    status = status_pb2.Status.FromString(trailing["grpc-status-details-bin"])
    in_status = error_details_pb2.RetryInfo()
    assert status.details[0].Unpack(in_status)
    in_metadata = error_details_pb2.RetryInfo.FromString(trailing["google.rpc.retryinfo-bin"])
    assert in_status.retry_delay.ToMilliseconds() == in_metadata.retry_delay.ToMilliseconds() == 2500


def test_senders_are_told_to_come_back_while_the_pipeline_is_stuck_and_welcome_after(tmp_path: Path) -> None:
    with RunningCollector(tmp_path, log={"max_pending_bytes": 2000}) as collector:
        note = logs(log(0, 0, body="x" * 500))
        with locked(tmp_path / "agenteval.db"):
            error: Any = eventually(lambda: _refusal(collector, note), within=60)
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "google.rpc.retryinfo-bin" in dict(error.trailing_metadata())
        eventually(lambda: _refusal(collector, note) is None, within=60)
        collector.send(traces(turn(1, "a", "b")))
        assert collector.scored(trace_id(1).hex())["status"] == "scored"


def _refusal(collector: RunningCollector, note: ExportLogsServiceRequest) -> grpc.RpcError | None:
    try:
        collector.send_logs(note)
    except grpc.RpcError as error:
        return error
    return None


def test_with_keys_only_their_holders_are_answered(tmp_path: Path) -> None:
    with RunningCollector(tmp_path, server={"keys": ["secret"]}) as collector:
        stub = TraceServiceStub(collector.channel)
        for metadata in ((), (("authorization", "Bearer wrong"),), (("authorization", "secret"),)):
            with pytest.raises(grpc.RpcError) as refused:
                stub.Export(traces(span(1, 1)), timeout=20, metadata=metadata)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert "authorization: Bearer KEY" in refused.value.details()
        stub.Export(traces(span(1, 1)), timeout=20, metadata=(("authorization", "Bearer secret"),))
        assert collector.service.pipeline.base.storage.requests.last_offset() == 1
