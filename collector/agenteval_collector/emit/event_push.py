"""OTLP push of events: from the outbox, where they stay until the endpoint has taken them."""

from collections.abc import Callable, Sequence
from typing import Final

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from agenteval_collector.emit.ports import Outbox
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.news import Event
from agenteval_collector.runtime.component import Component
from agenteval_collector.runtime.inbox import Inbox
from otel_agenteval import semconv

EVENTS: Final = "events"
MAX_WAITING: Final = 100_000
"""Events that wait, about 100 MB."""
_BATCH: Final = 512
_LINGER: Final = 1.0
"""Seconds between two looks at the outbox."""


class EventPush(Component):
    """Pushes events, the oldest first, each until the endpoint has taken it: at least once, over restarts and outages.

    While more than `MAX_WAITING` wait, the oldest are dropped and counted.
    """

    def __init__(
        self,
        exporter: LogRecordExporter,
        outbox: Outbox,
        telemetry: Telemetry,
        *,
        resource: Resource,
        scope: InstrumentationScope,
        max_waiting: int = MAX_WAITING,
        is_on_duty: Callable[[], bool] = lambda: True,
    ) -> None:
        """`is_on_duty`: of several processes with this outbox, this is the one that pushes."""
        self._closing: Inbox[None] = Inbox(1)
        super().__init__(EVENTS, self._closing)
        self._exporter = exporter
        self._outbox = outbox
        self._telemetry = telemetry
        self._resource = resource
        self._scope = scope
        self._max_waiting = max_waiting
        self._is_on_duty = is_on_duty
        self._size = 0
        self.failures = 0
        """Exports that failed; their events are pushed again."""

    @property
    def waiting(self) -> int:
        """The events that waited at the last look, where this process pushes."""
        return self._size

    def run(self) -> None:
        while True:
            closing = self._closing.closed
            if self._push():
                continue
            if closing:
                return
            self._closing.take(1, _LINGER)

    def shutdown(self, timeout: float = 10.0) -> None:
        """Push what waits, within `timeout` seconds; what does not arrive leaves after the next start."""
        self._closing.close()
        self._thread.join(timeout)
        self._exporter.shutdown()  # type: ignore[no-untyped-call]
        super().shutdown(0.0)

    def _push(self) -> bool:
        """Push a batch. Returns whether it arrived and more is there."""
        if not self._is_on_duty():
            self._size = 0
            return False
        self.insist(self._drop_too_many)
        events = self.insist(self._outbox.oldest, _BATCH)
        if not events or not self._export(events):
            return False
        # Not together with the export: a disk that refuses this must not let them leave again and again.
        self.insist(self._outbox.remove, events)
        return len(events) == _BATCH

    def _drop_too_many(self) -> None:
        self._size = self._outbox.size()
        if (beyond := self._size - self._max_waiting) > 0:
            self._outbox.drop(beyond)
            self._telemetry.count(Counted.DROPPED, beyond, which=EVENTS)

    def _export(self, events: Sequence[Event]) -> bool:
        """Return whether the endpoint has taken the events."""
        try:
            result = self._exporter.export([self._record(each) for each in events])
        except Exception as error:  # noqa: BLE001  # `refused` logs it, once.
            self.refused(error)
            result = LogRecordExportResult.FAILURE
        else:
            self.accepted()
        self.failures += result is not LogRecordExportResult.SUCCESS
        return result is LogRecordExportResult.SUCCESS

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
        # What was exported to us was sampled.
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
    return set_span_in_context(NonRecordingSpan(span), Context())
