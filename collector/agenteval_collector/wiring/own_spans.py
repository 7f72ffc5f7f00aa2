"""Open spans, as one of several processes that assemble has to do with them."""

from collections.abc import Iterable, Sequence

from agenteval_collector.findings.loops import OpenSpans
from agenteval_collector.log.kafka.cluster import Cluster
from agenteval_collector.log.kafka.offsets import Offsets
from agenteval_collector.model.assembled import Death
from agenteval_collector.model.running import OpenSpan, RunningTrace
from agenteval_collector.model.telemetry import Arrival
from agenteval_collector.stores import Store
from otel_agenteval.model import Trace


class ReportedElsewhere:
    """The `ReportedTraces` of a process that may not be the one that assembles them: what died in the middle does not
    run any more once it is stored."""

    def __init__(self, open_spans: OpenSpans, store: Store) -> None:
        self._open_spans = open_spans
        self._store = store

    def running(self) -> Sequence[RunningTrace]:
        """Return the running traces. Raises Unavailable."""
        found = self._open_spans.running()
        dead = [each.trace_id for each in found if each.stopped is not None]
        stored = self._store.known_traces(dead) if dead else {}
        return [each for each in found if each.trace_id not in stored]

    def begun(self, trace_id: str) -> Trace | None:
        return self._open_spans.begun(trace_id)

    def of_trace(self, trace_id: str) -> Sequence[OpenSpan]:
        return self._open_spans.of_trace(trace_id)

    def stopped(self, trace_id: str) -> str | None:
        return self._open_spans.stopped(trace_id)


class OwnReportedSpans:
    """The `ReportedSpans` of the assembly. All processes hear of all open spans; whose agents have died, the one says
    that assembles their traces."""

    def __init__(self, open_spans: OpenSpans, cluster: Cluster, offsets: Offsets) -> None:
        self._open_spans = open_spans
        self._cluster = cluster
        self._offsets = offsets

    def take_ended(self, arrivals: Iterable[Arrival]) -> None:
        self._open_spans.take_ended(arrivals)

    def goes_on(self, trace_id: str) -> bool:
        return self._open_spans.goes_on(trace_id)

    def death(self, trace_id: str) -> Death | None:
        return self._open_spans.death(trace_id)

    def died(self) -> Sequence[str]:
        return [each for each in self._open_spans.died() if self._is_own(each)]

    def closed(self, trace_id: str) -> None:
        self._open_spans.closed(trace_id)

    def _is_own(self, trace_id: str) -> bool:
        return self._cluster.partition_of(self._cluster.spans, bytes.fromhex(trace_id)) in self._offsets.partitions
