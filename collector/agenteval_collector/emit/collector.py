"""The collector's own telemetry: what it took, what it refused, and how far behind it is."""

from collections.abc import Iterable, Mapping
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from agenteval_collector.emit.gauges import show_level
from agenteval_collector.emit.ports import Assembling, Push, Queue
from otel_agenteval import semconv

_QUEUE: Final = "agenteval.queue"
_PREFIX: Final = "agenteval.collector."
_PLAIN: Final = {
    "spans.received": ("{span}", "Spans and log records that were acknowledged."),
    "spans.rejected": ("{span}", "Spans and log records that were refused one by one."),
    "spans.late": ("{span}", "Spans and log records that came after their trace was scored."),
    "spans.own_scope": ("{span}", "Spans and log records of our own, dropped unread."),
    "requests.replayed": ("{request}", "Requests read from the log again after a restart."),
    "traces.released_early": (
        "{trace}",
        "Traces scored before they were complete, because they held too much memory or grew too old.",
    ),
    "sessions.escalated": ("{session}", "Sessions outside the judge's sample that are judged for their findings."),
    "sessions.not_escalated": (
        "{session}",
        "Sessions outside the judge's sample with findings for which judge.escalate left no place at first.",
    ),
}
"""The counters without attributes: unit and description by name."""
_BY_ATTRIBUTE: Final = {
    "requests.refused": (
        "{request}",
        "Requests of which nothing was kept: malformed, too large, or no room for them now.",
    ),
    "values.unread": (
        "{value}",
        "Recorded values that no dialect could read; the trace is scored without them.",
    ),
    "results.left_out": (
        "{result}",
        "Results of other evaluators that could not be kept beside the scores.",
    ),
    "queue.dropped": ("{item}", "Items that a full queue lost."),
    "sink.failures": ("{call}", "Calls of an emitter that raised."),
}


class CollectorTelemetry:
    """The pipeline's `Telemetry`, and levels that the composition root connects.

    Every `observe_*` but that of queues is called once.
    """

    def __init__(self, meter: Meter, version: str) -> None:
        self._meter = meter
        self._queues: dict[str, Queue] = {}
        self._counters = {
            name: meter.create_counter(_PREFIX + name, unit=unit, description=description)
            for name, (unit, description) in {**_PLAIN, **_BY_ATTRIBUTE}.items()
        }
        # A series that appears with its first event has no increase there: these start at zero.
        for name in _PLAIN:
            self._counters[name].add(0)
        show_level(
            meter,
            "agenteval.collector.queue.size",
            "{item}",
            "Items waiting.",
            lambda: [(queue.waiting, {_QUEUE: name}) for name, queue in list(self._queues.items())],
        )
        show_level(
            meter,
            "agenteval.collector.build_info",
            "",
            "Always 1; the label says which collector this is.",
            lambda: [(1, {semconv.SERVICE_VERSION: version})],
        )

    def received(self, spans: int) -> None:
        self._counters["spans.received"].add(spans)

    def rejected(self, spans: int) -> None:
        self._counters["spans.rejected"].add(spans)

    def refused(self, error_type: str) -> None:
        self._counters["requests.refused"].add(1, {semconv.ERROR_TYPE: error_type})

    def own_scope(self, spans: int) -> None:
        self._counters["spans.own_scope"].add(spans)

    def unread(self, kind: str, values: int) -> None:
        self._counters["values.unread"].add(values, {"agenteval.kind": kind})

    def result_left_out(self, reason: str, results: int) -> None:
        self._counters["results.left_out"].add(results, {"agenteval.reason": reason})

    def late(self, spans: int) -> None:
        self._counters["spans.late"].add(spans)

    def replayed(self, requests: int) -> None:
        self._counters["requests.replayed"].add(requests)

    def released_early(self, traces: int) -> None:
        self._counters["traces.released_early"].add(traces)

    def dropped(self, queue: str, count: int) -> None:
        self._counters["queue.dropped"].add(count, {_QUEUE: queue})

    def escalation(self, has_place: bool) -> None:
        self._counters["sessions.escalated" if has_place else "sessions.not_escalated"].add(1)

    def sink_failed(self, sink: str) -> None:
        """Count a failure of the news sink of that name."""
        self._counters["sink.failures"].add(1, {"agenteval.sink": sink})

    def observe_queues(self, queues: Mapping[str, Queue]) -> None:
        """Show how many items wait in these queues, too, by name."""
        self._queues.update(queues)

    def observe_assembly(self, assembly: Assembling) -> None:
        """Show how many traces are open, and how far scoring is behind what was acknowledged."""
        show_level(
            self._meter,
            "agenteval.collector.traces.open",
            "{trace}",
            "Traces held in memory until they are complete.",
            lambda: [(assembly.open_traces, {})],
        )
        show_level(
            self._meter,
            "agenteval.collector.log.lag",
            "{request}",
            "Acknowledged requests that are not fully scored.",
            lambda: [(assembly.lag().requests, {})],
        )
        show_level(
            self._meter,
            "agenteval.collector.log.oldest_age",
            "s",
            "Age of the oldest acknowledged request that is not fully scored.",
            lambda: [(assembly.lag().oldest_age, {})],
        )

    def observe_pushes(self, pushes: Mapping[str, Push]) -> None:
        """Show how many OTLP exports failed for good so far, by signal."""

        def callback(_: CallbackOptions) -> Iterable[Observation]:
            return [Observation(push.failures, {"agenteval.signal": signal}) for signal, push in pushes.items()]

        self._meter.create_observable_counter(
            "agenteval.collector.push.failures",
            [callback],
            unit="{request}",
            description="Exports to the configured OTLP endpoint that failed for good.",
        )
