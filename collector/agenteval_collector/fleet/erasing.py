"""Erase traces from the store, and have all processes forget them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agenteval_collector.app.pipeline import next_older, next_to_delete
from agenteval_collector.fleet.news_topic import NewsTopic
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.stores.deletions import DeletionStore
from agenteval_collector.stores.retention_ports import DoomedTraces


@dataclass(frozen=True, slots=True)
class FleetErasure:
    """The `Erasure` of the retention if several processes work. Kafka forgets deleted spans by itself, after
    `retention` seconds. Until then no process stores them again: those that run are told, and those that start find
    them in the store. What is erased for its age alone is only told."""

    deletions: DeletionStore
    news: NewsTopic
    retention: float
    clock: Clock
    telemetry: Telemetry

    def erase(self, deletions: Sequence[DoomedTraces]) -> list[str]:
        more: list[str] = []
        for deletion_id, wanted, session_ids in deletions:
            if self._erase(*next_to_delete(self.deletions, wanted, session_ids), deletion_id):
                more.append(deletion_id)
        return more

    def erase_older(self, before: int) -> bool:
        return self._erase(*next_older(self.deletions, before))

    def erase_from_log(self, deletion_id: str, start: int) -> tuple[int | None, Mapping[str, int]]:
        """Erase nothing: Kafka forgets by itself."""
        return None, {}

    def mark_erased(self, deletion_id: str) -> None:
        """Forget what was deleted so long ago that no topic has it any more."""
        self.deletions.forget_erasures(self.clock.now() - round(self.retention * 1e9))

    def trim_log(self, received_before: int) -> bool:
        """Trim nothing, for the same reason."""
        return False

    def _erase(self, trace_ids: Sequence[str], session_ids: Sequence[str], more: bool, deletion_id: str = "") -> bool:
        if trace_ids or session_ids:
            now = self.clock.now()
            if deletion_id:
                self.deletions.note_erasures(deletion_id, trace_ids, now)
            # Told before it is erased: whoever tries again after an error finds it again, and tells it again.
            self.news.forget(trace_ids, session_ids, deletion_id)
            self.deletions.erase(trace_ids, session_ids, deletion_id, now)
            self.telemetry.count(Counted.FORGOTTEN, len(trace_ids), "deletion" if deletion_id else "outcomes")
        return more
