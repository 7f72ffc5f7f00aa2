"""Erase traces from the store, and have all processes forget them."""

from collections.abc import Mapping, Sequence

from agenteval_collector.log.kafka.news import NewsTopic
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.deletion import Doomed
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.stores import Store
from agenteval_collector.wiring.erasing import next_doomed, next_older


class FleetErasure:
    """The `Pipeline` of the retention where several processes work. What Kafka has goes with the topics' retention;
    until then the store knows what was deleted, so that nothing of it is stored again."""

    def __init__(self, store: Store, news: NewsTopic, retention: float, clock: Clock, telemetry: Telemetry) -> None:
        """`retention` is how many seconds the topics keep messages."""
        self._deletions = store.deletions
        self._news = news
        self._retention = round(retention * 1e9)
        self._clock = clock
        self._telemetry = telemetry

    def erase(self, deletion_id: str, doomed: Doomed, session_ids: Sequence[str]) -> bool:
        return self._erase(*next_doomed(self._deletions, doomed, session_ids), deletion_id)

    def erase_older(self, before: int) -> bool:
        return self._erase(*next_older(self._deletions, before))

    def erase_from_log(self, start: int) -> tuple[int | None, Mapping[str, int]]:
        """Erase nothing: Kafka forgets by itself."""
        return None, {}

    def erased(self) -> None:
        """Forget what was deleted so long ago that no topic has it any more."""
        self._deletions.forget_doomed(self._clock.now() - self._retention)

    def trim_log(self, received_before: int) -> bool:
        """Trim nothing, for the same reason."""
        return False

    def _erase(self, trace_ids: Sequence[str], session_ids: Sequence[str], more: bool, deletion_id: str = "") -> bool:
        if trace_ids or session_ids:
            self._deletions.erase(trace_ids, session_ids, deletion_id, self._clock.now())
            self._news.forget(trace_ids, session_ids)
            self._telemetry.count(Counted.FORGOTTEN, len(trace_ids), "deletion" if deletion_id else "outcomes")
        return more
