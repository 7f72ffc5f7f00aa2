"""Traces that are complete: those that are being scored, and the last of those that were."""

from collections import OrderedDict
from collections.abc import Iterable

from agenteval_collector.assembly.open_trace import OpenTrace


class ClosedTraces:
    """Holds every trace that is being scored, and of the scored ones at most `max_bytes`, the last ones.

    What comes late for one of them costs no reading of the log. Of one thread, but for `scoring` and `get`.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._scoring: dict[bytes, OpenTrace] = {}
        self._recent: OrderedDict[bytes, OpenTrace] = OrderedDict()
        self._recent_bytes = 0
        self._scoring_bytes = 0

    @property
    def scoring_bytes(self) -> int:
        """Bytes of memory that traces take which are being scored. From any thread."""
        return self._scoring_bytes

    def __contains__(self, trace_id: bytes) -> bool:
        return trace_id in self._scoring or trace_id in self._recent

    def close(self, trace: OpenTrace) -> None:
        """Hold the trace: its newest revision is to be scored."""
        self._scoring[trace.trace_id] = trace
        self._scoring_bytes += trace.size

    def keep(self, trace: OpenTrace) -> None:
        """Keep the trace in memory for a while, now that its newest revision is scored."""
        if self._scoring.pop(trace.trace_id, None) is not None:
            self._scoring_bytes -= trace.size
        self._recent[trace.trace_id] = trace
        self._recent_bytes += trace.size

    def trim(self, most: int | None = None) -> None:
        """Forget the traces that were kept for longest, until the rest fits, or takes `most` bytes."""
        while self._recent_bytes > (self._max_bytes if most is None else most):
            _, oldest = self._recent.popitem(last=False)
            self._recent_bytes -= oldest.size

    def get(self, trace_id: bytes) -> OpenTrace | None:
        """Return the trace, and keep it here."""
        return self._scoring.get(trace_id) or self._recent.get(trace_id)

    def take(self, trace_id: bytes) -> OpenTrace | None:
        """Remove and return the trace, because it goes on."""
        if (trace := self._scoring.pop(trace_id, None)) is not None:
            self._scoring_bytes -= trace.size
        elif (trace := self._recent.pop(trace_id, None)) is not None:
            self._recent_bytes -= trace.size
        return trace

    def being_scored(self, trace_id: bytes) -> OpenTrace | None:
        """Return the trace if its newest revision is not scored yet. Safe from any thread."""
        return self._scoring.get(trace_id)

    def scoring(self) -> Iterable[OpenTrace]:
        """Return the traces whose newest revision is not scored yet. Safe from any thread."""
        return list(self._scoring.values())
