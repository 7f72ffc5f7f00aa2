"""The collector's own telemetry: what it took, what it refused, and how far behind it is."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from agenteval_collector.emit.gauges import show_level
from agenteval_collector.emit.ports import Assembling, Memory, Push, Queue
from agenteval_collector.emit.totals import Totals
from agenteval_collector.model.counters import Counted
from otel_agenteval import semconv

_QUEUE: Final = "agenteval.queue"
_PREFIX: Final = "agenteval.collector."


class _Counter(NamedTuple):
    """A counter of the collector's own work. `attribute` tells its sorts apart; empty: it has none."""

    unit: str
    description: str
    attribute: str = ""


_COUNTERS: Final = {
    Counted.RECEIVED: _Counter("{span}", "Spans and log records that were acknowledged."),
    Counted.REJECTED: _Counter("{span}", "Spans and log records that were refused one by one."),
    Counted.LATE: _Counter("{span}", "Spans and log records that came after their trace was scored."),
    Counted.OWN_SCOPE: _Counter("{span}", "Spans and log records of our own, dropped unread."),
    Counted.REPLAYED: _Counter("{request}", "Requests read from the log again after a restart."),
    Counted.RELEASED_EARLY: _Counter(
        "{trace}", "Traces scored before they were complete, because they held too much memory or grew too old."
    ),
    Counted.PARTIAL: _Counter(
        "{trace}", "Traces that were scored without all of what was recorded of them.", "agenteval.reason"
    ),
    Counted.ESCALATED: _Counter("{session}", "Sessions outside the judge's sample that are judged for their findings."),
    Counted.NOT_ESCALATED: _Counter(
        "{session}",
        "Sessions outside the judge's sample with findings for which judge.escalate left no place at first.",
    ),
    Counted.REFUSED: _Counter(
        "{request}",
        "Requests of which nothing was kept: malformed, too large, or no room for them now.",
        semconv.ERROR_TYPE,
    ),
    Counted.UNREAD: _Counter(
        "{value}",
        "Recorded values that no dialect could read; the trace is scored without them.",
        "agenteval.kind",
    ),
    Counted.LEFT_OUT: _Counter(
        "{result}", "Results of other evaluators that could not be kept beside the scores.", "agenteval.reason"
    ),
    Counted.FORGOTTEN: _Counter(
        "{trace}", "Traces that were deleted, or were too old: their content, or all of them.", "agenteval.reason"
    ),
    Counted.DROPPED: _Counter("{item}", "Items that a full queue lost.", _QUEUE),
    Counted.SINK_FAILED: _Counter("{call}", "Calls of an emitter that raised.", "agenteval.sink"),
}


class CollectorTelemetry:
    """The pipeline's `Telemetry`, and levels that the composition root connects.

    Every `observe_*` but that of queues is called once.
    """

    def __init__(self, meter: Meter, totals: Totals, version: str) -> None:
        self._meter = meter
        self._queues: dict[str, Queue] = {}
        self._counters = {
            what: totals.counter(_PREFIX + what, unit=counter.unit, description=counter.description)
            for what, counter in _COUNTERS.items()
        }
        # A series that appears with its first event has no increase there: these start at zero.
        for what, counter in _COUNTERS.items():
            if not counter.attribute:
                self._counters[what].add(0)
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

    def count(self, what: Counted, number: int = 1, which: str = "") -> None:
        attribute = _COUNTERS[what].attribute
        self._counters[what].add(number, {attribute: which} if attribute else None)

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

    def observe_partitions(self, lags: Mapping[str, Callable[[], Mapping[int, int]]]) -> None:
        """Show how far this process is behind in each partition that it reads, by topic."""
        show_level(
            self._meter,
            "agenteval.collector.partition.lag",
            "{message}",
            "Messages of a partition of Kafka that are not done with.",
            lambda: [
                (lag, {"agenteval.topic": topic, "agenteval.partition": str(partition)})
                for topic, read in lags.items()
                for partition, lag in read().items()
            ],
        )

    def observe_memory(self, memory: Memory) -> None:
        """Show how much memory the process takes, and how much it may."""
        show_level(
            self._meter,
            "agenteval.collector.memory",
            "By",
            "Resident memory of the process.",
            lambda: [(memory.used, {})],
        )
        show_level(
            self._meter,
            "agenteval.collector.memory.limit",
            "By",
            "Memory that the process may take: near it, requests are refused.",
            lambda: [(memory.limit, {})],
        )

    def observe_duty(self, is_on_duty: Callable[[], bool]) -> None:
        """Show whether this process shows what is so for all that share the work."""
        show_level(
            self._meter,
            "agenteval.collector.on.duty",
            "",
            "1 where this process shows facts about all processes, pushes events and deletes, else 0: of several "
            "processes one does.",
            lambda: [(float(is_on_duty()), {})],
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
