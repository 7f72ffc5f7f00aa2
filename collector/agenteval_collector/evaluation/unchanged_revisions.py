"""Detection of revisions that say nothing new, so that their outcomes can be kept."""

from dataclasses import fields
from operator import attrgetter
from typing import Final

from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.sessions import StoredPlace
from otel_agenteval.lru import LruMap
from otel_agenteval.model import Trace

CAPACITY = 10_000
"""Traces that are remembered: those that were read last."""

_SAID: Final = attrgetter(*(each.name for each in fields(Trace) if each.name != "span_count"))


class LastReadings:
    """Digests of the last traces as they were read. Not thread-safe."""

    def __init__(self) -> None:
        self._read: LruMap[str, tuple[int, int]] = LruMap(CAPACITY)

    def same(self, assembled: AssembledTrace, trace: Trace, before: StoredPlace | None) -> bool:
        """Return whether `trace`, read from a newer revision, is known to say the same as the stored one `before`.

        False where that one waits for the judge, who has to answer for the newest revision.
        """
        digest = _digest(assembled, trace)
        known = self._read.get(assembled.trace_id)
        self._read.put(assembled.trace_id, (assembled.revision, digest))
        return before is not None and not before.pending and known == (before.revision, digest)

    def forget(self, trace_id: str) -> None:
        """Forget how a trace was read."""
        self._read.pop(trace_id)


def _digest(assembled: AssembledTrace, trace: Trace) -> int:
    """Return a number that is equal for readings that differ at most in the number of their spans."""
    death = None if assembled.death is None else assembled.death.reason
    return hash((repr(_SAID(trace)), death))
