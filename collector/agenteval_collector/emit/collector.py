"""The collector's own telemetry: what it took, what it refused, and how far behind it is."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from opentelemetry.metrics import CallbackOptions, Counter, Meter, Observation

from agenteval_collector.emit.ports import Assembling, Push, Queue
from otel_agenteval import semconv

_QUEUE: Final = "agenteval.queue"
_SINK: Final = "agenteval.sink"
_SIGNAL: Final = "agenteval.signal"
_KIND: Final = "agenteval.kind"


class CollectorTelemetry:
    """The pipeline's `Telemetry`, and levels that the composition root connects.

    Every `observe_*` but that of queues is called once.
    """

    def __init__(self, meter: Meter, version: str) -> None:
        self._meter = meter
        self._queues: dict[str, Queue] = {}
        self._received = self._counter("spans.received", "span", "Spans and log records that were acknowledged.")
        self._rejected = self._counter("spans.rejected", "span", "Spans and log records that were refused one by one.")
        self._late = self._counter(
            "spans.late", "span", "Spans and log records that came after their trace was scored."
        )
        self._own_scope = self._counter("spans.own_scope", "span", "Spans and log records of our own, dropped unread.")
        self._replayed = self._counter(
            "requests.replayed", "request", "Requests read from the log again after a restart."
        )
        self._released_early = self._counter(
            "traces.released_early",
            "trace",
            "Traces scored before they were complete, because they held too much memory or grew too old.",
        )
        # A series that appears with its first event has no increase there: these start at zero.
        always = (self._received, self._rejected, self._late, self._own_scope, self._replayed, self._released_early)
        for counter in always:
            counter.add(0)
        self._refused = self._counter(
            "requests.refused",
            "request",
            "Requests of which nothing was kept: malformed, too large, or no room for them now.",
        )
        self._unread = self._counter(
            "values.unread", "value", "Recorded values that no dialect could read; the trace is scored without them."
        )
        self._dropped = self._counter("queue.dropped", "item", "Items that a full queue lost.")
        self._sink_failures = self._counter("sink.failures", "call", "Calls of an emitter that raised.")
        self._level(
            "agenteval.collector.queue.size",
            "{item}",
            "Items waiting.",
            lambda: [(queue.waiting, {_QUEUE: name}) for name, queue in list(self._queues.items())],
        )
        self._level(
            "agenteval.collector.build_info",
            "",
            "Always 1; the label says which collector this is.",
            lambda: [(1, {semconv.SERVICE_VERSION: version})],
        )

    def received(self, spans: int) -> None:
        """Count spans and log records that were acknowledged."""
        self._received.add(spans)

    def rejected(self, spans: int) -> None:
        """Count spans and log records that were refused one by one."""
        self._rejected.add(spans)

    def refused(self, error_type: str) -> None:
        """Count a request that was refused as a whole."""
        self._refused.add(1, {semconv.ERROR_TYPE: error_type})

    def own_scope(self, spans: int) -> None:
        """Count spans and log records of our own instrumentation scopes, which are dropped."""
        self._own_scope.add(spans)

    def unread(self, kind: str, values: int) -> None:
        """Count recorded values of that kind that could not be read."""
        self._unread.add(values, {_KIND: kind})

    def late(self, spans: int) -> None:
        """Count spans and log records that came after their trace was scored."""
        self._late.add(spans)

    def replayed(self, requests: int) -> None:
        """Count requests that were read from the log again after a restart."""
        self._replayed.add(requests)

    def released_early(self, traces: int) -> None:
        """Count traces that were scored incomplete to keep memory bounded."""
        self._released_early.add(traces)

    def dropped(self, queue: str, count: int) -> None:
        """Count items that the full `queue` has lost."""
        self._dropped.add(count, {_QUEUE: queue})

    def sink_failed(self, sink: str) -> None:
        """Count a failure of the evaluation sink of that name."""
        self._sink_failures.add(1, {_SINK: sink})

    def observe_queues(self, queues: Mapping[str, Queue]) -> None:
        """Show how many items wait in these queues, too, by name."""
        self._queues.update(queues)

    def observe_assembly(self, assembly: Assembling) -> None:
        """Show how many traces are open, and how far scoring is behind what was acknowledged."""
        self._level(
            "agenteval.collector.traces.open",
            "{trace}",
            "Traces held in memory until they are complete.",
            lambda: [(assembly.open_traces, {})],
        )
        self._level(
            "agenteval.collector.log.lag",
            "{request}",
            "Acknowledged requests that are not fully scored.",
            lambda: [(assembly.lag().requests, {})],
        )
        self._level(
            "agenteval.collector.log.oldest_age",
            "s",
            "Age of the oldest acknowledged request that is not fully scored.",
            lambda: [(assembly.lag().oldest_age, {})],
        )

    def observe_pushes(self, pushes: Mapping[str, Push]) -> None:
        """Show how many OTLP exports failed for good so far, by signal."""

        def callback(_: CallbackOptions) -> Iterable[Observation]:
            for signal, push in pushes.items():
                yield Observation(push.failures, {_SIGNAL: signal})

        self._meter.create_observable_counter(
            "agenteval.collector.push.failures",
            [callback],
            unit="{request}",
            description="Exports to the configured OTLP endpoint that failed for good.",
        )

    def _counter(self, name: str, unit: str, description: str) -> Counter:
        return self._meter.create_counter(f"agenteval.collector.{name}", unit=f"{{{unit}}}", description=description)

    def _level(
        self,
        name: str,
        unit: str,
        description: str,
        read: Callable[[], list[tuple[float, dict[str, str]]]],
    ) -> None:
        def callback(_: CallbackOptions) -> Iterable[Observation]:
            return [Observation(value, attributes) for value, attributes in read()]

        self._meter.create_observable_gauge(name, [callback], unit=unit, description=description)
