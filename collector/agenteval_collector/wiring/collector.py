"""The composition root: doors, and behind them one pipeline for each tenant.

door (who calls?) -> routing (whose is it?) -> the tenant's pipeline (`wiring/pipeline.py`)
"""

import logging
from collections.abc import Mapping

from agenteval_collector.api.service import SCOPES as SERVICE_SCOPES
from agenteval_collector.config import Settings
from agenteval_collector.doors.audit import Audit
from agenteval_collector.doors.grpc_connections import GrpcConnections
from agenteval_collector.doors.keys import KeyRing
from agenteval_collector.doors.messages import Messages
from agenteval_collector.doors.rpc import Door
from agenteval_collector.doors.tls import Certificates
from agenteval_collector.model.callers import DEFAULT_TENANT
from agenteval_collector.receiver.grpc import SCOPES as OTLP_SCOPES
from agenteval_collector.runtime.clock import Clock, SystemClock
from agenteval_collector.runtime.machine import memory_limit
from agenteval_collector.runtime.memory import MIB, MemoryGuard
from agenteval_collector.wiring.servers import (
    CALLS,
    GrpcServer,
    Health,
    HttpServers,
    Servers,
    grpc_connections,
    messages_at_once,
    refuse_open_doors,
    under_way_bytes,
)
from agenteval_collector.wiring.tenants import Pipelines

logger = logging.getLogger(__name__)


ROOM = 192 * 1024 * 1024
"""Bytes that the collector takes with some work to do, beside what it takes at its start."""
LARGEST_SHARE = 64
"""Of the process's memory, a request takes at most one part in so many: read, checked and assembled it takes many times
its bytes."""


class Collector:
    """Everything, wired; nothing runs before `start`, and `shutdown` stops it source first."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        """Raises ConfigError where the settings are not safe, PermanentError where the data is not ours, and OSError
        where the data folder cannot be used."""
        config, clock = settings.server, clock or SystemClock()
        refuse_open_doors(config)
        self._ring = KeyRing(config.keys, config.keys_file, clock)
        self._memory = MemoryGuard(config.memory_limit or memory_limit(), clock)
        settings = _within(settings, self._memory)
        self.pipelines = Pipelines(settings, clock, self._ring.tenants, self._memory)
        self.pipeline = self.pipelines.of(DEFAULT_TENANT)
        """That of callers without a tenant of their own."""
        try:
            self._build_doors(settings, clock)
        except BaseException:
            self.pipelines.shutdown()
            raise

    def _build_doors(self, settings: Settings, clock: Clock) -> None:
        """Make the ports, and the health of everything behind them."""
        # It is the process's, and shown once.
        self.pipeline.output.collector.observe_memory(self._memory)
        config, audit = settings.server, Audit(clock)
        door = Door(
            self._ring,
            {**OTLP_SCOPES, **SERVICE_SCOPES},
            audit,
            places=CALLS,
            messages=Messages(messages_at_once(config, self._memory.limit), under_way_bytes(config), clock),
            health=lambda: self._health.sentence(),  # noqa: PLW0108 - the ports are part of it
        )
        certificates = Certificates(config, clock) if config.tls_certificate else None
        connections = GrpcConnections(
            grpc_connections(), None if self._ring.is_open else door.peers, lambda: self._memory.is_short
        )
        grpc = GrpcServer(config, certificates, door, connections, self.pipelines)
        http = HttpServers(config, certificates)
        self._health = Health(self.pipelines, self._memory, grpc, http)
        self._servers = Servers(
            config=config,
            ring=self._ring,
            audit=audit,
            grpc=grpc,
            http=http,
            pipelines=self.pipelines,
            health=self._health,
            clock=clock,
        )

    def start(self) -> Mapping[str, str]:
        """Take up what the last process left, then open the ports; return their addresses by name (grpc, http, web)."""
        self.pipelines.start()
        addresses = self._servers.start()
        logger.info("listening: %s", ", ".join(f"{name} on {address}" for name, address in addresses.items()))
        return addresses

    @property
    def ready(self) -> bool:
        """True while every port accepts and every stage can do its work."""
        return self._health.sentence() is None

    def shutdown(self) -> None:
        """Answer what was begun, commit and score what is complete, push what waits; safe twice, within 20 s."""
        self.pipelines.close_feeds()
        self._servers.shutdown(2.0)
        self.pipelines.shutdown()


def _within(settings: Settings, guard: MemoryGuard) -> Settings:
    """Return settings whose largest request the process has the memory for; says where that is short."""
    memory = guard.limit
    server, fits = settings.server, memory // LARGEST_SHARE
    if guard.used + ROOM > memory:
        logger.warning(
            "server.memory_limit is %.0f MiB, and the collector takes %.0f before the first span: give it %.0f or more",
            memory / MIB,
            guard.used / MIB,
            (guard.used + ROOM) / MIB,
        )
    if server.max_request_bytes <= fits:
        return settings
    logger.warning(
        "requests of more than %.1f MiB are refused, not of server.max_request_bytes: server.memory_limit is %.0f MiB",
        fits / MIB,
        memory / MIB,
    )
    return settings.model_copy(update={"server": server.model_copy(update={"max_request_bytes": fits})})
