"""The retention stage. On its own thread it carries out deletions, and forgets data that is too old or too much."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from agenteval_collector.config.settings import RetentionConfig
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.deletions import DeletionFilter, Receipt
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.component import SHORTEST_WAIT, Component
from agenteval_collector.runtime.database_file import DatabaseFile
from agenteval_collector.runtime.errors import NotFound, Overloaded, RetryableError, Unavailable
from agenteval_collector.runtime.inbox import Inbox
from agenteval_collector.stores.deletions import DeletionStore
from agenteval_collector.stores.retention_ports import DoomedTraces, Erasure

T = TypeVar("T")
logger = logging.getLogger(__name__)

EVERY: Final = 60.0
"""Seconds between two looks for data that is too old or too much."""
DELETED_WITHIN: Final = 2.0
"""Seconds that a caller waits for a deletion. The deletion goes on after that."""
MAX_WAITING: Final = 100
"""The most deletions that may wait."""
BATCH: Final = 64
"""The most traces whose content is forgotten in one commit."""
VACUUMED_WITHIN: Final = 24 * 3600.0
"""Seconds after which a large file is vacuumed for a deletion, even if it was never quiet."""
TRIES: Final = 100
"""Attempts at a step of a deletion, 50 ms apart, before the stage reports that it is held up."""
STEPS: Final = 100
"""The most batches of one kind in one look. The bound keeps a deletion from waiting long."""
GIVEN_BACK: Final = 4 * 1024 * 1024
"""Bytes that are given back to the disk at a time. Writers wait meanwhile."""


class RetentionStage(Component):
    """Carries out deletions in the order in which they were asked for, and then applies the bounds on data."""

    def __init__(
        self,
        deletions: DeletionStore,
        erasure: Erasure,
        files: Sequence[DatabaseFile],
        ages: RetentionConfig,
        clock: Clock,
        telemetry: Telemetry,
        new_id: Callable[[], str],
        tell: Callable[[], None],
        is_on_duty: Callable[[], bool],
    ) -> None:
        """Take the store, the files and the settings.

        Only the process for which `is_on_duty` returns True deletes. `tell` tells the others that there is something to
        delete.
        """
        # It holds ids to wake the stage: the deletions themselves are in the store.
        self._inbox: Inbox[str] = Inbox(MAX_WAITING)
        super().__init__("retention", self._inbox)
        self._deletions = deletions
        self._erasure = erasure
        self._files = files
        self._ages = ages
        self._clock = clock
        self._telemetry = telemetry
        self._new_id = new_id
        self._tell = tell
        self._is_on_duty = is_on_duty
        self._next_look = 0.0
        # DeletionStore of which only remains are left, in large files that wait for a quiet minute.
        self._erased: set[str] = set()
        self._is_done = threading.Condition()

    def recover(self) -> None:
        """Erase from the log what the last process had erased only from the store.

        Call it before the log is read again.
        """
        for deletion_id, _ in self._deletions.pending():
            self._erase_from_log(deletion_id, _once)

    def delete(self, wanted: DeletionFilter, by: str | None) -> Receipt:
        """Delete everything that `wanted` describes and that has arrived by now. Return the receipt so far.

        The deletion is durable when this returns. It is done within `DELETED_WITHIN` seconds, or later. The same
        request while it goes on is the same deletion. Raises Overloaded if `MAX_WAITING` deletions wait.
        """
        deletion_id = self._deletions.add(self._new_id(), wanted, by)
        self._tell()
        # If this stage does not run, another process carries out the deletion.
        if self.alive and not self._inbox.put(deletion_id) and not self._inbox.closed:
            raise Overloaded(f"{MAX_WAITING} deletions wait already; this one comes after them", retry_after=5.0)
        return self.receipt(deletion_id)

    def wake(self) -> None:
        """Make the stage look for deletions that another process was asked for. Thread-safe."""
        self._inbox.put("")  # A full inbox may refuse it: then the stage looks anyway.

    def receipt(self, deletion_id: str) -> Receipt:
        """Return the receipt of a deletion, after waiting up to `DELETED_WITHIN` seconds until it is done.

        Raises NotFound.
        """

        def is_done() -> bool:
            receipt = self._deletions.receipt(deletion_id)
            return receipt is None or receipt.done_at is not None

        with self._is_done:
            self._is_done.wait_for(is_done, DELETED_WITHIN)
        receipt = self._deletions.receipt(deletion_id)
        if receipt is None:
            raise NotFound(f"deletion {deletion_id} is not known to this collector")
        return receipt

    def run(self) -> None:
        while True:
            if self._is_on_duty():
                self._do_duty()
            if not self._inbox.take(MAX_WAITING, EVERY) and self._inbox.closed:
                return

    def _do_duty(self) -> None:
        self.survive(self.carry_out)
        if self._clock.monotonic() >= self._next_look:
            self._next_look = self._clock.monotonic() + EVERY
            self.survive(self.insist, self.look)

    def carry_out(self) -> None:
        """Carry out the deletions that are pending, as far as that is possible now."""
        pending = self.insist(self._deletions.pending)
        doomed: list[DoomedTraces] = []
        for deletion_id, wanted in pending:
            if deletion_id not in self._erased:
                self.survive(self._find, deletion_id, wanted, doomed)
        if doomed:
            self.survive(self._erase, doomed)
        self._erased.intersection_update(deletion_id for deletion_id, _ in pending)
        if self._erased:
            self.survive(self._remove_remains)
        with self._is_done:
            self._is_done.notify_all()

    def _find(self, deletion_id: str, wanted: DeletionFilter, doomed: list[DoomedTraces]) -> None:
        """Add a deletion to those that are doomed together."""
        doomed.append(DoomedTraces(deletion_id, wanted, self._step(self._deletions.sessions_of, wanted)))

    def _erase(self, doomed: Sequence[DoomedTraces]) -> None:
        """Erase what these deletions cover from memory and the store, then from the log.

        Together, as each step waits until all that came before it is stored: that may take a minute, for thirty
        deletions as for one. Each step is small, is stored, and may be done again. So a crash in the middle costs only
        time.
        """
        if self.survive(self._erase_from_store, doomed):
            erased = doomed
        else:
            # Each by itself, so that one that fails does not hold up the others.
            erased = [one for one in doomed if self.survive(self._erase_from_store, [one])]
        # What two deletions cover is erased for one of them, so none is done before the log has nothing of any.
        if all([self.survive(self._erase_from_log, one.deletion_id, self._step) for one in erased]):
            self._erased.update(one.deletion_id for one in erased)

    def _erase_from_store(self, doomed: Sequence[DoomedTraces]) -> None:
        left = list(doomed)
        while left:
            more = self._step(self._erasure.erase, left)
            left = [one for one in left if one.deletion_id in more]

    def _remove_remains(self) -> None:
        """Remove from the files what SQLite leaves of deleted rows, then complete the receipts.

        Writers wait meanwhile. So if a file is large, this waits for a minute in which nobody writes.
        """
        receipts = [self._step(self._deletions.receipt, deletion_id) for deletion_id in sorted(self._erased)]
        waited = self._clock.now() - min((receipt.asked_at for receipt in receipts if receipt is not None), default=0)
        # A list, so that every file notes that it was looked at.
        may_begin = [file.is_small or file.is_quiet() for file in self._files]
        if not all(may_begin) and waited < VACUUMED_WITHIN * 1e9:
            return
        for file in self._files:
            self._step(file.vacuum)
        # A vacuum may number rows anew, and the index knows traces by the numbers of their rows.
        self._step(self._deletions.rebuild_said_index)
        for file in self._files:
            self._step(file.empty_log)
        for deletion_id in sorted(self._erased):
            self._step(self._deletions.mark_done, deletion_id)
            self._erased.discard(deletion_id)
            receipt = self._step(self._deletions.receipt, deletion_id)
            logger.info("deletion %s is done: %s", deletion_id, None if receipt is None else dict(receipt.removed))

    def _erase_from_log(self, deletion_id: str, insist: Callable[..., Any]) -> None:
        """Erase from the log what is erased from the store. `insist` runs each step."""
        at: int | None = 0
        while at is not None:
            at, removed = insist(self._erasure.erase_from_log, deletion_id, at)
            if removed:
                insist(self._deletions.add_removed, deletion_id, removed)
        insist(self._erasure.mark_erased, deletion_id)

    def _step(self, attempt: Callable[..., T], *args: object) -> T:
        """Try a step of a deletion until it succeeds.

        Raises Unavailable once the collector stops. The next start goes on with the deletion.
        """
        for _ in range(TRIES):
            if self._inbox.closed:
                raise Unavailable("the collector is stopping")
            try:
                return attempt(*args)
            except RetryableError:  # Somebody else reads or writes: no trouble unless it lasts.
                self._giving_up.wait(SHORTEST_WAIT)
        return self.insist(attempt, *args)

    def look(self) -> None:
        """Forget some content and outcomes that are too old, then some that exceed `retention.max_bytes`, and give back
        the space."""
        now = self._clock.now()
        content, outcomes = (max(0, now - round(age * 1e9)) for age in (self._ages.content, self._ages.outcomes))
        self._some(lambda: self._forget_content(content))
        self._some(lambda: self._erasure.erase_older(outcomes))
        self._deletions.forget_receipts(outcomes)
        self._some(self._within_bytes)
        for file in self._files:
            self._some(lambda file=file: file.give_back(GIVEN_BACK) >= GIVEN_BACK)  # type: ignore[misc]

    def _some(self, step: Callable[[], bool]) -> None:
        """Repeat a step while it says that there may be more, `STEPS` times at most."""
        for _ in range(STEPS):
            if self._inbox.closed or not step():
                return

    def _forget_content(self, before: int) -> bool:
        count = self._deletions.forget_content(before, BATCH)
        self._telemetry.count(Counted.FORGOTTEN, count, "content")
        return count == BATCH

    def _within_bytes(self) -> bool:
        """Forget some data if the files hold too much. Return whether there may be more.

        The oldest content goes first, from the log, too. If no content is left, the oldest traces go.
        """
        most = self._ages.max_bytes
        if most is None or sum(file.used_bytes for file in self._files) <= most:
            return False
        oldest = self._deletions.oldest_content(BATCH)
        if oldest is None:
            return self._erasure.erase_older(self._clock.now())
        self._erasure.trim_log(oldest)
        self._forget_content(oldest + 1)
        return True


def _once(attempt: Callable[..., T], *args: object) -> T:
    """Try a step once, and let its error pass: nothing has started that could wait for the store."""
    return attempt(*args)
