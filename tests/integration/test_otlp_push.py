import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from signal import SIGKILL, SIGTERM
from typing import Any

import grpc
import pytest
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.emit.push import EventPush
from agenteval_collector.emit.target import PushTarget
from agenteval_collector.model.counters import NoTelemetry, Telemetry
from agenteval_collector.model.news import Event, News
from agenteval_collector.runtime.errors import Unavailable
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from tests.support.certificates import self_signed
from tests.support.crashing import CollectorProcess
from tests.support.evaluations import SPAN_ID, TRACE_ID, committed
from tests.support.eventually import eventually
from tests.support.looping import tool_span
from tests.support.otlp import traces
from tests.support.outboxes import MemoryOutbox, TellingOutput
from tests.support.rendering import rendered


class Backend:
    """An OTLP/gRPC receiver that keeps requests with their metadata, and answers while `answers` is set."""

    def __init__(self, credentials: grpc.ServerCredentials | None = None) -> None:
        self.metrics: Queue[tuple[metrics_service_pb2.ExportMetricsServiceRequest, dict[str, Any]]] = Queue()
        self.logs: Queue[tuple[logs_service_pb2.ExportLogsServiceRequest, dict[str, Any]]] = Queue()
        self.answers = threading.Event()
        self.answers.set()
        self._server = grpc.server(ThreadPoolExecutor(4))
        logs_service_pb2_grpc.add_LogsServiceServicer_to_server(_Logs(self), self._server)
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(_Metrics(self), self._server)
        if credentials is None:
            self.port = self._server.add_insecure_port("127.0.0.1:0")
        else:
            self.port = self._server.add_secure_port("127.0.0.1:0", credentials)
        self._server.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self.answers.set()
        self._server.stop(grace=None).wait(5)


class _Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self._backend.metrics.put((request, dict(context.invocation_metadata())))
        self._backend.answers.wait(300)
        return metrics_service_pb2.ExportMetricsServiceResponse()


class _Logs(logs_service_pb2_grpc.LogsServiceServicer):
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self._backend.logs.put((request, dict(context.invocation_metadata())))
        self._backend.answers.wait(300)
        return logs_service_pb2.ExportLogsServiceResponse()


@pytest.fixture
def backend() -> Iterator[Backend]:
    backend = Backend()
    yield backend
    backend.stop()


def emit(telemetry: TellingOutput, count: int = 1) -> None:
    for revision in range(1, count + 1):
        telemetry.tell(News(evaluations=[committed(revision=revision)]))


def attributes(pairs: Any) -> dict[str, Any]:
    def value(pair: KeyValue) -> Any:
        return getattr(pair.value, str(pair.value.WhichOneof("value")))

    return {pair.key: value(pair) for pair in pairs}


def loop_kinds(backend: Backend) -> list[str]:
    """The kinds of the loops in the next request with events."""
    request, _ = backend.logs.get(timeout=30)
    records = [
        each for resource in request.resource_logs for scope in resource.scope_logs for each in scope.log_records
    ]
    said = [attributes(each.attributes) for each in records]
    return [each["agenteval.loop.kind"] for each in said if "agenteval.loop.kind" in each]


def loop_kinds_so_far(backend: Backend) -> list[str]:
    return [kind for _ in range(backend.logs.qsize()) for kind in loop_kinds(backend)]


def metrics_by_name(request: metrics_service_pb2.ExportMetricsServiceRequest) -> dict[str, Metric]:
    [resource_metrics] = request.resource_metrics
    [scope_metrics] = resource_metrics.scope_metrics
    return {metric.name: metric for metric in scope_metrics.metrics}


def test_metrics_and_events_reach_the_backend(backend: Backend) -> None:
    telemetry = TellingOutput(PushTarget(endpoint=backend.endpoint, headers={"X-Api-Key": "ours"}))
    emit(telemetry)
    telemetry.shutdown(timeout=10)
    backend.metrics.get(timeout=30)  # A new series is 0 in the first one.
    request, metadata = backend.metrics.get(timeout=30)
    assert metadata["x-api-key"] == "ours"
    assert attributes(request.resource_metrics[0].resource.attributes) == {
        "service.name": "otel-agenteval-collector",
        "service.version": "9.8.7",
        "service.instance.id": "i-1",
    }
    score = metrics_by_name(request)["gen_ai.evaluation.score"]
    assert score.unit == "1"
    assert score.histogram.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    [point] = score.histogram.data_points
    assert list(point.explicit_bounds) == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert (point.count, point.sum) == (1, 0.75)
    assert attributes(point.attributes)["service.name"] == "shop"

    events, metadata = backend.logs.get(timeout=30)
    assert metadata["x-api-key"] == "ours"
    [scope_logs] = events.resource_logs[0].scope_logs
    assert scope_logs.scope.name == "agenteval_collector"
    [record] = scope_logs.log_records
    assert record.event_name == "gen_ai.evaluation.result"
    assert (record.trace_id.hex(), record.span_id.hex()) == (TRACE_ID, SPAN_ID)
    assert record.time_unix_nano == 1_700_000_000_000_000_000
    assert attributes(record.attributes)["gen_ai.evaluation.score.value"] == 0.75


def test_scores_lead_to_the_evaluated_span(backend: Backend) -> None:
    telemetry = TellingOutput(PushTarget(endpoint=backend.endpoint))
    telemetry.evaluations.take_news(News(evaluations=[committed()]))
    telemetry.shutdown(timeout=10)
    zero, _ = backend.metrics.get(timeout=30)
    [point] = metrics_by_name(zero)["gen_ai.evaluation.score"].histogram.data_points
    assert (point.count, list(point.exemplars)) == (0, [])
    request, _ = backend.metrics.get(timeout=30)
    [point] = metrics_by_name(request)["gen_ai.evaluation.score"].histogram.data_points
    [example] = point.exemplars
    assert (example.trace_id.hex(), example.span_id.hex()) == (TRACE_ID, SPAN_ID)
    assert example.as_double == 0.75
    assert point.start_time_unix_nano < example.time_unix_nano < point.time_unix_nano


def test_metrics_are_pushed_every_interval(backend: Backend) -> None:
    telemetry = TellingOutput(PushTarget(endpoint=backend.endpoint, interval=0.05))
    backend.metrics.get(timeout=30)
    backend.metrics.get(timeout=30)
    telemetry.shutdown(timeout=10)


def test_the_environment_of_the_agents_has_no_effect(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    vendor = Backend()
    hostile = {
        "OTEL_SDK_DISABLED": "true",
        "OTEL_RESOURCE_ATTRIBUTES": "service.name=theirs,secret=1",
        "OTEL_SERVICE_NAME": "theirs",
        "OTEL_METRICS_EXEMPLAR_FILTER": "nonsense",
        "OTEL_METRIC_EXPORT_INTERVAL": "nonsense",
        "OTEL_BLRP_MAX_QUEUE_SIZE": "1",
        "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE": "nonsense",
        "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT": "3",
        "OTEL_ATTRIBUTE_COUNT_LIMIT": "2",
        "OTEL_PYTHON_EXPORTER_OTLP_GRPC_CREDENTIAL_PROVIDER": "missing",
        "OTEL_PYTHON_EXPORTER_OTLP_GRPC_RETRYABLE_ERROR_CODES": "NONSENSE",
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "DELTA",
        "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "base2_exponential_bucket_histogram",
    }
    for signal in ("", "METRICS_", "LOGS_"):
        hostile |= {
            f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT": vendor.endpoint,
            f"OTEL_EXPORTER_OTLP_{signal}HEADERS": "authorization=vendor-key",
            f"OTEL_EXPORTER_OTLP_{signal}COMPRESSION": "nonsense",
            f"OTEL_EXPORTER_OTLP_{signal}CERTIFICATE": "/does/not/exist",
            f"OTEL_EXPORTER_OTLP_{signal}CLIENT_KEY": "/does/not/exist",
            f"OTEL_EXPORTER_OTLP_{signal}CLIENT_CERTIFICATE": "/does/not/exist",
            f"OTEL_EXPORTER_OTLP_{signal}TIMEOUT": "nonsense",
            f"OTEL_EXPORTER_OTLP_{signal}INSECURE": "false",
            f"OTEL_EXPORTER_OTLP_{signal}PROTOCOL": "http/json",
        }
    for name, value in hostile.items():
        monkeypatch.setenv(name, value)

    telemetry = TellingOutput(PushTarget(endpoint=backend.endpoint))
    emit(telemetry)
    page = rendered(telemetry)
    telemetry.shutdown(timeout=10)

    assert {name: os.environ.get(name) for name in hostile} == hostile, "other libraries still see theirs"
    assert "gen_ai_evaluation_score_bucket" in page
    request, metadata = backend.metrics.get(timeout=30)
    assert "authorization" not in metadata
    assert attributes(request.resource_metrics[0].resource.attributes)["service.name"] == "otel-agenteval-collector"
    score = metrics_by_name(request)["gen_ai.evaluation.score"]
    assert score.histogram.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    events, metadata = backend.logs.get(timeout=30)
    assert "authorization" not in metadata
    [record] = events.resource_logs[0].scope_logs[0].log_records
    assert attributes(record.attributes)["gen_ai.evaluation.explanation"] == "answers the question"
    assert vendor.metrics.empty()
    assert vendor.logs.empty()
    vendor.stop()


@pytest.mark.slow
def test_the_event_of_a_loop_survives_a_kill_before_it_was_taken_and_leaves_once(
    backend: Backend, tmp_path: Path
) -> None:
    backend.answers.clear()
    environ = {"AGENTEVAL_EXPORT__ENDPOINT": backend.endpoint}
    collector = CollectorProcess(tmp_path, environ)
    for number in (2, 3, 4):
        collector.send(traces(tool_span(1, number)))
    assert loop_kinds(backend) == ["identical_call"]
    collector.stop(SIGKILL)
    backend.answers.set()
    collector.start(environ)
    assert loop_kinds(backend) == ["identical_call"]
    collector.stop(SIGTERM)
    collector.start(environ)
    collector.stop(SIGTERM)
    assert loop_kinds_so_far(backend) == []


def test_delivered_events_leave_the_queue(backend: Backend) -> None:
    telemetry = TellingOutput(PushTarget(endpoint=backend.endpoint))
    emit(telemetry, 1000)
    eventually(lambda: '_queue_size{agenteval_queue="events"} 0.0' in rendered(telemetry))
    telemetry.shutdown(timeout=10)


def test_without_a_target_nothing_is_pushed(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", backend.endpoint)
    telemetry = TelemetryOutput(version="9.8.7", instance_id="i-1", is_on_duty=lambda: True)
    telemetry.evaluations.take_news(News(evaluations=[committed()]))
    telemetry.shutdown(timeout=10)
    assert backend.metrics.empty()


def test_a_backend_that_is_down_blocks_nothing_and_is_counted() -> None:
    gone = Backend()
    gone.stop()
    telemetry = TellingOutput(PushTarget(endpoint=gone.endpoint, interval=0.1, timeout=0.2))
    started = time.monotonic()
    emit(telemetry, 1000)
    assert time.monotonic() - started < 20

    def failed_signals() -> bool:
        page = rendered(telemetry)
        failures = re.findall(r'push_failures_total{agenteval_signal="(\w+)"} (\d+)', page)
        return {signal for signal, count in failures if int(count) > 0} == {"metrics", "logs"}

    eventually(failed_signals)
    started = time.monotonic()
    telemetry.shutdown(timeout=2)
    assert time.monotonic() - started < 20


def test_what_a_backend_did_not_take_is_pushed_until_it_has(backend: Backend) -> None:
    gone = Backend()
    gone.stop()
    outbox = MemoryOutbox()
    outbox.add(News(evaluations=[committed()]))
    first = TelemetryOutput(
        version="1", instance_id="i", push=PushTarget(endpoint=gone.endpoint), outbox=outbox, is_on_duty=lambda: True
    )
    first.shutdown(timeout=0.1)
    assert outbox.size() == 1
    second = TelemetryOutput(
        version="1", instance_id="i", push=PushTarget(endpoint=backend.endpoint), outbox=outbox, is_on_duty=lambda: True
    )
    backend.logs.get(timeout=20)
    eventually(lambda: outbox.size() == 0)
    second.shutdown(timeout=10)


class Exporter(InMemoryLogRecordExporter):
    """Remembers the revisions that it is given, and takes events while `takes`; a defect is raised at the first."""

    def __init__(self, *, takes: bool = True, defect: Exception | None = None) -> None:
        super().__init__()
        self.given: list[Any] = []
        self._takes = takes
        self._defect = defect

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        if (defect := self._defect) is not None:
            self._defect = None
            raise defect
        self.given += [each.log_record.attributes["agenteval.evaluation.revision"] for each in batch]
        return LogRecordExportResult.SUCCESS if self._takes else LogRecordExportResult.FAILURE


def pushing(exporter: Exporter, outbox: MemoryOutbox, telemetry: Telemetry) -> EventPush:
    of, scope = Resource({}), InstrumentationScope("scope")
    push = EventPush(exporter, outbox, telemetry, resource=of, scope=scope, max_waiting=5, is_on_duty=lambda: True)
    push.start()
    return push


def test_of_too_many_events_the_oldest_are_dropped_and_counted() -> None:
    outbox, counted = MemoryOutbox(), TelemetryOutput(version="1", instance_id="i", is_on_duty=lambda: True)
    outbox.add(News(evaluations=[committed(revision=revision) for revision in range(1, 8)]))
    exporter = Exporter(takes=False)
    push = pushing(exporter, outbox, counted.own_work)
    eventually(lambda: len(exporter.given) >= 5 and push.failures > 0)
    push.shutdown(10)
    assert exporter.given[:5] == [3, 4, 5, 6, 7]
    page = rendered(counted)
    assert 'agenteval_collector_queue_dropped_total{agenteval_queue="events"} 2.0' in page


def test_what_has_arrived_does_not_leave_again_while_the_store_cannot_forget_it() -> None:
    class Full(MemoryOutbox):
        refusals = 3

        def remove(self, events: Iterable[Event]) -> None:
            if self.refusals:
                self.refusals -= 1
                raise Unavailable("the disk is full", retry_after=0.0)
            super().remove(events)

    outbox, exporter = Full(), Exporter()
    outbox.add(News(evaluations=[committed()]))
    push = pushing(exporter, outbox, NoTelemetry())
    eventually(lambda: outbox.size() == 0)
    push.shutdown(10)
    assert (exporter.given, outbox.refusals) == ([1], 0)


def test_a_defect_of_an_exporter_delays_events() -> None:
    outbox, exporter = MemoryOutbox(), Exporter(defect=ValueError("a defect"))
    outbox.add(News(evaluations=[committed()]))
    push = pushing(exporter, outbox, NoTelemetry())
    eventually(lambda: outbox.size() == 0)
    push.shutdown(10)
    assert (exporter.given, push.failures) == ([1], 1)


def test_a_defect_of_the_outbox_delays_events() -> None:
    class Broken(MemoryOutbox):
        defects = 1

        def oldest(self, limit: int) -> list[Event]:
            if self.defects:
                self.defects -= 1
                raise ValueError("a defect")
            return super().oldest(limit)

    outbox, exporter = Broken(), Exporter()
    outbox.add(News(evaluations=[committed()]))
    push = pushing(exporter, outbox, NoTelemetry())
    eventually(lambda: outbox.size() == 0)
    push.shutdown(10)
    assert exporter.given == [1]


def ours() -> set[threading.Thread]:
    """The threads that a push may leave behind."""
    return {each for each in threading.enumerate() if each.name.startswith(("Otel", "agenteval-"))}


def test_a_backend_that_hangs_keeps_events_waiting_and_ends_in_time(backend: Backend) -> None:
    backend.answers.clear()
    others = ours()
    telemetry = TellingOutput(PushTarget(endpoint=backend.endpoint, timeout=300))
    emit(telemetry, 9000)
    backend.logs.get(timeout=20)
    started = time.monotonic()
    telemetry.shutdown(timeout=0.5)
    assert time.monotonic() - started < 20
    assert telemetry.outbox.size() == 9000
    eventually(lambda: ours() <= others)


def test_tls_uses_the_given_authority(tmp_path: Path) -> None:
    made = self_signed(tmp_path)
    backend = Backend(grpc.ssl_server_credentials([made.pair()]))
    target = PushTarget(
        endpoint=f"https://127.0.0.1:{backend.port}", headers={"x-api-key": "ours"}, certificate=made.certificate
    )
    telemetry = TellingOutput(target)
    emit(telemetry)
    telemetry.shutdown(timeout=10)
    assert backend.metrics.get(timeout=30)[1]["x-api-key"] == "ours"
    assert backend.logs.get(timeout=30)[1]["x-api-key"] == "ours"
    backend.stop()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param({"endpoint": "127.0.0.1:4317"}, "http://host:port", id="no scheme"),
        pytest.param({"endpoint": "http://"}, "http://host:port", id="no host"),
        pytest.param({"endpoint": "http://h:1/v1/metrics"}, "without a path", id="a path, which gRPC has not"),
        pytest.param({"certificate": Path(__file__)}, "not https", id="a certificate for a plain connection"),
        pytest.param({"headers": {"bad name": "v"}}, "'bad name'", id="a header name that gRPC refuses"),
        pytest.param({"headers": {"x-bin": "v"}}, "'x-bin'", id="a binary header"),
        pytest.param({"headers": {"x": "a\nb"}}, "printable ASCII", id="a header value of two lines"),
        pytest.param({"interval": 0}, "above 0", id="no interval"),
        pytest.param({"timeout": -1}, "above 0", id="no time"),
    ],
)
def test_a_target_that_cannot_work_is_refused(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        PushTarget(**{"endpoint": "http://h:1", **arguments})


def test_a_target_does_not_show_its_secrets() -> None:
    target = PushTarget(endpoint="https://h:1", headers={"x-api-key": "secret"})
    assert "secret" not in repr(target)
