"""Remember deleted traces for as long as topics still have them."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from agenteval_collector.model.assembled_trace import AssembledTrace


class DeletedTraces:
    """The traces that were deleted, and when (ns since the Unix epoch). One thread adds to it; any may ask.

    It has the traces that were deleted within the time that the topics keep messages, and forgets them after that.
    """

    def __init__(self, retention: float) -> None:
        """Take the number of seconds for which the topics keep messages."""
        self._retention = round(retention * 1e9)
        # In the order of the times.
        self._at: OrderedDict[str, int] = OrderedDict()

    def know(self, erased: Mapping[str, int]) -> None:
        """Begin with these traces, which are all that the store knows of."""
        self._at = OrderedDict(sorted(erased.items(), key=lambda item: item[1]))

    def add(self, trace_ids: Iterable[str], at: int) -> None:
        """Add traces that were deleted at that time."""
        for trace_id in trace_ids:
            # Not removed in between: another thread may ask at any moment.
            self._at[trace_id] = at
            self._at.move_to_end(trace_id)
        while self._at and next(iter(self._at.values())) < at - self._retention:
            self._at.popitem(last=False)

    def covers(self, trace: AssembledTrace) -> bool:
        """Return whether everything that has come of the trace came before it was deleted."""
        return self.has(trace.trace_id, trace.received_at)

    def has(self, trace_id: str, received_at: int) -> bool:
        """Return whether the trace was deleted at `received_at` (ns) or later."""
        return self._at.get(trace_id, -1) >= received_at
