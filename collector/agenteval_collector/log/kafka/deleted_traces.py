"""Remember deleted traces for as long as topics still have them."""

from collections.abc import Iterable, Mapping

from agenteval_collector.model.assembled_trace import AssembledTrace


class DeletedTraces:
    """The traces that were deleted, and when (ns since the Unix epoch). Thread-safe.

    Bounded by the number of traces that are deleted within the time that the topics keep messages.
    """

    def __init__(self) -> None:
        self._at: dict[str, int] = {}

    def know(self, erased: Mapping[str, int]) -> None:
        """Begin with these traces, which are all that the store knows of."""
        self._at = dict(erased)

    def add(self, trace_ids: Iterable[str], at: int) -> None:
        """Add traces that were deleted at that time."""
        self._at.update(dict.fromkeys(trace_ids, at))

    def covers(self, trace: AssembledTrace) -> bool:
        """Return whether everything that has come of the trace came before it was deleted."""
        return self.has(trace.trace_id, trace.received_at)

    def has(self, trace_id: str, received_at: int) -> bool:
        """Return whether the trace was deleted at `received_at` (ns) or later."""
        return self._at.get(trace_id, -1) >= received_at
