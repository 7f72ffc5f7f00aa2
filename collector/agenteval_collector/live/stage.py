"""Run live detection on a thread of its own, beside assembly. So neither ingest nor assembly ever waits for it.

Only the announcer makes a finding known before its trace is complete.
"""

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from agenteval_collector.config.findings import FindingsConfig
from agenteval_collector.live.live_loops import FoundLive, LiveLoops
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.logged_requests import Arrival
from agenteval_collector.model.news import News, NewsSink
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.component import Component
from agenteval_collector.runtime.errand import Errand, without_errands
from agenteval_collector.runtime.inbox import Inbox
from agenteval_collector.stores.findings import FindingStore
from otel_agenteval.finding import Finding

NAMED_WITHIN: Final = 30.0
"""Seconds after which a finding counts although its agent is not known."""
OVERDUE_COUNTED_EVERY: Final = 1.0
"""Seconds between two looks for such findings."""


@dataclass(slots=True)
class Announcer:
    """Keeps findings and tells the new ones. Thread-safe.

    A loop or a failed model call may be found live, at completion, and in a replay of the log, but it is told once. It
    also counts once, as soon as its agent is known. That is now, or when its trace is complete, or else after
    `NAMED_WITHIN`.
    """

    store: FindingStore
    settings: FindingsConfig
    emit: NewsSink
    clock: Clock
    _next_look: float = field(default=0.0, init=False)
    # The lock makes the order of telling that of keeping, whichever thread found the finding.
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def announce(self, findings: Sequence[Finding], recounted: Sequence[Finding] = ()) -> None:
        """Keep the findings and tell the new ones. `recounted` is as in `FoundLive`.

        Raises RetryableError if they could not be kept. Then nobody was told.
        """
        findings, recounted = self.settings.apply(findings), self.settings.apply(recounted)
        if not findings and not recounted:
            return
        with self._lock:
            self.emit.take_news(self.store.keep(findings, recounted))

    def count_overdue(self) -> None:
        """Count findings that still have no agent. May be called often.

        Raises RetryableError, with none counted.
        """
        with self._lock:
            now = self.clock.monotonic()
            if now < self._next_look:
                return
            self._next_look = now + OVERDUE_COUNTED_EVERY
            overdue = self.store.overdue(self.clock.now() - round(NAMED_WITHIN * 1e9))
            if overdue:
                self.emit.take_news(News(counted=overdue))


CAPACITY = 64 * 1024 * 1024
"""Bytes of memory of spans that may wait. Further spans are left to the completion of their traces."""
BATCH = 64
"""Batches of arrivals that are looked at together."""
HOUSEKEEPING = 1.0
"""The longest time in seconds that the stage sleeps."""


class LoopStage(Component):
    """Gives arriving spans to the detectors, and announces what they find.

    Spans that find no room are counted as dropped. They cost only time, as each complete trace is looked at again.
    """

    def __init__(self, live: LiveLoops, announcer: Announcer, telemetry: Telemetry) -> None:
        # Each item is a batch of spans, and whether spans were lost before it.
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
        """Take spans that use `size` bytes of memory. Called from the assembly's one thread; never waits."""
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
            items = self._inbox.take(BATCH, HOUSEKEEPING)
            batches, errands = without_errands(items)
            if batches:
                self.survive(self._look_at, batches)
            for errand in errands:
                errand.run()
            self.survive(self.insist, self._announcer.count_overdue)
            if self._inbox.closed and not items:
                return

    def _look_at(self, batches: Sequence[tuple[Sequence[Arrival], bool]]) -> None:
        news = FoundLive()
        together: list[Arrival] = []
        for arrivals, after_gap in batches:
            if after_gap:
                self._live.observe(together, news)
                together = []
                self._live.forget_all()
            together += arrivals
        self._live.observe(together, news)
        alone = [*news.carried, *news.failed]
        if alone or news.recounted:
            self.insist(self._announcer.announce, alone, news.recounted)
