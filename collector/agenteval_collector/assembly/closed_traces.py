"""Keep complete traces: those that are being scored, and the last ones that were."""

from collections import OrderedDict
from collections.abc import Iterable

from agenteval_collector.assembly.open_trace import OpenTrace


class ClosedTraces:
    """Holds every trace that is being scored, and the last scored ones, in at most `max_bytes`.

    A late span for one of them costs no reading of the log. For one thread, but for `scoring` and `get`.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._scoring: dict[bytes, OpenTrace] = {}
        self._recent: OrderedDict[bytes, OpenTrace] = OrderedDict()
        self._recent_bytes = 0
        self._scoring_bytes = 0

    @property
    def scoring_bytes(self) -> int:
        """Bytes of memory that the traces take that are being scored. From any thread."""
        return self._scoring_bytes

    def __contains__(self, trace_id: bytes) -> bool:
        return trace_id in self._scoring or trace_id in self._recent

    def keep_until_scored(self, trace: OpenTrace) -> None:
        """Keep the trace while its newest revision is scored."""
        self._scoring[trace.trace_id] = trace
        self._scoring_bytes += trace.size

    def keep_scored(self, trace: OpenTrace) -> None:
        """Keep the trace in memory for a while, now that its newest revision is scored."""
        if self._scoring.pop(trace.trace_id, None) is not None:
            self._scoring_bytes -= trace.size
        self._recent[trace.trace_id] = trace
        self._recent_bytes += trace.size

    def trim(self, most: int | None = None) -> None:
        """Forget the scored traces that were kept longest, until the rest fits into `most` bytes, or the usual
        bound."""
        while self._recent_bytes > (self._max_bytes if most is None else most):
            _, oldest = self._recent.popitem(last=False)
            self._recent_bytes -= oldest.size

    def get(self, trace_id: bytes) -> OpenTrace | None:
        """Return the trace, and keep it here."""
        return self._scoring.get(trace_id) or self._recent.get(trace_id)

    def take(self, trace_id: bytes) -> OpenTrace | None:
        """Remove and return the trace, as it goes on."""
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
