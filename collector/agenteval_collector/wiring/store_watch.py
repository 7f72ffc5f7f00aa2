"""Look whether the store is there, for a process that may have nothing to do with it for long."""

from typing import Final

from agenteval_collector.runtime.component import Component
from agenteval_collector.runtime.inbox import Inbox
from agenteval_collector.stores import Store

LOOK_EVERY: Final = 2.0
"""Seconds between two looks."""


class StoreWatch(Component):
    """A part that is held up while the store does not answer."""

    def __init__(self, store: Store) -> None:
        self._inbox: Inbox[None] = Inbox(1)
        super().__init__("store", self._inbox)
        self._store = store

    def run(self) -> None:
        while not self._inbox.closed:
            self.survive(self.insist, self._store.reach)
            self._inbox.take(1, LOOK_EVERY)
