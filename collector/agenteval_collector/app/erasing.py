"""Erase traces from every stage and file, while the pipeline stands still for a moment.

The assembly waits, so that nothing new sets out. Then live detection, and after it the evaluation, finish what had set
out before. So nothing erased comes back from a queue.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agenteval_collector.app.stages import AssemblyParts, EvaluationParts
from agenteval_collector.app.storage import Storage
from agenteval_collector.emit.feed import Feed
from agenteval_collector.ingest.request_file import RequestFile
from agenteval_collector.ingest.request_traces import erase_page
from agenteval_collector.live.stage import LoopStage
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.deletions import DeletionFilter
from agenteval_collector.runtime.errand import Errand
from agenteval_collector.stores.deletions import DeletionStore
from otel_agenteval.internal.text import storable

BATCH: Final = 64
"""Traces that are erased in one commit."""
STAGE_DONE_WITHIN: Final = 30.0
"""Seconds for a stage to finish what waits for it; the erasure is tried again after that."""
MOST_UNNAMED: Final = 500
"""Newest open traces that are read even if they name neither the session nor the user. Their messages may continue the
session."""


def next_to_delete(
    deletions: DeletionStore, wanted: DeletionFilter, session_ids: Sequence[str]
) -> tuple[list[str], Sequence[str], bool]:
    """Return the stored traces and the sessions that a deletion erases next, and whether there may be more."""
    trace_ids = deletions.traces_of(wanted, session_ids, BATCH)
    if len(trace_ids) == BATCH:
        return trace_ids, (), True
    if wanted.before is None:
        return trace_ids, session_ids, False
    empty = deletions.empty_sessions(wanted.before, BATCH)
    return trace_ids, empty, bool(trace_ids) or len(empty) == BATCH


def next_older(deletions: DeletionStore, before: int) -> tuple[list[str], Sequence[str], bool]:
    """Return the traces and sessions that are erased next for their age, and whether there may be more. Sessions go
    last: those whose traces have gone before go with them."""
    trace_ids = deletions.oldest_traces(before, BATCH)
    empty = [] if trace_ids else deletions.empty_sessions(before, BATCH)
    return trace_ids, empty, bool(trace_ids) or len(empty) == BATCH


@dataclass(frozen=True, slots=True)
class PipelineErasure:
    """The `Erasure` of the retention."""

    storage: Storage[RequestFile]
    assembly: AssemblyParts
    loops: LoopStage
    evaluation: EvaluationParts
    feed: Feed
    telemetry: Telemetry

    def erase(self, deletion_id: str, wanted: DeletionFilter, session_ids: Sequence[str]) -> bool:
        def erase() -> tuple[Sequence[str], bool]:
            trace_ids, sessions, more = next_to_delete(self._deletions, wanted, session_ids)
            if len(trace_ids) < BATCH:
                trace_ids += self._open(wanted, {*session_ids})
            return self._erase(trace_ids, sessions, more, deletion_id)

        return self._standing_still(erase)

    def erase_older(self, before: int) -> bool:
        trace_ids, empty, more = next_older(self._deletions, before)
        if not trace_ids and not empty:
            return False
        return self._standing_still(lambda: self._erase(trace_ids, empty, more))

    def erase_from_log(self, start: int) -> tuple[int | None, Mapping[str, int]]:
        last = self._deletions.last_erasure()
        if last is None:
            return None, {}
        return erase_page(self.storage.requests, start, last, self._deletions.to_erase)

    def mark_erased(self) -> None:
        self._deletions.mark_erased()

    def trim_log(self, received_before: int) -> bool:
        return self.storage.requests.trim(self.storage.store.checkpoint(), received_before, BATCH) > 0

    @property
    def _deletions(self) -> DeletionStore:
        return self.storage.store.deletions

    def _standing_still(self, erase: Callable[[], tuple[Sequence[str], bool]]) -> bool:
        """Erase on the evaluation's thread, while the assembly waits for it."""

        def on_assembly() -> bool:
            self.loops.forget(()).wait(STAGE_DONE_WITHIN)
            errand = Errand(erase)
            self.evaluation.inbox.run_errand(errand)
            trace_ids, more = errand.wait(STAGE_DONE_WITHIN)
            self.assembly.assembler.forget(trace_ids)
            self.loops.forget(trace_ids).wait(STAGE_DONE_WITHIN)
            return more

        waiting = Errand(on_assembly)
        self.assembly.stage.run_errand(waiting)
        return waiting.wait(STAGE_DONE_WITHIN)

    def _erase(
        self, trace_ids: Sequence[str], session_ids: Sequence[str], more: bool, deletion_id: str = ""
    ) -> tuple[Sequence[str], bool]:
        last = self.assembly.assembler.last_offset
        self._deletions.erase(trace_ids, session_ids, deletion_id, last)
        self.storage.store.note_write()
        self.evaluation.core.forget(trace_ids, session_ids)
        self.evaluation.judge.forget({*trace_ids, *session_ids})
        self.feed.forget(trace_ids)
        self.telemetry.count(Counted.FORGOTTEN, len(trace_ids), "deletion" if deletion_id else "outcomes")
        return trace_ids, more

    def _open(self, wanted: DeletionFilter, session_ids: Collection[str]) -> list[str]:
        """Return the open traces that a deletion covers."""
        traces = self.assembly.assembler.newest(self.assembly.assembler.open_traces)
        if wanted.before is not None:
            return [trace.trace_id for trace in traces if trace.received_at < wanted.before]
        names = [name.encode() for name in (*session_ids, wanted.user_id) if name is not None]
        unnamed = {trace.trace_id for trace in traces[-MOST_UNNAMED:]}
        candidates = (trace for trace in traces if trace.trace_id in unnamed or _holds(trace, names))
        return [candidate.trace_id for candidate in candidates if self._is_of(candidate, wanted, session_ids)]

    def _is_of(self, assembled: AssembledTrace, wanted: DeletionFilter, session_ids: Collection[str]) -> bool:
        trace = self.evaluation.core.reader.read(assembled)
        if wanted.user_id is not None and trace.user_id == storable(wanted.user_id):
            return True
        session_id = self.evaluation.core.session_of(trace, assembled.revision)
        return session_id in session_ids or assembled.trace_id in session_ids


def _holds(assembled: AssembledTrace, names: Sequence[bytes]) -> bool:
    texts = [text for raw, origin in (*assembled.spans, *assembled.logs) for text in (raw, origin.resource)]
    return any(name in text for name in names for text in texts)
