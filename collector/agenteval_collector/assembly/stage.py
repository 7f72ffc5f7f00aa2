"""Run the assembler on a thread of its own, between the log and the evaluation."""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any

from agenteval_collector.assembly.assembler import Assembler
from agenteval_collector.assembly.pace import Pace
from agenteval_collector.assembly.ports import AssemblyStore, ReportedSpans, TraceTaker
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.logged_requests import LoggedRequest, Requests, split_offset
from agenteval_collector.model.quarantine import InputKind
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.component import Component
from agenteval_collector.runtime.errand import Errand, without_errands
from agenteval_collector.runtime.errors import Overloaded, RetryableError
from agenteval_collector.runtime.inbox import Inbox
from agenteval_collector.runtime.memory import MemoryGuard
from agenteval_collector.runtime.work import ASSEMBLING
from agenteval_collector.stores.quarantine import Quarantine

BATCH = 64
"""Requests that are assembled in one go, and share one look-up in the store."""
TOGETHER = 4 * 1024 * 1024
"""Bytes of requests that are assembled in one go, about: their spans are all decoded at the same time."""
HOUSEKEEPING = 1.0
"""Seconds between two checkpoints; also the longest sleep of the stage."""
TRIMMED = 4 * BATCH
"""Requests that the log forgets at a time. They are few, so that a commit never waits long for the file, and more than
the stage takes in meanwhile."""
LONGEST_WAIT = 30.0
"""The most seconds that a sender is told to wait for a backlog to become shorter."""
MOST_KEPT = 10_000
"""Requests that the log keeps longer because something in them is set aside."""
HAND_OVER = 1.0
"""Seconds to wait at a time for room in the evaluation, so that a stop is noticed."""


def _key(request: LoggedRequest) -> str:
    """Return the key of a request in quarantine."""
    return str(request.offset)


class Progress:
    """Tells the assembly which revisions are stored. The evaluation's thread writes here, the assembly's reads.

    It is apart from the assembly's inbox, as a replay of the log does not read that one. It is bounded by the number of
    traces that are being scored.
    """

    def __init__(self, open_spans: ReportedSpans) -> None:
        self._open_spans = open_spans
        self._scored: deque[tuple[str, int]] = deque()

    def take_scored(self, trace_id: str, revision: int) -> None:
        """Note that this revision is stored."""
        self._scored.append((trace_id, revision))
        self._open_spans.take_scored(trace_id)

    def newly_scored(self) -> Iterator[tuple[str, int]]:
        """Yield trace id and revision of everything that was stored since the last call."""
        while self._scored:
            yield self._scored.popleft()


class AssemblyStage(Component):
    """Owns the assembler: takes requests from the log, and hands complete traces to `traces`.

    `progress` tells which revisions are scored. The store keeps the checkpoint, and the habits of senders. Requests in
    `quarantine` are passed over.
    """

    def __init__(
        self,
        assembler: Assembler,
        *,
        tenant: str,
        log: Requests,
        traces: TraceTaker,
        progress: Progress,
        store: AssemblyStore,
        open_spans: ReportedSpans,
        clock: Clock,
        telemetry: Telemetry,
        memory: MemoryGuard,
        max_pending_bytes: int,
        backlog: float,
        retention: float,
        content_retention: float = 0.0,
        quarantine: Quarantine | None = None,
    ) -> None:
        self._inbox: Inbox[LoggedRequest | Errand[Any]] = Inbox(max_pending_bytes)
        super().__init__("assembly", self._inbox)
        self._assembler = assembler
        self._tenant = tenant
        self._log = log
        self._traces = traces
        self._progress = progress
        self._store = store
        self._open_spans = open_spans
        self._clock = clock
        self._telemetry = telemetry
        self._memory = memory
        self._backlog = backlog
        self._retention = retention
        self._pace = Pace()
        self._content_retention = max(retention, content_retention)
        self._quarantine = quarantine
        # By partition of the log.
        self._checkpoints: dict[int, int] = {}
        self._replay_to = 0
        self._next_housekeeping = 0.0
        self._handing_over = False
        self._retrying: set[str] = set()

    def start(self) -> None:
        """Start: first assemble the log again from the checkpoint on, then the requests that it hands over. Call this
        before the log starts."""
        checkpoint = self._store.checkpoint()
        self._checkpoints[split_offset(checkpoint)[0]] = checkpoint
        self._assembler.begin_at(checkpoint)
        # The log hands over everything behind this offset.
        self._replay_to = self._log.last_offset()
        super().start()

    def take_request(self, request: LoggedRequest) -> None:
        """Take a committed request, even over the bound, as it was admitted."""
        self._inbox.put_regardless(request, request.size)

    def run_errand(self, errand: Errand[Any]) -> None:
        """Run an errand after everything that was handed over before it is assembled, and the traces that are complete
        by that are handed on. Nothing is assembled meanwhile."""
        self._inbox.put_regardless(errand, 0)

    def give_up(self, partitions: Collection[int]) -> Errand[None]:
        """Save how far these partitions of the log are scored, and forget their traces: another process goes on."""

        def forget() -> None:
            self._note_scored()
            self.survive(self._save_progress)
            for partition in partitions:
                self._assembler.forget_partition(partition)
                self._checkpoints.pop(partition, None)

        errand = Errand(forget)
        self.run_errand(errand)
        return errand

    def admit(self) -> None:
        """Raises Overloaded while more waits for assembly than the bounds allow, in bytes and in seconds of work."""
        seconds = self._pace.seconds_for(self._inbox.weight)
        if not self._inbox.full and (seconds is None or seconds <= self._backlog):
            return
        behind = "evaluating" if self._handing_over else "assembling"
        late = "" if seconds is None else f", by {seconds:.0f} s"
        over = 1.0 if seconds is None else min(max(1.0, seconds - self._backlog), LONGEST_WAIT)
        raise Overloaded(f"the collector is behind with {behind} traces{late}; send again later", retry_after=over)

    @property
    def held(self) -> int:
        """Bytes of memory that waiting requests and traces take. From any thread."""
        return self._inbox.weight + self._assembler.held

    @property
    def late(self) -> float:
        """The seconds that the oldest complete trace, or the oldest request, has waited; 0 if none waits. From any
        thread."""
        waits = self._assembler.waiting_for_score()
        if isinstance(first := self._inbox.first, LoggedRequest):
            waits = max(waits, (self._clock.now() - first.received_at) / 1e9)
        return waits

    def run(self) -> None:
        """Assemble until the inbox is closed and empty. Traces that are open then stay in the log for the next
        start."""
        self._replay()
        self._assemble_deliveries()

    def _replay(self) -> None:
        start = min(self._checkpoints.values())
        while not self._inbox.closed:
            page = self.insist(self._page, start)
            batch = [request for request in page if request.offset <= self._replay_to]
            if not batch:
                return
            self._telemetry.count(Counted.REPLAYED, len(batch))
            self.survive(self._assemble, batch)
            self.survive(lambda: self._hand_over(self._assembler.quiet()))
            self.survive(self._housekeeping)
            start = batch[-1].offset + 1

    def _page(self, start: int) -> list[LoggedRequest]:
        page: list[LoggedRequest] = []
        size = 0
        for request in islice(self._log.read(start), BATCH):
            page.append(request)
            size += request.size
            if size >= TOGETHER:
                break
        return page

    def _assemble_deliveries(self) -> None:
        while True:
            items = self._inbox.take(BATCH, self._patience(), weight=TOGETHER)
            requests, errands = without_errands(items)
            self._note_scored()
            begun = self._clock.monotonic()
            self.survive(self._assemble, requests)
            self.survive(lambda: self._hand_over(self._assembler.due()))
            if requests:
                self._pace.note(sum(request.size for request in requests), self._clock.monotonic() - begun)
            if excess := self._memory.excess:
                self.survive(lambda: self._hand_over(self._assembler.release(excess)))
            for errand in errands:
                errand.run()
            self.survive(self._housekeeping)
            if self._inbox.closed and not items:
                self._save_learned()
                return

    def _assemble(self, requests: Sequence[LoggedRequest]) -> None:
        self._hand_over(self._completed_by(requests))

    def _completed_by(self, requests: Sequence[LoggedRequest]) -> list[AssembledTrace]:
        """Assemble requests that are not set aside, each that may be fatal alone."""
        if self._quarantine is None:
            return self._assembled(requests)
        complete: list[AssembledTrace] = []
        for together in self._quarantine.in_turn(InputKind.REQUEST, requests, _key):
            # The log has no empty requests: this one is damaged.
            for damaged in (request for request in together if not request.body):
                self._set_aside(damaged, "its bytes in the log are not those that were written")
            with self._quarantine.work_on(InputKind.REQUEST, [*map(_key, together)]):
                complete += self._assembled(together)
        return complete

    def _assembled(self, requests: Sequence[LoggedRequest]) -> list[AssembledTrace]:
        """Assemble requests, and insist until the store answers. The spans of a failed attempt are recognised as
        known."""
        if not requests:
            return []
        try:
            with self._memory.work.reserve(ASSEMBLING * sum(len(request.body) for request in requests)):
                return self.insist(self._assembler.take_requests, requests)
        except RetryableError:
            raise
        except Exception as error:  # A defect of ours: it may cost one request, and must not hold up the others.
            if len(requests) > 1:
                return [trace for request in requests for trace in self._assembled([request])]
            self._logger.exception("request %d of the log cannot be assembled and is passed over", requests[0].offset)
            self._set_aside(requests[0], f"its spans cannot be taken out of it: {type(error).__name__}")
            return []

    def _set_aside(self, request: LoggedRequest, reason: str) -> None:
        if self._quarantine is not None:
            self.insist(self._quarantine.set_aside, InputKind.REQUEST, _key(request), reason, len(request.body) or None)

    def _patience(self) -> float:
        due = min(self._assembler.next_due(), self._next_housekeeping)
        return min(max(due - self._clock.monotonic(), 0.0), HOUSEKEEPING)

    def _hand_over(self, complete: Sequence[AssembledTrace]) -> None:
        """Hand traces on, and wait for room. Once the inbox is closed, the rest is left to the next start."""
        self._handing_over = True
        try:
            for trace in complete:
                while not self._traces.take_trace(trace, HAND_OVER):
                    if self._inbox.closed:
                        return  # It is in the log, behind the checkpoint: the next start scores it.
        finally:
            self._handing_over = False

    def _housekeeping(self) -> None:
        self._note_scored()
        now = self._clock.monotonic()
        if now < self._next_housekeeping:
            return
        self._next_housekeeping = now + HOUSEKEEPING
        if died := self._open_spans.take_died():
            self._hand_over(self.insist(self._assembler.complete_died, died, self._tenant))
        if self._quarantine is not None:
            self._retry(self._quarantine)
        self._save_progress()

    def _retry(self, quarantine: Quarantine) -> None:
        """Take up what somebody wants to be tried again, each item once. Set aside rows that could not be read."""
        self.insist(quarantine.set_rows_aside)
        wanted = {item.item_id: item for item in self.insist(quarantine.retries)}
        self._retrying &= wanted.keys()
        for item in wanted.values():
            if item.kind is InputKind.ROW:
                # Whoever reads it next notes it again if it is still damaged.
                self.insist(quarantine.settle, item.kind, item.key)
            elif item.item_id not in self._retrying:
                self._retrying.add(item.item_id)
                if not (self._retry_trace(item.key) if item.kind is InputKind.TRACE else self._retry_request(item.key)):
                    self.insist(quarantine.set_aside, item.kind, item.key, "the log does not have it any more")
            elif item.kind is InputKind.REQUEST and self._is_scored(int(item.key)):
                self.insist(quarantine.settle, item.kind, item.key)

    def _retry_trace(self, trace_id: str) -> bool:
        trace = self.insist(self._assembler.complete_again, trace_id, self._tenant)
        if trace is not None:
            self._hand_over([trace])
        return trace is not None

    def _retry_request(self, offset: str) -> bool:
        request = self.insist(lambda: next(iter(self._log.read(int(offset))), None))
        if request is None or _key(request) != offset:
            return False
        self._assemble([request])
        return True

    def _is_scored(self, offset: int) -> bool:
        """Return whether everything that came with the request is scored: a replay does not read an old one again."""
        partition, _ = split_offset(offset)
        return self._assembler.checkpoints().get(partition, 0) > offset

    def _note_scored(self) -> None:
        for trace_id, revision in self._progress.newly_scored():
            self._assembler.scored(trace_id, revision)

    def _save_progress(self) -> None:
        try:
            for partition, checkpoint in self._assembler.checkpoints().items():
                if checkpoint > self._checkpoints.get(partition, 0):
                    self._store.save_checkpoint(checkpoint)
                    self._checkpoints[partition] = checkpoint
            self._save_learned()
            if self._trim() == TRIMMED:
                self._next_housekeeping = 0.0  # There may be more; what has come meanwhile is assembled first.
        except RetryableError as error:
            self._logger.error("progress is not saved, next attempt in %g s: %s", HOUSEKEEPING, error)

    def _trim(self) -> int:
        """Forget scored requests that are old enough, and return how many.

        What is set aside stays as long as content does, so that it can be tried again.
        """
        scored, now = min(self._checkpoints.values(), default=0), self._clock.now()
        older_than = now - round(self._retention * 1e9)
        kept = self._set_aside_offsets()
        if not kept:
            return self._log.trim(scored, older_than, TRIMMED)
        self._log.trim(scored, now - round(self._content_retention * 1e9), TRIMMED)
        return self._log.trim(scored, older_than, TRIMMED, kept)

    def _set_aside_offsets(self) -> Sequence[int]:
        if self._quarantine is None:
            return ()
        requests = map(int, self._quarantine.keys(InputKind.REQUEST))
        return [*requests, *self._assembler.offsets_of(self._quarantine.keys(InputKind.TRACE))][:MOST_KEPT]

    def _save_learned(self) -> None:
        if learned := self._assembler.senders.unsaved():
            self._store.habits.save(learned)
            self._assembler.senders.saved(learned)
