"""The composition root: doors, and behind them one pipeline for each tenant.

door (who calls?) -> routing (whose is it?) -> the tenant's pipeline (`app/one_process.py`)
"""

import logging
from collections.abc import Mapping

from starlette.types import ASGIApp

from agenteval_collector.app import servers
from agenteval_collector.app.pipeline import Pipeline
from agenteval_collector.app.routing import TenantApps
from agenteval_collector.app.scoring import memory_of
from agenteval_collector.app.tenants import Pipelines
from agenteval_collector.config.settings import Settings
from agenteval_collector.ingest.grpc import SCOPES as OTLP_SCOPES
from agenteval_collector.ingest.http import Bodies, otlp_app
from agenteval_collector.ingest.shares import Shares
from agenteval_collector.model.callers import DEFAULT_TENANT
from agenteval_collector.runtime.addresses import is_loopback
from agenteval_collector.runtime.clock import Clock, SystemClock
from agenteval_collector.runtime.component import health_of
from agenteval_collector.runtime.memory import MIB, MemoryGuard
from agenteval_collector.serve.api.security import AccessControl, LoopbackHost, scope_of_telemetry
from agenteval_collector.serve.api.service import SCOPES as SERVICE_SCOPES
from agenteval_collector.serve.api.threads import WebThreads
from agenteval_collector.serve.doors.audit import Audit
from agenteval_collector.serve.doors.grpc_connections import GrpcConnections
from agenteval_collector.serve.doors.grpc_door import Door
from agenteval_collector.serve.doors.grpc_messages import GrpcMessages
from agenteval_collector.serve.doors.keys import KeyRing
from agenteval_collector.serve.doors.tls import Certificates
from agenteval_collector.serve.web.app import make_app, tenant_app

logger = logging.getLogger(__name__)

ANSWERED_WITHIN = 2.0
"""Seconds that calls under way have to end when the collector stops."""
ROOM = 192 * 1024 * 1024
"""Bytes that the collector needs for a little work, beside those it takes at its start."""
LARGEST_SHARE = 64
"""A request may be at most 1/64 of the process's memory, because it takes many times its bytes while it is read,
checked and assembled."""


class Collector:
    """The TCP ports and the pipelines behind them. Nothing runs before `start`; `shutdown` closes the ports first."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        """Build everything. Raises ConfigError if the settings are not safe, PermanentError if the data is not
        ours, and OSError if the data folder cannot be used."""
        servers.refuse_open_doors(settings.server)
        self._clock = clock or SystemClock()
        self._ring = KeyRing(settings.server.keys, settings.server.keys_file, self._clock)
        self._memory = MemoryGuard(memory_of(settings), self._clock)
        settings = _within(settings, self._memory)
        self._config = settings.server
        self._data_dir = settings.data_dir
        self._audit = Audit(self._clock)
        self.pipelines = Pipelines(settings, self._clock, self._ring.tenants, self._memory)
        self.pipeline = self.pipelines.of(DEFAULT_TENANT)
        """The pipeline of callers without a tenant of their own."""
        try:
            self._build_servers()
        except BaseException:
            self.pipelines.shutdown()
            raise

    def _build_servers(self) -> None:
        """Make the servers of the TCP ports. The door of gRPC is made here, those of HTTP with their applications."""
        config, memory = self._config, self._memory
        # Memory and disk belong to the process, so the gauges of one tenant show them.
        self.pipeline.output.own_work.observe_memory(memory)
        self.pipeline.output.own_work.observe_disk(self._data_dir)
        certificates = Certificates(config, self._clock) if config.tls_certificate else None
        door = Door(
            self._ring,
            {**OTLP_SCOPES, **SERVICE_SCOPES},
            self._audit,
            slots=Shares(servers.CALLS),
            messages=GrpcMessages(
                servers.messages_at_once(config, memory.limit), servers.under_way_bytes(config), self._clock
            ),
            health=self._health,
        )
        connections = GrpcConnections(
            servers.grpc_connections(), memory, peers=None if self._ring.is_open else door.peers
        )
        self._grpc = servers.GrpcServer(config, certificates, door, connections, self.pipelines)
        self._http = servers.HttpServers(config, certificates)

    def start(self) -> Mapping[str, str]:
        """Take up what the last process left, then open the TCP ports; return their addresses by name (grpc, http,
        web). Raises OSError naming the address that is taken."""
        self.pipelines.start()
        grpc = self._grpc.bind()
        scheme = "https" if self._config.tls_certificate else "http"
        addresses = {
            "grpc": grpc,
            **self._http.start({"http": self._otlp_app(), "web": self._web_app(f"{scheme}://{grpc}")}),
        }
        self._grpc.start()
        logger.info("listening: %s", ", ".join(f"{name} on {address}" for name, address in addresses.items()))
        return addresses

    @property
    def ready(self) -> bool:
        """True while every TCP port accepts and every stage can do its work."""
        return self._health() is None

    def shutdown(self) -> None:
        """Answer calls under way, commit and score what is complete, push what waits. Safe twice, within 25 s."""
        logger.info("stopping")
        self.pipelines.close_feeds()
        self._grpc.shutdown(ANSWERED_WITHIN)
        self._http.shutdown(ANSWERED_WITHIN)
        self.pipelines.shutdown()
        logger.info("stopped")

    def _health(self) -> str | None:
        """Return None while every part can do its work, else the reason why one cannot. From any thread."""
        return health_of((self.pipelines, self._memory, self._grpc, self._http))

    def _otlp_app(self) -> ASGIApp:
        """Make the application of OTLP/HTTP: for callers with a key, not for pages of other sites."""
        bodies = Bodies(servers.under_way_bytes(self._config), self._clock)
        tenants = TenantApps(self.pipelines, lambda pipeline: otlp_app(pipeline.ingest, bodies))
        slots = Shares(servers.http_connections())
        app = AccessControl(tenants, ring=self._ring, audit=self._audit, slots=slots, needs=scope_of_telemetry)
        # A page in a browser on this machine must not be able to feed us through a name of its own.
        return LoopbackHost(app) if is_loopback(servers.split_address(self._config.http_address)[0]) else app

    def _web_app(self, grpc_endpoint: str) -> ASGIApp:
        """Make the application of the web port. Its page tells users where the gRPC port is."""
        threads = WebThreads()

        def of_tenant(pipeline: Pipeline) -> ASGIApp:
            return tenant_app(
                pipeline.queries,
                pipeline.reports,
                metrics=self.pipelines.render,
                threads=threads,
                keyed=not self._ring.is_open,
                clock=self._clock,
                grpc_endpoint=grpc_endpoint,
            )

        return make_app(
            TenantApps(self.pipelines, of_tenant),
            health=self._health,
            threads=threads,
            ring=self._ring,
            audit=self._audit,
            slots=Shares(servers.http_connections()),
            loopback=is_loopback(servers.split_address(self._config.web_address)[0]),
        )


def _within(settings: Settings, guard: MemoryGuard) -> Settings:
    """Lower the largest request to what the memory allows; log a warning if memory is short."""
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
