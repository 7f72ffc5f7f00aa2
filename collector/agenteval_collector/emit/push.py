"""Push metrics and events over OTLP to the user's backend. Events stay in the outbox until the backend has taken them.

Nothing here can hold up the collector: one request of each signal is in flight at a time, every call has a timeout, and
failures are counted.
"""

from collections.abc import Callable, Sequence
from typing import Final, Generic

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from agenteval_collector.emit.meter import Meter
from agenteval_collector.emit.ports import Batch_contra, Exporter
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.news import Event
from agenteval_collector.runtime.component import SHORTEST_WAIT, Poller
from agenteval_collector.stores.outbox import OutboxStore
from otel_agenteval import semconv

EVENTS: Final = "events"
MAX_WAITING: Final = 100_000
"""The most events that wait, about 100 MB."""
_BATCH: Final = 512
_LINGER: Final = 1.0
"""Seconds between two looks at the outbox."""


class _Push(Poller, Generic[Batch_contra]):
    """Sends to the endpoint every `every` seconds, on a thread of its own."""

    def __init__(self, name: str, every: float, exporter: Exporter[Batch_contra]) -> None:
        super().__init__(name, every)
        self._exporter = exporter
        self.failures = 0
        """Exports that failed."""

    def run(self) -> None:
        super().run()
        self.survive(self.step)  # What waits leaves before the end.

    def end(self) -> None:
        """Ask the thread to send what waits and then stop. Returns at once."""
        self._stop.close()

    def shutdown(self, timeout: float = 10.0) -> None:
        """Send what waits, within `timeout` seconds, and stop."""
        self.end()
        if self.alive:
            self._thread.join(timeout)
        if self.alive:
            self._logger.warning("the export endpoint has not taken the last %s in time", self.name)
        self._exporter.shutdown()  # It ends the request under way.
        super().shutdown(SHORTEST_WAIT)

    def _export(self, batch: Batch_contra) -> bool:
        """Export a batch. Returns whether the endpoint has taken it."""
        accepted = False
        try:
            result = self._exporter.export(batch)
        except Exception as error:  # noqa: BLE001  # `refused` logs it, once.
            self.refused(error)
        else:
            self.accepted()
            accepted = result in (LogRecordExportResult.SUCCESS, MetricExportResult.SUCCESS)
        self.failures += not accepted
        return accepted


class MetricPush(_Push[MetricsData]):
    """Pushes a snapshot of all instruments every `every` seconds. A failed push is not repeated: the next snapshot
    replaces it."""

    def __init__(self, exporter: Exporter[MetricsData], meter: Meter, every: float) -> None:
        super().__init__("metrics", every, exporter)
        self._meter = meter

    def run(self) -> None:
        self._stop.take(1, self._every)  # At first there is nothing to push.
        super().run()

    def step(self) -> None:
        # New series are 0 in this snapshot, so if it is the last, a second one has to follow.
        is_new = self.stopping and self._meter.has_new(self.name)
        self._push()
        if is_new:
            self._push()

    def _push(self) -> None:
        self._export(self._meter.read(self.name))


class EventPush(_Push[Sequence[ReadableLogRecord]]):
    """Pushes events, oldest first, each until the endpoint has taken it: at least once, over restarts and outages.

    While more than `MAX_WAITING` events wait, the oldest are dropped and counted.
    """

    def __init__(
        self,
        exporter: Exporter[Sequence[ReadableLogRecord]],
        outbox: OutboxStore,
        telemetry: Telemetry,
        *,
        resource: Resource,
        scope: InstrumentationScope,
        max_waiting: int = MAX_WAITING,
        is_on_duty: Callable[[], bool],
    ) -> None:
        """`is_on_duty` says whether this process pushes, if several share the outbox."""
        super().__init__(EVENTS, _LINGER, exporter)
        self._outbox = outbox
        self._telemetry = telemetry
        self._resource = resource
        self._scope = scope
        self._max_waiting = max_waiting
        self._is_on_duty = is_on_duty
        self._size = 0

    @property
    def waiting(self) -> int:
        """The number of events at the last look; 0 if another process pushes."""
        return self._size

    def step(self) -> None:
        while self._push():
            pass

    def _push(self) -> bool:
        """Push a batch. Return True if the backend took it and more events may wait."""
        if not self._is_on_duty():
            self._size = 0
            return False
        self.insist(self._drop_too_many)
        events = self.insist(self._outbox.oldest, _BATCH)
        if not events or not self._export([self._record(event) for event in events]):
            return False
        # Insisted on apart from the export: if the disk refuses the removal, the events must not be sent again and
        # again.
        self.insist(self._outbox.remove, events)
        return len(events) == _BATCH

    def _drop_too_many(self) -> None:
        self._size = self._outbox.size()
        if (beyond := self._size - self._max_waiting) > 0:
            self._outbox.drop(beyond)
            self._telemetry.count(Counted.DROPPED, beyond, which=EVENTS)

    def _record(self, event: Event) -> ReadableLogRecord:
        return ReadableLogRecord(
            LogRecord(
                timestamp=event.at,
                observed_timestamp=event.at,
                context=_context(event),
                severity_number=SeverityNumber.INFO,
                severity_text="INFO",
                event_name=semconv.GEN_AI_EVALUATION_RESULT_EVENT,
                attributes=event.attributes,
            ),
            self._resource,
            self._scope,
        )


def _context(event: Event) -> Context:
    """Return the context of the evaluated span. Without a span id the trace id alone still leads there."""
    span = SpanContext(
        trace_id=int(event.trace_id or "0", 16),
        span_id=int(event.span_id or "0", 16),
        is_remote=True,
        # A span that was exported to us was sampled.
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
    return set_span_in_context(NonRecordingSpan(span), Context())
