"""The sessions and the open spans that belong to one of several processes, by its partitions of the topics."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from agenteval_collector.fleet.cluster import Cluster
from agenteval_collector.fleet.offsets import Offsets
from agenteval_collector.fleet.producer import KafkaProducer, arrived
from agenteval_collector.fleet.trace_bytes import to_bytes
from agenteval_collector.fleet.trace_messages import TraceMessageHandler
from agenteval_collector.live.open_spans import OpenSpans
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.counters import Telemetry
from agenteval_collector.model.running_traces import RunningTrace
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.stores.store import Store

MOVED_WITHIN: Final = 60.0
"""Seconds that a partition may belong to nobody while it moves."""


@dataclass
class PartitionSessions:
    """The `OwnSessions` of the evaluation. Belongs to its thread.

    `awaited` knows which traces this process still has to evaluate, also those whose session belongs to another one.
    """

    cluster: Cluster
    store: Store
    producer: KafkaProducer
    offsets: Offsets
    awaited: TraceMessageHandler
    partitions: frozenset[int] = frozenset()
    is_all: ClassVar = False

    def owns(self, session_id: str) -> bool:
        return self.is_in(session_id, self.partitions)

    def is_in(self, session_id: str, partitions: Collection[int]) -> bool:
        return self.cluster.partition_of(self.cluster.traces, session_id.encode()) in partitions

    def still_own(self, traces: Sequence[AssembledTrace]) -> list[AssembledTrace]:
        return [trace for trace in traces if self.awaited.waits_for(trace)]

    def not_stored(self, traces: Sequence[AssembledTrace]) -> list[AssembledTrace]:
        scored = dict(self.store.known_traces([trace.trace_id for trace in traces])) if traces else {}
        new = []
        for trace in traces:
            revision, offsets = scored.get(trace.trace_id, (0, frozenset()))
            if trace.revision <= revision:
                if offsets.issuperset(trace.offsets):
                    continue
                # Two processes may give different contents of a trace the same number. Both read its requests in one
                # order. So the one with more requests has all that the other has, and becomes the next revision.
                trace = replace(trace, revision=revision + 1)  # noqa: PLW2901
            scored[trace.trace_id] = trace.revision, frozenset(trace.offsets)
            new.append(trace)
        return new

    def hands_on(self, trace: AssembledTrace, session_id: str) -> bool:
        if self.owns(session_id):
            return False
        arrived(self.producer.send(self.cluster.traces, session_id.encode(), to_bytes(trace)))
        return True

    def take_partitions(self, partitions: Collection[int]) -> None:
        self.store.claims.take(partitions)
        self.partitions |= {*partitions}

    def give_up_partitions(self, partitions: Collection[int]) -> None:
        self.store.claims.give_up(partitions)
        self.partitions -= {*partitions}

    def superseded(self) -> None:
        self.offsets.is_stale = True


class PartitionSpans(OpenSpans):
    """Knows all open spans, because every process hears of them. It reports dead agents only in traces that this
    process assembles. Otherwise each process would make a revision."""

    def __init__(self, clock: Clock, telemetry: Telemetry, cluster: Cluster, offsets: Offsets, store: Store) -> None:
        super().__init__(clock, telemetry)
        self._cluster = cluster
        self._offsets = offsets
        self._store = store
        # By trace: when its agent died. Its partition may be moving to this process, which reports the death then.
        self._died: dict[str, float] = {}

    def take_died(self) -> list[str]:
        now = self._clock.monotonic()
        self._died |= dict.fromkeys(super().take_died(), now)
        own = {trace for trace in self._died if self._is_own(trace)}
        self._died = {key: at for key, at in self._died.items() if key not in own and now - at < MOVED_WITHIN}
        # A process may have been heard of since.
        return [partition for partition in own if self.stopped(partition) is not None]

    def running(self) -> list[RunningTrace]:
        """Return the running traces. Raises Unavailable."""
        found = super().running()
        # Another process may have stored it: then it is not running, even if its agent died.
        dead = [trace.trace_id for trace in found if trace.stopped is not None]
        stored = self._store.known_traces(dead) if dead else {}
        return [trace for trace in found if trace.trace_id not in stored]

    def _is_own(self, trace_id: str) -> bool:
        return self._cluster.partition_of(self._cluster.spans, bytes.fromhex(trace_id)) in self._offsets.partitions
