"""OTLP push of metrics to a backend of the user's.

Nothing here can hold up the collector: one snapshot is in flight at a time, every call has a timeout, and what fails is
counted.
"""

from typing import Any, Final

from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)

from agenteval_collector.emit.target import PushTarget
from agenteval_collector.emit.totals import Totals

_READER: Final = "push"


class MetricPush(PeriodicExportingMetricReader):
    """Pushes a snapshot of all instruments every interval; a snapshot that fails is superseded by the next one."""

    def __init__(self, target: PushTarget, totals: Totals) -> None:
        self._counting = _CountingMetricExporter(target.metric_exporter())
        self._totals = totals
        self._is_ending = False
        super().__init__(
            self._counting,
            export_interval_millis=target.interval * 1000,
            export_timeout_millis=target.timeout * 1000,
        )

    @property
    def failures(self) -> int:
        """Exports that failed for good."""
        return self._counting.failures

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """Push the last snapshot, on the thread of all the others."""
        self._is_ending = True
        super().shutdown(timeout_millis, **kwargs)

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> None:
        # What is new would stay 0 in the last snapshot, so that there is another one.
        snapshots = 2 if self._is_ending and self._totals.has_new(_READER) else 1
        for _ in range(snapshots):
            super()._receive_metrics(self._totals.added_to(metrics_data, _READER), timeout_millis, **kwargs)


class _CountingMetricExporter(MetricExporter):
    def __init__(self, exporter: MetricExporter) -> None:
        super().__init__()
        self._exporter = exporter
        self.failures = 0

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> MetricExportResult:
        delivered = False
        try:
            result = self._exporter.export(metrics_data, timeout_millis, **kwargs)
            delivered = result is MetricExportResult.SUCCESS
            return result
        finally:
            self.failures += not delivered

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        self._exporter.shutdown(timeout_millis, **kwargs)

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._exporter.force_flush(timeout_millis)
