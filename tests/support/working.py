"""Worker processes for tests, and what they do."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agenteval_collector.app.scoring import make_workers, preparation
from agenteval_collector.config.settings import Settings
from agenteval_collector.evaluation.preparing import Prepared
from agenteval_collector.evaluation.reading_ahead import ReadingAhead
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.runtime.memory import MemoryGuard
from agenteval_collector.runtime.work_in_hand import WorkInHand
from agenteval_collector.runtime.workers import Begin, Workers
from agenteval_collector.stores.quarantine import Quarantine

from tests.support.eventually import eventually
from tests.support.scoring import Scoring

MIB = 1024 * 1024


@dataclass(frozen=True)
class Deadly:
    """Work whose process dies on what has `poison` in it."""

    begin: Begin
    poison: bytes

    def __call__(self) -> Callable[[bytes], bytes]:
        return partial(_survive, self.begin(), self.poison)


def _survive(work: Callable[[bytes], bytes], poison: bytes, body: bytes) -> bytes:
    if poison in body:
        os.kill(os.getpid(), signal.SIGKILL)
    return work(body)


@contextmanager
def running(workers: Workers, count: int) -> Iterator[Workers]:
    """The workers, once all of them are ready."""
    workers.start()
    try:
        eventually(lambda: workers.ready == count, within=300)
        yield workers
    finally:
        workers.shutdown()


def workers_of(settings: Settings, count: int, *, poison: bytes | None = None) -> Workers:
    """The workers of a collector, not started. With `poison` they die on it."""
    if poison is None:
        workers = make_workers(settings, count)
        assert workers is not None
        return workers
    return Workers(Deadly(preparation(settings, count).begin, poison), count, 512 * MIB, 512 * MIB)


class Noting(ReadingAhead):
    """Notes how many traces the evaluation took as workers prepared them."""

    taken = 0

    def prepared(self, trace: AssembledTrace) -> Prepared | None:
        prepared = super().prepared(trace)
        self.taken += prepared is not None
        return prepared


class ScoringAhead(Scoring):
    """Scoring whose traces come by the inbox, and are prepared by workers."""

    ahead: Noting
    quarantine: Quarantine

    def read_ahead(self, folder: Path, workers: Workers) -> None:
        """Have workers prepare traces from now on."""
        hand = WorkInHand(folder)
        hand.open()
        self.quarantine = Quarantine(self.store.quarantine, hand, "default", self.clock)
        work = MemoryGuard(1 << 40, self.clock).work
        self.ahead = Noting(workers, self.inbox.session_of, self.quarantine, work)
        self.stage = self.core.stage(
            self.inbox, self, scored=self, emit=self, quarantine=self.quarantine, ahead=self.ahead
        )
