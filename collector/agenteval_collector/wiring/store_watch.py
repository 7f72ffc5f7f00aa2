"""Look whether the store is there, and which of several processes does what one has to do for all."""

from typing import Final

from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.component import Component
from agenteval_collector.runtime.errors import RetryableError
from agenteval_collector.runtime.inbox import Inbox
from agenteval_collector.stores import Store
from agenteval_collector.stores.engines import DUTY_LASTS

LOOK_EVERY: Final = 2.0
"""Seconds between two looks."""
_NEVER: Final = float("-inf")


class StoreWatch(Component):
    """Looks for the store again and again, and is held up while it does not answer: else a process that has nothing to
    do for long would not notice. Takes the duty where it may: of all processes one has it, until it is gone."""

    def __init__(self, store: Store, clock: Clock, *, may_have_duty: bool) -> None:
        self._inbox: Inbox[None] = Inbox(1)
        super().__init__("store", self._inbox)
        self._store = store
        self._clock = clock
        self._look = self._take_duty if may_have_duty else store.reach
        self._duty_until = _NEVER

    def is_on_duty(self) -> bool:
        """Return whether this process, and no other one, does what one has to do for all. From any thread."""
        return self._clock.monotonic() < self._duty_until

    def run(self) -> None:
        while not self._inbox.closed:
            self.survive(self.insist, self._look)
            self._inbox.take(1, LOOK_EVERY)

    def _take_duty(self) -> None:
        # From before the question: the store counts from no earlier time.
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
            self._logger.info("%s shows facts, pushes events and deletes", who)
