"""Whether a newer revision of a trace says anything that the one before did not."""

from dataclasses import replace

from agenteval_collector.model.assembled import AssembledTrace
from agenteval_collector.model.sessions import Standing
from agenteval_collector.runtime.lru import Recent
from otel_agenteval.model import Trace

CAPACITY = 10_000
"""Traces that are remembered, the ones that were read last."""


class Readings:
    """Remembers of the last traces what was read, as a digest. Not thread-safe."""

    def __init__(self) -> None:
        self._read: Recent[tuple[int, int]] = Recent(CAPACITY)

    def same(self, assembled: AssembledTrace, trace: Trace, before: Standing | None) -> bool:
        """Whether `trace`, read from a newer revision, says what the stored one `before` says.

        Not where that waits for the judge, who is to answer for the newest revision, nor where nothing is remembered.
        """
        digest = _digest(assembled, trace)
        known = self._read.get(assembled.trace_id)
        self._read.put(assembled.trace_id, (assembled.revision, digest))
        return before is not None and not before.pending and known == (before.revision, digest)


def _digest(assembled: AssembledTrace, trace: Trace) -> int:
    """Equal for readings that differ in nothing that is scored: in how many spans they have at most."""
    death = None if assembled.death is None else assembled.death.reason
    return hash((repr(replace(trace, span_count=0)), death))
