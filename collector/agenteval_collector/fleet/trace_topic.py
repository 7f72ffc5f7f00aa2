"""Send complete traces to the processes that evaluate them, until they are scored."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from agenteval_collector.fleet.cluster import Cluster
from agenteval_collector.fleet.deleted_traces import DeletedTraces
from agenteval_collector.fleet.producer import KafkaProducer
from agenteval_collector.fleet.trace_bytes import to_bytes
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.runtime.component import Poller
from agenteval_collector.runtime.errors import RetryableError
from agenteval_collector.stores.store import Store

CAPACITY: Final = 64 * 1024 * 1024
"""Bytes of unscored traces at most. Beyond that the assembly waits, and new spans stay in their topic."""
SCORED_LOOKED_UP_EVERY: Final = 0.25
"""Seconds between two looks for traces that are scored."""
LOOKED_UP: Final = 500
"""Traces that are looked up together, the oldest ones."""


@dataclass(slots=True)
class _UnderWay:
    trace: AssembledTrace
    size: int
    sent: Future[int]


class TraceTopic(Poller):
    """Sends complete traces, with the session that they name as the key, and tells when they are scored.

    A trace is scored when the store has it. So the offsets of spans go past a trace only after its scores are stored. A
    trace that the brokers do not take is sent again.
    """

    def __init__(
        self,
        producer: KafkaProducer,
        cluster: Cluster,
        store: Store,
        erased: DeletedTraces,
        session_of: Callable[[AssembledTrace], str],
        take_scored: Callable[[str, int], None],
    ) -> None:
        """`session_of` returns the session that a trace names, or the trace's id if it names none. `take_scored` is
        told of the traces and revisions that the store has. Traces that were `erased` count as scored."""
        super().__init__("hand-over", SCORED_LOOKED_UP_EVERY)
        self._producer = producer
        self._cluster = cluster
        self._store = store
        self._erased = erased
        self._session_of = session_of
        self._take_scored = take_scored
        self._under_way: dict[str, _UnderWay] = {}
        self._held = 0
        # Guards both: the assembly's thread adds, the one here takes away.
        self._changed = threading.Condition()

    @property
    def held(self) -> int:
        """Bytes of memory of traces that are not scored yet. From any thread."""
        return self._held

    @property
    def waiting(self) -> int:
        """The number of traces that are not scored yet; an instant's value."""
        return len(self._under_way)

    def take_trace(self, trace: AssembledTrace, timeout: float) -> bool:
        """Send a complete trace. Return False if there was no room for it within `timeout` seconds."""
        size = trace.size
        with self._changed:
            if not self._changed.wait_for(lambda: not self._held or self._held + size <= CAPACITY, timeout):
                return False
            before = self._under_way.pop(trace.trace_id, None)
            self._held += size - (before.size if before is not None else 0)
            self._under_way[trace.trace_id] = _UnderWay(trace, size, self._send(trace))
        return True

    def run(self) -> None:
        super().run()
        self.step()  # Once more: others need not do again what was scored until now.

    def step(self) -> None:
        self.survive(self._send_again)
        self.insist(self._look)

    def _look(self) -> None:
        with self._changed:
            oldest = [self._under_way[trace_id].trace for trace_id in list(self._under_way)[:LOOKED_UP]]
        scored = self._store.known_traces([trace.trace_id for trace in oldest]) if oldest else {}
        for trace in oldest:
            revision, offsets = scored.get(trace.trace_id, (0, frozenset()))
            # Another process may have stored this revision with fewer of the trace's spans.
            is_stored = revision >= trace.revision and offsets.issuperset(trace.offsets)
            if is_stored or self._erased.covers(trace):
                self._done(trace.trace_id, trace.revision)

    def _done(self, trace_id: str, revision: int) -> None:
        with self._changed:
            of_trace = self._under_way.get(trace_id)
            if of_trace is not None and of_trace.trace.revision == revision:
                del self._under_way[trace_id]
                self._held -= of_trace.size
                self._changed.notify_all()
        self._take_scored(trace_id, revision)

    def _send_again(self) -> None:
        with self._changed:
            for of_trace in self._under_way.values():
                if of_trace.sent.done() and of_trace.sent.exception() is not None:
                    of_trace.sent = self._send(of_trace.trace)

    def _send(self, trace: AssembledTrace) -> Future[int]:
        key = self._session_of(trace).encode()
        try:
            return self._producer.send(self._cluster.traces, key, to_bytes(trace))
        except RetryableError as error:
            refused: Future[int] = Future()
            refused.set_exception(error)
            return refused
