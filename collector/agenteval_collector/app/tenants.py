"""The pipelines of all tenants."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from agenteval_collector.app.one_process import pipeline_in_one_process
from agenteval_collector.app.pipeline import Pipeline
from agenteval_collector.app.stages import STOPPED_WITHIN
from agenteval_collector.config.settings import Settings
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.model.callers import DEFAULT_TENANT, Caller, Scope
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.component import Poller
from agenteval_collector.runtime.errors import CollectorError, Unavailable
from agenteval_collector.runtime.memory import MemoryGuard

logger = logging.getLogger(__name__)

TENANTS_LOOKED_UP_EVERY: Final = 10.0
"""Seconds between two looks for new tenants."""


class Pipelines:
    """One pipeline for each tenant.

    Tenants in the settings have theirs from the start. Other tenants get theirs at their first call, to this process or
    to another one of the fleet.

    The caller alone decides to which tenant a call belongs (`model/callers.py`).
    """

    def __init__(self, settings: Settings, clock: Clock, tenants: Iterable[str], memory: MemoryGuard) -> None:
        """Raises what `pipeline_in_one_process` raises. There is always one for the default tenant."""
        self._settings = settings
        self._clock = clock
        self._memory = memory
        self._pipelines: dict[str, Pipeline] = {}
        self._running = False
        self._watch: TenantWatch | None = None
        # Guards the mapping and the state against calls of new tenants; looking up a known one takes no lock.
        self._lock = threading.Lock()
        try:
            for tenant in sorted({DEFAULT_TENANT, *tenants}):
                self._pipelines[tenant] = self._make(tenant)
        except BaseException:
            self.shutdown()
            raise

    def start(self) -> None:
        """Start the pipelines of all tenants."""
        with self._lock:
            self._running = True
            for pipeline in self._pipelines.values():
                pipeline.start()
        if (url := self._settings.log.url) is not None:
            # Imported here for the reason that `_make` gives.
            from agenteval_collector.fleet.cluster import TenantTopics  # noqa: PLC0415

            self._watch = TenantWatch(TenantTopics(url).tenants, self.of)
            self._watch.start()

    def of(self, tenant: str) -> Pipeline:
        """Return the pipeline of a tenant. Raises Unavailable if a new one cannot be started now."""
        return self._pipelines.get(tenant) or self._started(tenant)

    def render(self, headers: Mapping[str, str], caller: Caller) -> tuple[bytes, str]:
        """Return the page for Prometheus and its content type. It has the series of the caller's tenant; for an
        administrator of the default tenant it has those of all tenants."""
        own = self.of(caller.tenant)
        sees_all = caller.tenant == DEFAULT_TENANT and Scope.ADMIN in caller.scopes
        others = [pipeline.output for pipeline in list(self._pipelines.values()) if sees_all and pipeline is not own]
        return own.output.render(headers, others)

    @property
    def health(self) -> str | None:
        """None while one of them can do its work, else why none can. It names no tenant, as everybody may ask. A tenant
        that is held up alone is no reason to take the process from the others."""
        troubles = [pipeline.health for pipeline in list(self._pipelines.values())]
        reasons = {trouble for trouble in troubles if trouble is not None}
        return "; ".join(sorted(reasons)) if None not in troubles and reasons else None

    @property
    def lost(self) -> str | None:
        """Why data of a tenant is lost; None if none is."""
        troubles = (pipeline.base.storage.lost for pipeline in list(self._pipelines.values()))
        return next((trouble for trouble in troubles if trouble is not None), None)

    def close_feeds(self) -> None:
        """End the streams of all watchers."""
        for pipeline in list(self._pipelines.values()):
            pipeline.feed.close()

    def shutdown(self) -> None:
        """Stop all of them at once, in the time that one takes; safe twice. No new one starts afterwards."""
        if self._watch is not None:
            self._watch.shutdown(STOPPED_WITHIN)
        with self._lock:
            self._running = False
            pipelines = list(self._pipelines.values())
        if pipelines:
            with ThreadPoolExecutor(len(pipelines), "agenteval-stop") as pool:
                list(pool.map(Pipeline.shutdown, pipelines))

    def _make(self, tenant: str) -> Pipeline:
        if self._settings.log.url is None:
            return pipeline_in_one_process(self._settings, self._clock, tenant, self._memory)
        try:
            # Imported here: Kafka's client is not installed, or not loaded, if nobody asks for it.
            from agenteval_collector.fleet.composition import pipeline_in_a_fleet  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError(f"log.url: {error}; install the extras `kafka` and `postgres`") from error
        return pipeline_in_a_fleet(self._settings, self._clock, tenant, self._memory)

    def _started(self, tenant: str) -> Pipeline:
        with self._lock:
            if (known := self._pipelines.get(tenant)) is not None:
                return known
            if not self._running:
                raise Unavailable("the collector is stopping")
            try:
                pipeline = self._make_running(tenant)
            except (ConfigError, CollectorError, OSError) as error:
                logger.error("the tenant %s cannot be served: %s", tenant, error)
                raise Unavailable("the tenant's data cannot be used now; the collector's log says why") from error
            logger.info("the tenant %s is served from now on", tenant)
            self._pipelines[tenant] = pipeline
            return pipeline

    def _make_running(self, tenant: str) -> Pipeline:
        pipeline = self._make(tenant)
        try:
            pipeline.start()
        except BaseException:
            # It holds the tenant's folder, which the next attempt needs.
            pipeline.shutdown()
            raise
        return pipeline


class TenantWatch(Poller):
    """Starts the pipelines of new tenants in a process that nobody calls, such as an evaluator."""

    def __init__(self, tenants: Callable[[], Iterable[str]], take_up: Callable[[str], object]) -> None:
        """`tenants` returns the tenants that any process knows. `take_up` starts the pipeline of one, unless it
        runs."""
        super().__init__("tenants", TENANTS_LOOKED_UP_EVERY)
        self._tenants = tenants
        self._take_up = take_up

    def step(self) -> None:
        for tenant in self.insist(self._tenants):
            self.survive(self._try, tenant)

    def _try(self, tenant: str) -> None:
        try:
            self._take_up(tenant)
        except Unavailable as error:
            self._logger.warning("the tenant %s waits for the next look: %s", tenant, error)
