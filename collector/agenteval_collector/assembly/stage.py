"""The assembler on a thread of its own, between the log and the evaluation."""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from agenteval_collector.assembly.assembler import Assembler
from agenteval_collector.clock import Clock
from agenteval_collector.errors import Overloaded, RetryableError
from agenteval_collector.inbox import Inbox
from agenteval_collector.pipeline import AssembledTrace, LoggedRequest, Telemetry

logger = logging.getLogger(__name__)

BATCH = 64
"""Requests assembled in one go; they share one look-up in the store."""
HOUSEKEEPING = 1.0
"""Seconds between two checkpoints, and the longest the stage sleeps."""
HAND_OVER = 1.0
"""Seconds to wait at a time for room in the evaluation, so that a stop is noticed."""


class Log(Protocol):
    """What the assembly knows of the log."""

    def read(self, start: int) -> Iterable[LoggedRequest]: ...

    def last_offset(self) -> int: ...

    def trim(self, below: int, older_than: int) -> int: ...


class AssemblyStage:
    """Owns the assembler. `evaluate` takes a complete trace, or returns False after a timeout for want of room.

    `save_checkpoint` is told the offset below which everything is scored, whenever it has moved.
    """

    def __init__(
        self,
        assembler: Assembler,
        *,
        log: Log,
        evaluate: Callable[[AssembledTrace, float], bool],
        save_checkpoint: Callable[[int], None],
        clock: Clock,
        telemetry: Telemetry,
        max_pending_bytes: int,
        retention: float,
    ) -> None:
        self._assembler = assembler
        self._log = log
        self._evaluate = evaluate
        self._save_checkpoint = save_checkpoint
        self._clock = clock
        self._telemetry = telemetry
        self._retention = retention
        self._inbox: Inbox[LoggedRequest | tuple[str, int]] = Inbox(max_pending_bytes)
        self._checkpoint = 0
        self._next_housekeeping = 0.0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, checkpoint: int) -> None:
        """Assemble again what the log holds from `checkpoint` on, then what is delivered."""
        self._checkpoint = checkpoint
        # Everything behind this offset is delivered by the log's thread, which has not started yet.
        end = self._log.last_offset()
        self._thread = threading.Thread(target=self._run, args=(end,), name="agenteval-assembly", daemon=True)
        self._thread.start()

    def shutdown(self, timeout: float = 10.0) -> None:
        """Assemble what was delivered, then stop. Open traces stay in the log. Safe before start and twice."""
        self._inbox.close()
        if self._thread is not None:
            self._thread.join(timeout)
            self._stopping.set()

    def deliver(self, request: LoggedRequest) -> None:
        """A committed request, from the log."""
        self._inbox.put_regardless(request, len(request.body))

    def scored(self, trace_id: str, revision: int) -> None:
        """From the evaluation: this revision is committed."""
        self._inbox.put_regardless((trace_id, revision), 0)

    def admit(self) -> None:
        """Raises Overloaded while more waits for assembly than the bound allows."""
        if self._inbox.full:
            raise Overloaded("the collector is behind with assembling traces; send again later")

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Requests that are committed and not assembled."""
        return len(self._inbox)

    def _run(self, replay_to: int) -> None:
        self._replay(replay_to)
        while True:
            items = self._inbox.take(BATCH, self._patience())
            requests = [item for item in items if isinstance(item, LoggedRequest)]
            for item in items:
                if isinstance(item, tuple):
                    self._assembler.scored(*item)
            if requests:
                self._hand_over(self._assemble(requests))
            self._hand_over(self._assembler.due())
            self._housekeeping()
            if self._inbox.closed and not items:
                return

    def _replay(self, replay_to: int) -> None:
        batch: list[LoggedRequest] = []
        for request in self._log.read(self._checkpoint):
            if request.offset > replay_to:
                break
            batch.append(request)
            if len(batch) == BATCH:
                self._replay_batch(batch)
                batch = []
        self._replay_batch(batch)

    def _replay_batch(self, batch: Sequence[LoggedRequest]) -> None:
        if batch:
            self._telemetry.replayed(len(batch))
            self._hand_over(self._assemble(batch))

    def _assemble(self, requests: Sequence[LoggedRequest]) -> list[AssembledTrace]:
        """Tried again until the store answers: spans that were taken by a failed attempt are recognised."""
        while True:
            try:
                return self._assembler.take(requests)
            except RetryableError as error:
                logger.error("assembling waits: %s", error)
                if self._stopping.wait(error.retry_after):
                    return []

    def _patience(self) -> float:
        due = self._assembler.next_due()
        if due is None:
            return HOUSEKEEPING
        return min(max(due - self._clock.monotonic(), 0.0), HOUSEKEEPING)

    def _hand_over(self, traces: Sequence[AssembledTrace]) -> None:
        for trace in traces:
            while not self._evaluate(trace, HAND_OVER):
                if self._inbox.closed:
                    return  # It is in the log and not below the checkpoint: the next start scores it.

    def _housekeeping(self) -> None:
        now = self._clock.monotonic()
        if now < self._next_housekeeping:
            return
        self._next_housekeeping = now + HOUSEKEEPING
        checkpoint = self._assembler.checkpoint()
        if checkpoint > self._checkpoint:
            self._checkpoint = checkpoint
            self._save_checkpoint(checkpoint)
        self._log.trim(self._checkpoint, older_than=self._clock.now() - round(self._retention * 1e9))
