"""Instruments for the collector's own work: what it received, what it refused, and how far behind it is."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from agenteval_collector.assembly.assembler import Assembler
from agenteval_collector.assembly.stage import AssemblyStage
from agenteval_collector.emit.meter import Meter, SeriesBudget
from agenteval_collector.emit.ports import Queue
from agenteval_collector.model.counters import Counted
from agenteval_collector.runtime.files import folder_bytes
from agenteval_collector.runtime.memory import MemoryGuard
from agenteval_collector.runtime.workers import Workers
from otel_agenteval import semconv

_QUEUE: Final = "agenteval.queue"
_TOPIC: Final = "agenteval.topic"
_PREFIX: Final = "agenteval.collector."


class _CounterSpec(NamedTuple):
    """The unit and description of a counter. If it has an `attribute`, that attribute has one value for each sort of
    thing that is counted."""

    unit: str
    description: str
    attribute: str = ""


_COUNTERS: Final = {
    Counted.RECEIVED: _CounterSpec("{span}", "Spans and log records that were acknowledged."),
    Counted.REJECTED: _CounterSpec("{span}", "Spans and log records that were refused one by one."),
    Counted.LATE: _CounterSpec("{span}", "Spans and log records that came after their trace was scored."),
    Counted.OWN_SCOPE: _CounterSpec("{span}", "Spans and log records of our own, dropped unread."),
    Counted.REPLAYED: _CounterSpec("{request}", "Requests read from the log again after a restart."),
    Counted.RELEASED_EARLY: _CounterSpec(
        "{trace}", "Traces scored before they were complete, because they held too much memory or grew too old."
    ),
    Counted.PARTIAL: _CounterSpec(
        "{trace}", "Traces that were scored without all of what was recorded of them.", "agenteval.reason"
    ),
    Counted.ESCALATED: _CounterSpec(
        "{session}", "Sessions outside the judge's sample that are judged for their findings."
    ),
    Counted.NOT_ESCALATED: _CounterSpec(
        "{session}",
        "Sessions outside the judge's sample with findings for which judge.escalate left no place at first.",
    ),
    Counted.REFUSED: _CounterSpec(
        "{request}",
        "Requests of which nothing was kept: malformed, too large, or no room for them now.",
        semconv.ERROR_TYPE,
    ),
    Counted.UNREAD: _CounterSpec(
        "{value}",
        "Recorded values that no dialect could read; the trace is scored without them.",
        "agenteval.kind",
    ),
    Counted.PASSED_OVER: _CounterSpec(
        "{message}", "Messages of Kafka that could not be worked off, and were passed over.", _TOPIC
    ),
    Counted.LEFT_OUT: _CounterSpec(
        "{result}", "Results of other evaluators that could not be kept beside the scores.", "agenteval.reason"
    ),
    Counted.METRICS_DROPPED: _CounterSpec("{request}", "Requests with metrics, which are answered and dropped."),
    Counted.FORGOTTEN: _CounterSpec(
        "{trace}", "Traces that were deleted, or were too old: their content, or all of them.", "agenteval.reason"
    ),
    Counted.DROPPED: _CounterSpec("{item}", "Items that a full queue lost.", _QUEUE),
    Counted.NOT_SENT: _CounterSpec("{message}", "Tries to send a notification that failed; each is repeated."),
    Counted.SINK_FAILED: _CounterSpec("{call}", "Calls of an emitter that raised.", "agenteval.sink"),
}


class CollectorTelemetry:
    """The pipeline's `Telemetry`, and observable instruments for the parts that `wiring/` names.

    Call each `observe_*` once, and `observe_queues` as often as there are further queues.
    """

    def __init__(self, meter: Meter, version: str) -> None:
        self._meter = meter
        self._queues: dict[str, Queue] = {}
        self._counters = {
            what: meter.counter(_PREFIX + what, counter.unit, counter.description)
            for what, counter in _COUNTERS.items()
        }
        # Prometheus sees no increase if a series appears with its first event, so counters without an attribute
        # start at 0.
        for what, counter in _COUNTERS.items():
            if not counter.attribute:
                self._counters[what].add(0)
        meter.observable(
            "agenteval.collector.queue.size",
            "{item}",
            "Items waiting.",
            # A copy, as queues may be added while a scrape reads.
            lambda: [(queue.waiting, {_QUEUE: name}) for name, queue in list(self._queues.items())],
        )
        about = "Always 1; the label says which collector this is."
        meter.observable("agenteval.collector.build_info", "", about, lambda: [(1, {semconv.SERVICE_VERSION: version})])

    def count(self, what: Counted, number: int = 1, which: str = "") -> None:
        attribute = _COUNTERS[what].attribute
        self._counters[what].add(number, {attribute: which} if attribute else None)

    def observe_queues(self, queues: Mapping[str, Queue]) -> None:
        """Show how many items wait in these queues, by name. May be called again for further queues."""
        self._queues.update(queues)

    def observe_assembly(self, assembly: Assembler, stage: AssemblyStage) -> None:
        """Show how many traces are open, and how far scoring lags behind the requests that were acknowledged."""
        about = "How long the oldest complete trace, or the oldest request, has waited."
        self._show("late", "s", about, lambda: stage.late)
        about = "Traces held in memory until they are complete."
        self._show("traces.open", "{trace}", about, lambda: assembly.open_traces)
        about = "Acknowledged requests that are not fully scored."
        self._show("log.lag", "{request}", about, lambda: assembly.lag().requests)
        about = "Age of the oldest acknowledged request that is not fully scored."
        self._show("log.oldest_age", "s", about, lambda: assembly.lag().oldest_age)

    def observe_quarantine(self, read: Callable[[], Sequence[tuple[str, int]]]) -> None:
        """Show how much input of each kind is set aside."""
        self._meter.observable(
            "agenteval.collector.quarantine",
            "{item}",
            "Input that is set aside, because the collector died on it or cannot read it.",
            lambda: [(count, {"agenteval.kind": kind}) for kind, count in read()],
        )

    def observe_partitions(self, lags: Mapping[str, Callable[[], Mapping[int, int]]]) -> None:
        """Show the lag of this process in each partition that it reads, by topic."""
        self._meter.observable(
            "agenteval.collector.partition.lag",
            "{message}",
            "Messages of a partition of Kafka that are not done with.",
            lambda: [
                (lag, {_TOPIC: topic, "agenteval.partition": str(partition)})
                for topic, read in lags.items()
                for partition, lag in read().items()
            ],
        )

    def observe_memory(self, memory: MemoryGuard) -> None:
        """Show the memory that the process uses, and its limit."""
        self._show("memory", "By", "Resident memory of the process.", lambda: memory.used)
        about = "Memory that the process may take: near it, requests are refused."
        self._show("memory.limit", "By", about, lambda: memory.limit)
        work = memory.work
        self._show("memory.reserved", "By", "Memory that work under way has reserved.", lambda: work.reserved)
        about = "Pieces of work that had to wait for memory."
        self._show("work.waited", "{piece}", about, lambda: work.waited, rises=True)
        about = "Answers that were refused because other work had the memory."
        self._show("work.refused", "{answer}", about, lambda: work.refused, rises=True)

    def observe_workers(self, workers: Workers | None) -> None:
        """Show how many worker processes take work, and how many were replaced; none if there are no workers."""
        about = "Worker processes that read and score traces. 0 where one process does it all."
        self._show("workers", "{process}", about, lambda: workers.ready if workers else 0)
        about = "Worker processes that were replaced: they died, took too long, or took too much memory."
        self._show("workers.replaced", "{process}", about, lambda: workers.replaced if workers else 0, rises=True)

    def observe_disk(self, data_dir: Path) -> None:
        """Show the disk that the files in `data_dir` take, and what is free there."""
        self._show("disk", "By", "Disk that the files of the collector take.", lambda: folder_bytes(data_dir))
        about = "Free disk where the files of the collector are."
        self._show("disk.free", "By", about, lambda: shutil.disk_usage(data_dir).free)

    def observe_series(self, budget: SeriesBudget) -> None:
        """Show the series of counters and histograms, and how many the budget merged or dropped."""
        about = "Series of counters and histograms; server.max_series is the most."
        self._show("series", "{series}", about, lambda: budget.used)
        about = "New series that count under _other, because server.max_series was reached."
        self._show("series.merged", "{series}", about, lambda: budget.merged, rises=True)
        about = "Idle series that made room for new ones."
        self._show("series.dropped", "{series}", about, lambda: budget.dropped, rises=True)

    def observe_duty(self, is_on_duty: Callable[[], bool]) -> None:
        """Show whether this process is on duty: of several, one shows the shared gauges."""
        about = (
            "1 where this process shows the gauges of all processes, pushes events and deletes, else 0: of several "
            "processes one does."
        )
        self._show("on.duty", "", about, lambda: float(is_on_duty()))

    def observe_pushes(self, failures: Callable[[], Mapping[str, int]]) -> None:
        """Show the number of OTLP exports that failed for good, by signal."""
        self._meter.observable(
            "agenteval.collector.push.failures",
            "{request}",
            "Exports to the configured OTLP endpoint that failed for good.",
            lambda: [(failed, {"agenteval.signal": signal}) for signal, failed in failures().items()],
            rises=True,
        )

    def _show(self, name: str, unit: str, description: str, read: Callable[[], float], *, rises: bool = False) -> None:
        self._meter.observable(_PREFIX + name, unit, description, lambda: [(read(), {})], rises=rises)
