"""Detection of revisions that say nothing new. The outcomes of the revision before can be kept."""

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Final

from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.sessions import StoredPlace
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import Trace

CAPACITY = 10_000
"""Traces whose readings are remembered: those that were read last."""

# A span that adds nothing to the turns raises the number of spans alone.
_SAID: Final = attrgetter(*(each.name for each in fields(Trace) if each.name != "span_count"))


class LastReadings:
    """Remembers digests of the traces that were read last: the last two readings of each. Not thread-safe."""

    def __init__(self) -> None:
        self._read: LruMap[str, Sequence[tuple[int, int]]] = LruMap(CAPACITY)

    def same(self, assembled: AssembledTrace, trace: Trace, before: StoredPlace | None) -> bool:
        """Return whether `trace`, read from a newer revision, is known to say the same as the stored revision `before`.

        Return False if `before` waits for the judge, because the judge has to answer for the newest revision. The
        reading is remembered in any case.
        """
        digest = _digest(assembled, trace)
        # The same revision comes again if it could not be stored at first.
        earlier = [each for each in self._read.get(assembled.trace_id) or () if each[0] != assembled.revision]
        self._read.put(assembled.trace_id, (*earlier[-1:], (assembled.revision, digest)))
        return before is not None and not before.pending and (before.revision, digest) in earlier

    def forget(self, trace_id: str) -> None:
        """Forget the reading of a trace."""
        self._read.pop(trace_id)


def _digest(assembled: AssembledTrace, trace: Trace) -> int:
    """Return a digest of a reading. Readings that differ only in the number of their spans have the same digest."""
    death = None if assembled.death is None else assembled.death.reason
    return hash((repr(_SAID(trace)), death))
