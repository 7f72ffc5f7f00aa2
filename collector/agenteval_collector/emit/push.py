"""OTLP push of metrics and events to a backend of the user's, over gRPC.

Nothing here can hold up the collector: one snapshot of the metrics is in flight at a time, events wait in a bounded
queue, every call has a timeout, and what fails is counted.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import grpc
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk._logs import ReadableLogRecord, ReadWriteLogRecord
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExportResult
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData, PeriodicExportingMetricReader

from agenteval_collector.emit.collector import CollectorTelemetry
from agenteval_collector.emit.events import finding_key
from agenteval_collector.emit.ports import ExportedFindings
from agenteval_collector.model.counters import Counted
from agenteval_collector.runtime.errors import RetryableError

_logger = logging.getLogger(__name__)

_EVENTS_QUEUE: Final = "events"
_EVENTS_CAPACITY: Final = 8192
_EVENTS_BATCH: Final = 512
_EVENTS_LINGER: Final = 1.0
_POINTS_PER_REQUEST: Final = 2000
"""Keeps a request far below gRPC's usual limit of 4 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushTarget:
    """The endpoint of a push: `http://host:port` (plain) or `https://host:port` (TLS), OTLP over gRPC.

    `ca_certificate` replaces the system's roots; it is PEM.
    `interval` is the seconds between two pushes of metrics, `timeout` those for one export with its retries.
    """

    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_certificate: bytes | None = None
    interval: float = 10.0
    timeout: float = 5.0

    def __post_init__(self) -> None:
        url = urlsplit(self.endpoint)
        if url.scheme not in {"http", "https"} or not url.hostname or url.path.strip("/") or url.query:
            raise ValueError(
                f"export endpoint {self.endpoint!r} must be http://host:port or https://host:port, without a path"
            )
        if url.scheme == "http" and self.ca_certificate is not None:
            raise ValueError(f"a certificate was given but export endpoint {self.endpoint!r} is not https")
        for name, value in self.headers.items():
            if not re.fullmatch(r"[0-9A-Za-z_.-]+", name) or name.lower().endswith("-bin"):
                raise ValueError(f"export header name {name!r} is not allowed in gRPC metadata")
            if not (value.isascii() and value.isprintable()):
                raise ValueError(f"the value of export header {name!r} has characters other than printable ASCII")
        if self.interval <= 0 or self.timeout <= 0:
            raise ValueError(f"export interval {self.interval} and timeout {self.timeout} must be above 0 seconds")

    def exporter_arguments(self) -> dict[str, Any]:
        """Return the arguments that both OTLP exporters take."""
        secure = urlsplit(self.endpoint).scheme == "https"
        return {
            "endpoint": self.endpoint,
            "insecure": not secure,
            "credentials": grpc.ssl_channel_credentials(self.ca_certificate) if secure else None,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "timeout": self.timeout,
            "compression": grpc.Compression.Gzip,
        }


class MetricPush(PeriodicExportingMetricReader):
    """Pushes a snapshot of all instruments every interval; a snapshot that fails is superseded by the next one."""

    def __init__(self, target: PushTarget) -> None:
        self._counting = _MetricExporter(target)
        super().__init__(
            self._counting,
            export_interval_millis=target.interval * 1000,
            export_timeout_millis=target.timeout * 1000,
        )

    @property
    def failures(self) -> int:
        """Exports that failed for good."""
        return self._counting.failures


class EventPush(BatchLogRecordProcessor):
    """Pushes evaluation events in batches; when too many wait, new ones are dropped and counted."""

    def __init__(self, target: PushTarget, telemetry: CollectorTelemetry, findings: ExportedFindings | None) -> None:
        """`findings` keeps those whose events the endpoint has taken, by the thread that pushes them."""
        self._backlog = _Backlog(_EVENTS_CAPACITY)
        self._counting = _EventExporter(target, self._backlog, findings)
        self._telemetry = telemetry
        super().__init__(
            self._counting,
            schedule_delay_millis=_EVENTS_LINGER * 1000,
            max_export_batch_size=_EVENTS_BATCH,
            export_timeout_millis=0,
            max_queue_size=_EVENTS_CAPACITY,
        )
        telemetry.observe_queues({_EVENTS_QUEUE: self._backlog})

    @property
    def failures(self) -> int:
        """Exports that failed for good; their events are lost."""
        return self._counting.failures

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        if self._backlog.take():
            super().on_emit(log_record)
        else:
            self._telemetry.count(Counted.DROPPED, which=_EVENTS_QUEUE)

    def abandon(self) -> None:
        """Cancel the export in flight and let what waits fail at once."""
        self._counting.shutdown()


class _Backlog:
    """Counter of the events that wait or are being sent. It never lets the SDK's own queue fill, because that drops
    silently."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._size = 0
        # Events are added by the emitting thread and taken away by the exporting one.
        self._lock = Lock()

    @property
    def waiting(self) -> int:
        return self._size

    def take(self) -> bool:
        """Make room for one event. Returns False where there is none."""
        with self._lock:
            if self._size >= self._capacity:
                return False
            self._size += 1
            return True

    def release(self, count: int) -> None:
        with self._lock:
            self._size -= count


class _EventExporter(OTLPLogExporter):
    def __init__(self, target: PushTarget, backlog: _Backlog, findings: ExportedFindings | None) -> None:
        super().__init__(**target.exporter_arguments())
        self._backlog = backlog
        self._findings = findings
        self.failures = 0

    def export(
        self, batch: Sequence[ReadableLogRecord]
    ) -> Literal[LogRecordExportResult.SUCCESS, LogRecordExportResult.FAILURE]:
        delivered = False
        try:
            result = super().export(batch)
            delivered = result is LogRecordExportResult.SUCCESS
            return result
        finally:
            self._backlog.release(len(batch))
            self.failures += not delivered
            if delivered and self._findings is not None:
                self._keep_exported(self._findings, batch)

    def _keep_exported(self, findings: ExportedFindings, batch: Sequence[ReadableLogRecord]) -> None:
        keys = [key for each in batch if (key := finding_key(each.log_record)) is not None]
        try:
            if keys:
                findings.exported(keys)
        except RetryableError as error:
            _logger.warning("%d events of findings have left, and will again after a restart: %s", len(keys), error)


class _MetricExporter(OTLPMetricExporter):
    def __init__(self, target: PushTarget) -> None:
        super().__init__(max_export_batch_size=_POINTS_PER_REQUEST, **target.exporter_arguments())
        self.failures = 0

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> MetricExportResult:
        delivered = False
        try:
            result = super().export(metrics_data, timeout_millis, **kwargs)
            delivered = result is MetricExportResult.SUCCESS
            return result
        finally:
            self.failures += not delivered
