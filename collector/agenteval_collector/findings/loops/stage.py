"""Live detection on a thread of its own, beside assembly: neither ingest nor assembly ever waits for it."""

import logging
import threading
from collections.abc import Callable, Sequence

from agenteval_collector.findings.loops.live import FoundLive, LiveLoops
from agenteval_collector.model.telemetry import Arrival
from agenteval_collector.runtime.endurance import Endurance
from agenteval_collector.runtime.errors import RetryableError
from agenteval_collector.runtime.inbox import Inbox
from otel_agenteval.finding import Finding

logger = logging.getLogger(__name__)

CAPACITY = 32 * 1024 * 1024
"""Bytes of requests whose spans may wait; what comes on top of them is left to the completion of its traces."""
BATCH = 64
"""Batches of arrivals that are looked at together."""
HOUSEKEEPING = 1.0
"""Seconds that the stage sleeps at the longest."""


class LoopStage:
    """Gives arriving spans to the detectors, and announces what they find; calls `housekeeping` in between.

    `ended` is given the same spans at once: they are not open any more. `lost` is told how many spans found no room;
    nothing else is lost by that than time, because each complete trace is looked at again.
    """

    def __init__(
        self,
        live: LiveLoops,
        announce: Callable[[Sequence[Finding], Sequence[Finding]], None],
        housekeeping: Callable[[], None],
        ended: Callable[[Sequence[Arrival]], None],
        lost: Callable[[int], None],
    ) -> None:
        self._live = live
        self._announce = announce
        self._housekeeping = housekeeping
        self._ended = ended
        self._lost = lost
        # Each batch with whether others were lost before it.
        self._inbox: Inbox[tuple[Sequence[Arrival], bool]] = Inbox(CAPACITY)
        self._has_gap = False
        self._endurance = Endurance(logger)
        self._thread = threading.Thread(target=self._run, name="agenteval-loops", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def shutdown(self, timeout: float = 2.0) -> None:
        """Look at what has arrived, then stop. Safe before start and twice."""
        self._inbox.close()
        if self._thread.is_alive():
            self._thread.join(timeout)
            self._endurance.give_up()
            self._thread.join(1.0)

    def arrived(self, arrivals: Sequence[Arrival], size: int) -> None:
        """Spans that have arrived, in requests of `size` bytes; from the assembly's one thread, never waits."""
        self._ended(arrivals)
        if self._inbox.put((arrivals, self._has_gap), size):
            self._has_gap = False
        elif not self._inbox.closed:
            self._has_gap = True
            self._lost(len(arrivals))

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Batches of spans that were not looked at yet."""
        return len(self._inbox)

    def _run(self) -> None:
        try:
            while True:
                batches = self._inbox.take(BATCH, HOUSEKEEPING)
                if batches:
                    self._endurance.survive(lambda: self._look_at(batches))  # noqa: B023
                self._endurance.survive(lambda: self._endurance.insist(self._housekeeping))
                if self._inbox.closed and not batches:
                    return
        except RetryableError as error:
            logger.error("live detection of loops stops, complete traces are looked at all the same: %s", error)

    def _look_at(self, batches: Sequence[tuple[Sequence[Arrival], bool]]) -> None:
        found = FoundLive()
        together: list[Arrival] = []
        for arrivals, after_gap in batches:
            if after_gap:
                self._live.observe(together, found)
                together = []
                self._live.forget_all()
            together += arrivals
        self._live.observe(together, found)
        if found.carried or found.recounted:
            self._endurance.insist(lambda: self._announce(found.carried, found.recounted))
