"""Quotas: how much a tenant, and each of its keys, may send in a second."""

import threading
from collections.abc import Mapping
from typing import Final, NamedTuple

from agenteval_collector.config.settings import QuotaConfig, QuotasConfig
from agenteval_collector.model.callers import Caller
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import QuotaExceeded
from otel_agenteval.internal.lru import LruMap

BURST: Final = 10.0
"""Seconds of a quota that may be sent at once, after a pause as long."""
LONGEST: Final = 60.0
"""The most seconds that a caller is told to wait: then it may ask again."""
KEYS: Final = 1024
"""Keys whose use is remembered, those that sent last. One that is forgotten begins anew."""
TRACES: Final = 10_000
"""Traces that are remembered, so that each counts once, the newest."""


class Sent(NamedTuple):
    """What a request has, as quotas count it."""

    spans: int
    bytes: int
    traces: int


class _Budget:
    """What is left of one rate. It fills with time up to `BURST` seconds' worth. A request may overdraw it, as what is
    in a request is known once it has come."""

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._left = rate * BURST
        self._at = now

    def wait(self, now: float) -> float:
        """Return the seconds until nothing is overdrawn; 0 if nothing is."""
        self._left = min(self._rate * BURST, self._left + (now - self._at) * self._rate)
        self._at = now
        return max(0.0, -self._left / self._rate)

    def take(self, amount: float) -> None:
        self._left -= amount


class Quotas:
    """The quotas of a tenant. From any thread.

    A caller that has overdrawn one of them is refused until that is made up for. So a request is taken whole or not at
    all, whatever it holds.
    """

    def __init__(self, config: QuotasConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._tenant = self._budgets(config.tenant)
        self._keys: LruMap[str, Mapping[str, _Budget]] = LruMap(KEYS)
        self._traces: LruMap[bytes, bool] = LruMap(TRACES)
        self._lock = threading.Lock()

    @property
    def counts_traces(self) -> bool:
        """Whether it matters which traces a request has."""
        return any(quota.traces is not None for quota in (self._config.tenant, self._config.key))

    def admit(self, caller: Caller) -> None:
        """Raise QuotaExceeded while the caller, or its tenant, has sent too much."""
        with self._lock:
            now = self._clock.monotonic()
            for whose, budgets in (("tenant", self._tenant), ("key", self._of(caller.name))):
                for what, budget in budgets.items():
                    if wait := budget.wait(now):
                        who = "the tenant" if whose == "tenant" else f"the key {caller.name!r}"
                        raise QuotaExceeded(
                            f"{who} has sent more {what} than server.quotas.{whose}.{what} allows; send again in "
                            f"{wait:.1f} s",
                            retry_after=min(wait, LONGEST),
                        )

    def charge(self, caller: Caller, spans: int, size: int, trace_ids: set[bytes]) -> None:
        """Count a request that was taken. `trace_ids` are its traces, if those count."""
        with self._lock:
            new = [trace_id for trace_id in trace_ids if self._traces.get(trace_id) is None]
            for trace_id in new:
                self._traces.put(trace_id, True)
            sent = Sent(spans, size, len(new))
            for budgets in (self._tenant, self._of(caller.name)):
                for what, budget in budgets.items():
                    budget.take(getattr(sent, what))

    def _of(self, name: str) -> Mapping[str, _Budget]:
        return self._keys.get_or_make(name, lambda: self._budgets(self._config.key))

    def _budgets(self, quota: QuotaConfig) -> dict[str, _Budget]:
        now = self._clock.monotonic()
        rates = {what: getattr(quota, what) for what in Sent._fields}
        return {what: _Budget(rate, now) for what, rate in rates.items() if rate is not None}
