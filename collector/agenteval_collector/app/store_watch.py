"""Watch whether the store answers, and take the duty that one of several processes has."""

from typing import Final

from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.component import Poller
from agenteval_collector.runtime.errors import RetryableError
from agenteval_collector.stores.engines.ports import DUTY_LASTS
from agenteval_collector.stores.store import Store

STORE_ASKED_EVERY: Final = 2.0
"""Seconds between two looks."""
_NEVER: Final = float("-inf")


class StoreWatch(Poller):
    """Asks the store again and again, so that also an idle process is unhealthy while the store is away.

    If it may, it takes the duty. One process has the duty until that process is gone.
    """

    def __init__(self, store: Store, clock: Clock, *, may_have_duty: bool) -> None:
        super().__init__("store", STORE_ASKED_EVERY)
        self._store = store
        self._clock = clock
        self._look = self._take_duty if may_have_duty else store.reach
        self._duty_until = _NEVER

    def is_on_duty(self) -> bool:
        """Return whether this process, and no other one, has the duty. From any thread."""
        return self._clock.monotonic() < self._duty_until

    def step(self) -> None:
        self.insist(self._look)

    def _take_duty(self) -> None:
        # Taken before the question: the store starts counting later, so this process gives up earlier.
        until = self._clock.monotonic() + DUTY_LASTS
        was_on_duty = self.is_on_duty()
        try:
            has_duty = self._store.take_duty()
        except RetryableError:
            self._duty_until = _NEVER
            raise
        self._duty_until = until if has_duty else _NEVER
        if has_duty is not was_on_duty:
            who = "this process" if has_duty else "another process"
            self._logger.info("%s shows the shared gauges, pushes events and deletes", who)
