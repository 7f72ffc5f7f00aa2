"""The traces that were deleted, while topics still have them."""

from collections.abc import Iterable, Mapping

from agenteval_collector.model.assembled_trace import AssembledTrace


class DeletedTraces:
    """Knows which traces were deleted, and when (ns since the Unix epoch). Bounded by what is deleted within the time
    that the topics keep messages. Thread-safe."""

    def __init__(self) -> None:
        self._at: dict[str, int] = {}

    def know(self, erased: Mapping[str, int]) -> None:
        """Know these alone: all that the store knows now."""
        self._at = dict(erased)

    def add(self, trace_ids: Iterable[str], at: int) -> None:
        """Know these, too."""
        self._at.update(dict.fromkeys(trace_ids, at))

    def covers(self, trace: AssembledTrace) -> bool:
        """Return whether all that has come of the trace came before it was deleted."""
        return self.has(trace.trace_id, trace.received_at)

    def has(self, trace_id: str, received_at: int) -> bool:
        """Return whether what came of a trace then was deleted since."""
        return self._at.get(trace_id, -1) >= received_at
