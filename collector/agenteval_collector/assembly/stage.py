"""The assembler on a thread of its own, between the log and the evaluation."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import ParamSpec

from agenteval_collector.assembly.assembler import Assembler
from agenteval_collector.assembly.ports import AssemblyStore, Log, ReportedSpans, TraceTaker
from agenteval_collector.assembly.progress import Progress
from agenteval_collector.model.assembled import AssembledTrace
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.telemetry import LoggedRequest
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.component import Component
from agenteval_collector.runtime.errors import Overloaded, RetryableError
from agenteval_collector.runtime.inbox import Inbox

P = ParamSpec("P")

BATCH = 64
"""Requests assembled in one go; they share one look-up in the store."""
HOUSEKEEPING = 1.0
"""Seconds between two checkpoints, and the longest the stage sleeps."""
TENANT = "default"
"""The tenant of traces that processes report."""
HAND_OVER = 1.0
"""Seconds to wait at a time for room in the evaluation, so that a stop is noticed."""


class AssemblyStage(Component):
    """Owns the assembler: takes requests from the log, and hands complete traces to the evaluation.

    `progress` says what of it is scored; the store keeps how far that goes, and what was learned of senders.
    """

    def __init__(
        self,
        assembler: Assembler,
        *,
        log: Log,
        evaluation: TraceTaker,
        progress: Progress,
        store: AssemblyStore,
        open_spans: ReportedSpans,
        clock: Clock,
        telemetry: Telemetry,
        max_pending_bytes: int,
        retention: float,
    ) -> None:
        self._inbox: Inbox[LoggedRequest] = Inbox(max_pending_bytes)
        super().__init__("assembly", self._inbox)
        self._assembler = assembler
        self._log = log
        self._evaluation = evaluation
        self._progress = progress
        self._store = store
        self._open_spans = open_spans
        self._clock = clock
        self._telemetry = telemetry
        self._retention = retention
        self._checkpoint = 0
        self._replay_to = 0
        self._next_housekeeping = 0.0
        self._handing_over = False

    def start(self) -> None:
        """Assemble again what the log holds from the checkpoint on, then what it hands over; before the log starts."""
        self._checkpoint = self._store.checkpoint()
        # Everything behind this offset is handed over by the log.
        self._replay_to = self._log.last_offset()
        super().start()

    def take_request(self, request: LoggedRequest) -> None:
        """Take a committed request, over the bound, too: it was admitted."""
        self._inbox.put_regardless(request, len(request.body))

    def admit(self) -> None:
        """Raises Overloaded while more waits for assembly than the bound allows."""
        if self._inbox.full:
            behind = "evaluating" if self._handing_over else "assembling"
            raise Overloaded(f"the collector is behind with {behind} traces; send again later")

    def run(self) -> None:
        """Open traces stay in the log when it stops."""
        self._replay()
        self._assemble_deliveries()

    def _replay(self) -> None:
        start = self._checkpoint
        while not self._inbox.closed:
            page = self.insist(self._page, start)
            batch = [request for request in page if request.offset <= self._replay_to]
            if not batch:
                return
            self._telemetry.count(Counted.REPLAYED, len(batch))
            self.survive(self._hand_over, self._assemble, batch)
            self.survive(self._hand_over, self._assembler.quiet)
            self.survive(self._housekeeping)
            start = batch[-1].offset + 1

    def _page(self, start: int) -> list[LoggedRequest]:
        return list(islice(self._log.read(start), BATCH))

    def _assemble_deliveries(self) -> None:
        while True:
            requests = self._inbox.take(BATCH, self._patience())
            self._note_scored()
            self.survive(self._hand_over, self._assemble, requests)
            self.survive(self._hand_over, self._assembler.due)
            self.survive(self._housekeeping)
            if self._inbox.closed and not requests:
                self._save_learned()
                return

    def _assemble(self, requests: Sequence[LoggedRequest]) -> list[AssembledTrace]:
        """Tried again until the store answers: spans that were taken by a failed attempt are recognised."""
        if not requests:
            return []
        try:
            return self.insist(self._assembler.take, requests)
        except RetryableError:
            raise
        except Exception:  # A request that cannot be assembled is a defect of ours; the others must not wait for it.
            if len(requests) > 1:
                return [trace for request in requests for trace in self._assemble([request])]
            self._logger.exception("request %d of the log cannot be assembled and is passed over", requests[0].offset)
            return []

    def _patience(self) -> float:
        due = self._assembler.next_due()
        if due is None:
            return HOUSEKEEPING
        return min(max(due - self._clock.monotonic(), 0.0), HOUSEKEEPING)

    def _hand_over(self, assemble: Callable[P, Sequence[AssembledTrace]], *args: P.args, **kwargs: P.kwargs) -> None:
        """Hand over the traces that are complete by what `assemble` does."""
        traces = assemble(*args, **kwargs)
        self._handing_over = True
        try:
            for trace in traces:
                while not self._evaluation.take_trace(trace, HAND_OVER):
                    if self._inbox.closed:
                        return  # It is in the log and not below the checkpoint: the next start scores it.
        finally:
            self._handing_over = False

    def _housekeeping(self) -> None:
        self._note_scored()
        now = self._clock.monotonic()
        if now < self._next_housekeeping:
            return
        self._next_housekeeping = now + HOUSEKEEPING
        if died := self._open_spans.died():
            self._hand_over(self.insist, self._assembler.died, died, TENANT)
        try:
            self._save_progress()
        except RetryableError as error:
            self._logger.error("progress is not saved, next attempt in %g s: %s", HOUSEKEEPING, error)

    def _note_scored(self) -> None:
        for trace_id, revision in self._progress.news():
            self._assembler.scored(trace_id, revision)

    def _save_progress(self) -> None:
        checkpoint = self._assembler.checkpoint()
        if checkpoint > self._checkpoint:
            self._store.save_checkpoint(checkpoint)
            self._checkpoint = checkpoint
        self._save_learned()
        self._log.trim(self._checkpoint, older_than=self._clock.now() - round(self._retention * 1e9))

    def _save_learned(self) -> None:
        if learned := self._assembler.senders.unsaved():
            self._store.habits.save(learned)
            self._assembler.senders.saved(learned)
