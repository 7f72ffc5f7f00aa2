"""The one way by which a finding becomes known before its trace is complete."""

import threading
from collections.abc import Sequence
from typing import Final

from agenteval_collector.findings.loops.ports import KeptFindings, Rules
from agenteval_collector.model.news import News, NewsSink
from agenteval_collector.runtime.clock import Clock
from otel_agenteval.finding import Finding

NAMED_WITHIN: Final = 30.0
"""Seconds after which a finding counts though its agent is not known."""
LOOK_EVERY: Final = 1.0
"""Seconds between two looks for such findings."""


class Announcer:
    """Keeps findings and tells those that are new: a loop may be found live, at completion, and in a replay of the log,
    and is told once. It counts once, as soon as its agent is known: now, when its trace is complete, or after
    `NAMED_WITHIN`. Thread-safe.
    """

    def __init__(
        self,
        store: KeptFindings,
        rules: Rules,
        emission: NewsSink,
        clock: Clock,
    ) -> None:
        self._store = store
        self._rules = rules
        self._emission = emission
        self._clock = clock
        self._next_look = 0.0
        # They are told in the order in which they were kept, whichever thread found them.
        self._lock = threading.Lock()

    def announce(self, found: Sequence[Finding], recounted: Sequence[Finding] = ()) -> None:
        """Keep and tell what is new; `recounted` as in `LiveLoops`. Raises RetryableError where it could not be kept;
        nobody was told then."""
        found, recounted = self._rules(found), self._rules(recounted)
        if not found and not recounted:
            return
        with self._lock:
            self._emission.take_news(self._store.keep(found, recounted))

    def count_overdue(self) -> None:
        """Count findings that still have no agent; may be called often. Raises RetryableError, with none counted."""
        with self._lock:
            now = self._clock.monotonic()
            if now < self._next_look:
                return
            self._next_look = now + LOOK_EVERY
            overdue = self._store.overdue(self._clock.now() - round(NAMED_WITHIN * 1e9))
            if overdue:
                self._emission.take_news(News(counted=overdue))
