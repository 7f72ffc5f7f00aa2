"""The assembler on a thread of its own, between the log and the evaluation."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Protocol

from agenteval_collector.assembly.assembler import Assembler
from agenteval_collector.model.assembled import AssembledTrace
from agenteval_collector.model.counters import Telemetry
from agenteval_collector.model.senders import Habit
from agenteval_collector.model.telemetry import LoggedRequest
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.endurance import Endurance
from agenteval_collector.runtime.errors import Overloaded, RetryableError
from agenteval_collector.runtime.inbox import Inbox

logger = logging.getLogger(__name__)

BATCH = 64
"""Requests assembled in one go; they share one look-up in the store."""
HOUSEKEEPING = 1.0
"""Seconds between two checkpoints, and the longest the stage sleeps."""
TENANT = "default"
"""The tenant of traces that processes report."""
HAND_OVER = 1.0
"""Seconds to wait at a time for room in the evaluation, so that a stop is noticed."""


class Log(Protocol):
    """The part of the log that the assembly needs."""

    def read(self, start: int) -> Iterable[LoggedRequest]: ...

    def last_offset(self) -> int: ...

    def trim(self, below: int, older_than: int) -> int: ...


class AssemblyStage:
    """Owns the assembler. `evaluate` takes a complete trace, or returns False after a timeout for want of room.

    `save_checkpoint` is told the offset below which everything is scored, whenever it has moved, `save_habits` what was
    learned of senders. `died` gives the traces whose agents died since it was asked last.
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
        died: Callable[[], Sequence[str]] = tuple,
        save_habits: Callable[[Mapping[Habit, str]], None] = lambda _histories: None,
    ) -> None:
        self._assembler = assembler
        self._died = died
        self._log = log
        self._evaluate = evaluate
        self._save_checkpoint = save_checkpoint
        self._save_habits = save_habits
        self._clock = clock
        self._telemetry = telemetry
        self._retention = retention
        self._inbox: Inbox[LoggedRequest] = Inbox(max_pending_bytes)
        # Beside the inbox, because a replay does not read that one; bounded by the traces that are being scored.
        self._scored: deque[tuple[str, int]] = deque()
        self._checkpoint = 0
        self._next_housekeeping = 0.0
        self._handing_over = False
        self._endurance = Endurance(logger)
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
            self._endurance.give_up()
            self._thread.join(1.0)

    def deliver(self, request: LoggedRequest) -> None:
        """A committed request, from the log."""
        self._inbox.put_regardless(request, len(request.body))

    def scored(self, trace_id: str, revision: int) -> None:
        """From the evaluation: this revision is committed."""
        self._scored.append((trace_id, revision))

    def admit(self) -> None:
        """Raises Overloaded while more waits for assembly than the bound allows."""
        if self._inbox.full:
            behind = "evaluating" if self._handing_over else "assembling"
            raise Overloaded(f"the collector is behind with {behind} traces; send again later")

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Requests that are committed and not assembled."""
        return len(self._inbox)

    def _run(self, replay_to: int) -> None:
        try:
            self._replay(replay_to)
            self._assemble_deliveries()
        except RetryableError as error:
            logger.error("assembly stops, the next start goes on from the log: %s", error)

    def _replay(self, replay_to: int) -> None:
        start = self._checkpoint
        while not self._inbox.closed:
            page = self._endurance.insist(lambda: list(islice(self._log.read(start), BATCH)))  # noqa: B023
            batch = [request for request in page if request.offset <= replay_to]
            if not batch:
                return
            self._telemetry.replayed(len(batch))
            self._endurance.survive(lambda: self._hand_over(self._assemble(batch)))  # noqa: B023
            self._endurance.survive(lambda: self._hand_over(self._assembler.quiet()))
            self._endurance.survive(self._housekeeping)
            start = batch[-1].offset + 1

    def _assemble_deliveries(self) -> None:
        while True:
            requests = self._inbox.take(BATCH, self._patience())
            self._note_scored()
            self._endurance.survive(lambda: self._hand_over(self._assemble(requests)))  # noqa: B023
            self._endurance.survive(lambda: self._hand_over(self._assembler.due()))
            self._endurance.survive(self._housekeeping)
            if self._inbox.closed and not requests:
                self._save_learned()
                return

    def _assemble(self, requests: Sequence[LoggedRequest]) -> list[AssembledTrace]:
        """Tried again until the store answers: spans that were taken by a failed attempt are recognised."""
        if not requests:
            return []
        try:
            return self._endurance.insist(lambda: self._assembler.take(requests))
        except RetryableError:
            raise
        except Exception:  # A request that cannot be assembled is a defect of ours; the others must not wait for it.
            if len(requests) > 1:
                return [trace for request in requests for trace in self._assemble([request])]
            logger.exception("request %d of the log cannot be assembled and is passed over", requests[0].offset)
            return []

    def _patience(self) -> float:
        due = self._assembler.next_due()
        if due is None:
            return HOUSEKEEPING
        return min(max(due - self._clock.monotonic(), 0.0), HOUSEKEEPING)

    def _hand_over(self, traces: Sequence[AssembledTrace]) -> None:
        self._handing_over = True
        try:
            for trace in traces:
                while not self._evaluate(trace, HAND_OVER):
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
        if died := self._died():
            self._hand_over(self._endurance.insist(lambda: self._assembler.died(died, TENANT)))
        try:
            self._save_progress()
        except RetryableError as error:
            logger.error("progress is not saved, next attempt in %g s: %s", HOUSEKEEPING, error)

    def _note_scored(self) -> None:
        while self._scored:
            self._assembler.scored(*self._scored.popleft())

    def _save_progress(self) -> None:
        checkpoint = self._assembler.checkpoint()
        if checkpoint > self._checkpoint:
            self._save_checkpoint(checkpoint)
            self._checkpoint = checkpoint
        self._save_learned()
        self._log.trim(self._checkpoint, older_than=self._clock.now() - round(self._retention * 1e9))

    def _save_learned(self) -> None:
        if learned := self._assembler.senders.unsaved():
            self._save_habits(learned)
            self._assembler.senders.saved(learned)
