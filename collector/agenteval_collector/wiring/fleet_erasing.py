"""Erase traces from the store, and have all processes forget them."""

from collections.abc import Mapping, Sequence
from typing import Final

from agenteval_collector.log.kafka.news import NewsTopic
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.deletion import Doomed
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.stores import Store

BATCH: Final = 64
"""Traces that are erased in one commit."""


class FleetErasure:
    """The `Pipeline` of the retention where several processes work. What Kafka has goes with the topics' retention;
    until then the store knows what was deleted, so that nothing of it is stored again."""

    def __init__(self, store: Store, news: NewsTopic, retention: float, clock: Clock, telemetry: Telemetry) -> None:
        """`retention` is how many seconds the topics keep messages."""
        self._store = store
        self._deletions = store.deletions
        self._news = news
        self._retention = round(retention * 1e9)
        self._clock = clock
        self._telemetry = telemetry

    def erase(self, deletion_id: str, doomed: Doomed, session_ids: Sequence[str]) -> bool:
        found = self._deletions.traces_of(doomed, session_ids, BATCH)
        if doomed.before is None:
            empty: Sequence[str] = () if len(found) == BATCH else session_ids
        else:
            empty = [] if found else self._deletions.empty_sessions(doomed.before, BATCH)
        self._erase(found, empty, deletion_id)
        return len(found) == BATCH or (doomed.before is not None and bool(found or len(empty) == BATCH))

    def erase_older(self, before: int) -> bool:
        found = self._deletions.oldest_traces(before, BATCH)
        empty = [] if found else self._deletions.empty_sessions(before, BATCH)
        if found or empty:
            self._erase(found, empty, "")
        return bool(found) or len(empty) == BATCH

    def erase_from_log(self, start: int) -> tuple[int | None, Mapping[str, int]]:
        """Erase nothing: Kafka forgets by itself."""
        return None, {}

    def erased(self) -> None:
        """Forget what was deleted so long ago that no topic has it any more."""
        self._deletions.forget_doomed(self._clock.now() - self._retention)

    def trim_log(self, received_before: int) -> bool:
        """Trim nothing, for the same reason."""
        return False

    def _erase(self, trace_ids: Sequence[str], session_ids: Sequence[str], deletion_id: str) -> None:
        self._deletions.erase(trace_ids, session_ids, deletion_id, self._clock.now())
        self._news.forget(trace_ids, session_ids)
        self._telemetry.count(Counted.FORGOTTEN, len(trace_ids), "deletion" if deletion_id else "outcomes")
