"""The way back from the evaluation to the assembly."""

from collections import deque
from collections.abc import Iterator

from agenteval_collector.assembly.ports import ReportedSpans


class Progress:
    """The revisions that are stored: written by the evaluation's thread, read by the assembly's.

    Beside the assembly's inbox, because a replay of the log does not read that one; bounded by the traces that are
    being scored.
    """

    def __init__(self, open_spans: ReportedSpans) -> None:
        self._open_spans = open_spans
        self._scored: deque[tuple[str, int]] = deque()

    def take_scored(self, trace_id: str, revision: int) -> None:
        """Take note that this revision is stored."""
        self._scored.append((trace_id, revision))
        self._open_spans.closed(trace_id)

    def news(self) -> Iterator[tuple[str, int]]:
        """Trace and revision of what was stored since this was asked last."""
        while self._scored:
            yield self._scored.popleft()
