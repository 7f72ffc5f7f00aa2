"""Push over OTLP/HTTP, to a real HTTP server."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.emit.target import PushTarget
from agenteval_collector.model.news import News

from tests.support.certificates import self_signed
from tests.support.evaluations import SPAN_ID, TRACE_ID, committed
from tests.support.eventually import eventually
from tests.support.otlp_backend import Backend
from tests.support.outboxes import TellingOutput
from tests.support.rendering import rendered
from tests.support.running_collector import RunningCollector


@pytest.fixture
def backend() -> Iterator[Backend]:
    made = Backend()
    yield made
    made.stop()


def output(endpoint: str, **changes: Any) -> TellingOutput:
    return TellingOutput(PushTarget(endpoint=endpoint, protocol="http/protobuf", **changes))


def emit(telemetry: TellingOutput) -> None:
    telemetry.tell(News(evaluations=[committed()]))


def failures(telemetry: TelemetryOutput, signal: str) -> bool:
    return f'push_failures_total{{agenteval_signal="{signal}"}} 0.0' not in rendered(telemetry)


def test_metrics_and_events_reach_the_backend(backend: Backend) -> None:
    telemetry = output(backend.endpoint, headers={"X-Api-Key": "ours"})
    emit(telemetry)
    telemetry.shutdown(timeout=10)
    backend.metrics()  # A new series is 0 in the first one.
    request, headers = backend.metrics()
    assert (headers["x-api-key"], headers["content-type"]) == ("ours", "application/x-protobuf")
    metrics = {metric.name: metric for metric in request.resource_metrics[0].scope_metrics[0].metrics}
    [point] = metrics["gen_ai.evaluation.score"].histogram.data_points
    assert (point.count, point.exemplars[0].trace_id.hex()) == (1, TRACE_ID)
    events, headers = backend.logs()
    assert headers["x-api-key"] == "ours"
    [record] = events.resource_logs[0].scope_logs[0].log_records
    assert (record.event_name, record.span_id.hex()) == ("gen_ai.evaluation.result", SPAN_ID)


def test_a_backend_that_is_busy_is_asked_again(backend: Backend) -> None:
    backend.answers = [503, 429]
    telemetry = output(backend.endpoint, events=False, interval=0.05, timeout=20)
    backend.metrics()
    assert not failures(telemetry, "metrics")
    telemetry.shutdown(timeout=10)


@pytest.mark.parametrize("status", [302, 401, 404])
def test_what_was_not_taken_is_counted(backend: Backend, status: int) -> None:
    backend.answers = [status] * 1000
    telemetry = output(backend.endpoint, events=False, interval=0.05)
    eventually(lambda: failures(telemetry, "metrics"))
    telemetry.shutdown(timeout=10)
    assert backend.taken["/otlp/v1/metrics"].empty()


def test_a_backend_without_log_records_gets_metrics_alone(backend: Backend) -> None:
    telemetry = output(backend.endpoint, events=False)
    emit(telemetry)
    telemetry.shutdown(timeout=10)
    backend.metrics()
    assert backend.taken["/otlp/v1/logs"].empty()


def test_the_environment_of_the_agents_has_no_effect(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login theirs password secret\n")
    theirs = {
        "NETRC": str(netrc),
        "HTTP_PROXY": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
        "REQUESTS_CA_BUNDLE": "/does/not/exist",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-vendor=key",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "nonsense",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "nonsense",
        "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER": "missing",
    }
    for name, value in theirs.items():
        monkeypatch.setenv(name, value)
    telemetry = output(backend.endpoint, headers={"authorization": "Bearer ours"})
    emit(telemetry)
    telemetry.shutdown(timeout=10)
    for _, headers in (backend.metrics(), backend.logs()):
        assert headers["authorization"] == "Bearer ours"
        assert "x-vendor" not in headers


def test_tls_uses_the_given_authority(tmp_path: Path) -> None:
    made = self_signed(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(made.certificate, made.key)
    backend = Backend(tls)
    telemetry = output(f"https://127.0.0.1:{backend.port}/otlp", certificate=made.certificate)
    emit(telemetry)
    telemetry.shutdown(timeout=10)
    backend.metrics()
    backend.logs()
    backend.stop()


def test_a_collector_pushes_as_its_settings_say(backend: Backend, tmp_path: Path) -> None:
    export = {"endpoint": backend.endpoint, "protocol": "http/protobuf", "events": False, "interval": 0.1}
    with RunningCollector(tmp_path, export=export):
        request, _ = backend.metrics()
    names = {metric.name for metric in request.resource_metrics[0].scope_metrics[0].metrics}
    assert "agenteval.collector.spans.received" in names


def test_a_certificate_that_cannot_be_read_is_an_error_in_the_settings(tmp_path: Path) -> None:
    export = {"endpoint": "https://127.0.0.1:1", "certificate": str(tmp_path / "missing.pem")}
    with pytest.raises(ConfigError, match=r"missing\.pem"):
        RunningCollector(tmp_path, export=export)
