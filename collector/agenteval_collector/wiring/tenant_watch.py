"""Take up the tenants that other processes have met first."""

from collections.abc import Callable, Iterable
from typing import Final

from agenteval_collector.runtime.component import Component
from agenteval_collector.runtime.errors import Unavailable
from agenteval_collector.runtime.inbox import Inbox

LOOK_EVERY: Final = 10.0
"""Seconds between two looks for new tenants."""


class TenantWatch(Component):
    """Of several processes, those that nobody calls learn of a tenant here."""

    def __init__(self, tenants: Callable[[], Iterable[str]], take_up: Callable[[str], object]) -> None:
        """`tenants` are all that are known to any process; `take_up` does nothing for one that is known here."""
        self._inbox: Inbox[None] = Inbox(1)
        super().__init__("tenants", self._inbox)
        self._tenants = tenants
        self._take_up = take_up

    def run(self) -> None:
        while not self._inbox.closed:
            for tenant in self.insist(self._tenants):
                self.survive(self._try, tenant)
            self._inbox.take(1, LOOK_EVERY)

    def _try(self, tenant: str) -> None:
        try:
            self._take_up(tenant)
        except Unavailable as error:
            self._logger.warning("the tenant %s waits for the next look: %s", tenant, error)
