"""Live detection on a thread of its own, beside assembly: neither ingest nor assembly ever waits for it."""

from collections.abc import Collection, Sequence
from typing import Any

from agenteval_collector.findings.loops.announcing import Announcer
from agenteval_collector.findings.loops.live import FoundLive, LiveLoops
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.telemetry import Arrival
from agenteval_collector.runtime.component import Component
from agenteval_collector.runtime.errand import Errand, without_errands
from agenteval_collector.runtime.inbox import Inbox

CAPACITY = 64 * 1024 * 1024
"""Bytes of memory of spans that may wait; what comes on top of them is left to the completion of its traces."""
BATCH = 64
"""Batches of arrivals that are looked at together."""
HOUSEKEEPING = 1.0
"""Seconds that the stage sleeps at the longest."""


class LoopStage(Component):
    """Gives arriving spans to the detectors, and announces what they find.

    Spans that find no room are counted as dropped. Nothing but time is lost by that: each complete trace is looked at
    again.
    """

    def __init__(self, live: LiveLoops, announcer: Announcer, telemetry: Telemetry) -> None:
        # Each batch with whether others were lost before it.
        self._inbox: Inbox[tuple[Sequence[Arrival], bool] | Errand[Any]] = Inbox(CAPACITY)
        super().__init__("loops", self._inbox)
        self._live = live
        self._announcer = announcer
        self._telemetry = telemetry
        self._has_gap = False

    @property
    def held(self) -> int:
        """Bytes of memory that waiting spans take. From any thread."""
        return self._inbox.weight

    def take_arrivals(self, arrivals: Sequence[Arrival], size: int) -> None:
        """Take spans that take `size` bytes of memory; from the assembly's one thread, never waits."""
        if self._inbox.put((arrivals, self._has_gap), size):
            self._has_gap = False
        elif not self._inbox.closed:
            self._has_gap = True
            self._telemetry.count(Counted.DROPPED, len(arrivals), "loops")

    def forget(self, trace_ids: Collection[str]) -> Errand[None]:
        """Announce what is found in the spans that wait, then forget these traces."""
        errand = Errand(lambda: self._live.forget(trace_ids))
        self._inbox.put_regardless(errand, 0)
        return errand

    def run(self) -> None:
        while True:
            taken = self._inbox.take(BATCH, HOUSEKEEPING)
            batches, errands = without_errands(taken)
            if batches:
                self.survive(self._look_at, batches)
            for errand in errands:
                errand.run()
            self.survive(self.insist, self._announcer.count_overdue)
            if self._inbox.closed and not taken:
                return

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
            self.insist(self._announcer.announce, found.carried, found.recounted)
