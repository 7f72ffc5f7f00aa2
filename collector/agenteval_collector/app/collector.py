"""The composition root: doors, and behind them one pipeline for each tenant.

door (who calls?) -> `TenantApps`, `TenantServices` (whose is it?) -> the tenant's pipeline (`app/pipeline.py`)
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent import futures
from contextlib import ExitStack
from ipaddress import ip_network
from typing import Any, Final

import grpc
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from agenteval_collector.app.pipeline import Pipeline, Pipelines
from agenteval_collector.app.scoring import make_workers, memory_of
from agenteval_collector.config.settings import ServerConfig, Settings
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.ingest.grpc import SCOPES as OTLP_SCOPES
from agenteval_collector.ingest.grpc import otlp_handlers
from agenteval_collector.ingest.http import Bodies, otlp_app
from agenteval_collector.ingest.shares import Shares
from agenteval_collector.model.callers import DEFAULT_TENANT, Caller
from agenteval_collector.runtime.addresses import is_loopback, split_address
from agenteval_collector.runtime.clock import Clock, SystemClock
from agenteval_collector.runtime.component import health_of
from agenteval_collector.runtime.errors import CollectorError, Unavailable
from agenteval_collector.runtime.grpc_status import abort
from agenteval_collector.runtime.machine import open_files, resident_bytes
from agenteval_collector.runtime.memory import MIB, MemoryGuard
from agenteval_collector.serve.api.gate import Gate
from agenteval_collector.serve.api.responses import error_response
from agenteval_collector.serve.api.security import AccessControl, LoopbackHost, scope_of_telemetry
from agenteval_collector.serve.api.service import SCOPES as SERVICE_SCOPES
from agenteval_collector.serve.api.service import EvaluationService
from agenteval_collector.serve.api.threads import WebThreads
from agenteval_collector.serve.doors.audit import Audit
from agenteval_collector.serve.doors.grpc_connections import GrpcConnections
from agenteval_collector.serve.doors.grpc_door import Door, caller_of
from agenteval_collector.serve.doors.grpc_messages import GrpcMessages
from agenteval_collector.serve.doors.http_port import HttpPort
from agenteval_collector.serve.doors.keys import KeyRing
from agenteval_collector.serve.doors.tls import Certificates
from agenteval_collector.serve.web.app import make_app, tenant_app
from otel_agenteval.proto.v1.evaluation_pb2_grpc import add_EvaluationServiceServicer_to_server

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

    def __init__(self, settings: Settings, clock: Clock | None = None, *, workers: int | None = None) -> None:
        """Build everything. Without a number of `workers` it is that of the settings, else 1.

        Raises ConfigError if the settings are not safe, PermanentError if the data is not ours, and OSError if the data
        folder cannot be used.
        """
        refuse_open_doors(settings.server)
        self._clock = clock or SystemClock()
        self._ring = KeyRing(settings.server.keys, settings.server.keys_file, self._clock)
        pool = make_workers(settings, workers or settings.server.workers or 1)
        resident = resident_bytes if pool is None else lambda: resident_bytes() + pool.resident
        self._memory = MemoryGuard(memory_of(settings), self._clock, resident=resident)
        settings = _within(settings, self._memory)
        self._config = settings.server
        self._data_dir = settings.data_dir
        self._audit = Audit(self._clock)
        self.pipelines = Pipelines(settings, self._clock, self._ring.tenants, self._memory, pool)
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
        self.pipeline.output.own_work.observe_workers(self.pipelines.workers)
        self.pipeline.output.own_work.observe_disk(self._data_dir)
        certificates = Certificates(config, self._clock) if config.tls_certificate else None
        door = Door(
            self._ring,
            {**OTLP_SCOPES, **SERVICE_SCOPES},
            self._audit,
            slots=Shares(CALLS),
            messages=GrpcMessages(messages_at_once(config, memory.limit), under_way_bytes(config), self._clock),
            health=self._health,
        )
        connections = GrpcConnections(grpc_connections(), memory, peers=None if self._ring.is_open else door.peers)
        self._grpc = GrpcServer(config, certificates, door, connections, self.pipelines)
        self._http = HttpServers(config, certificates)

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
        bodies = Bodies(under_way_bytes(self._config), self._clock)
        tenants = TenantApps(self.pipelines, lambda pipeline: otlp_app(pipeline.ingest, bodies))
        slots = Shares(http_connections())
        app = AccessControl(tenants, ring=self._ring, audit=self._audit, slots=slots, needs=scope_of_telemetry)
        # A page in a browser on this machine must not be able to feed us through a name of its own.
        return LoopbackHost(app) if is_loopback(split_address(self._config.http_address)[0]) else app

    def _web_app(self, grpc_endpoint: str) -> ASGIApp:
        """Make the application of the web port. Its page tells users where the gRPC port is."""
        threads = WebThreads(self._memory, trace_bytes=self._config.max_trace_bytes)

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
            slots=Shares(http_connections()),
            loopback=is_loopback(split_address(self._config.web_address)[0]),
            user_header=self._config.user_header,
            user_proxies=[ip_network(network) for network in self._config.user_proxies],
        )


_LOWERED: Final = {"max_request_bytes": "refusing requests", "max_trace_bytes": "cutting traces"}
"""Settings that are lowered where there is little memory, and what follows from each."""


def _within(settings: Settings, guard: MemoryGuard) -> Settings:
    """Lower the largest request and trace to what the memory allows; log a warning if memory is short."""
    memory = guard.limit
    server, fits = settings.server, memory // LARGEST_SHARE
    if guard.used + ROOM > memory:
        logger.warning(
            "server.memory_limit is %.0f MiB, and the collector takes %.0f before the first span: give it %.0f or more",
            memory / MIB,
            guard.used / MIB,
            (guard.used + ROOM) / MIB,
        )
    lowered = {name: fits for name in _LOWERED if getattr(server, name) > fits}
    for name in lowered:
        said = (_LOWERED[name], fits / MIB, name, memory / MIB)
        logger.warning("%s of more than %.1f MiB, not of server.%s: server.memory_limit is %.0f MiB", *said)
    return settings.model_copy(update={"server": server.model_copy(update=lowered)}) if lowered else settings


WATCHERS = 384
"""The most watchers of all tenants together. Each has a thread of its own that sleeps: an agent watches for verdicts
on its sessions. One caller may have three quarters of them."""
CALLS = WATCHERS + 128
"""The most gRPC calls under way, each with a thread; one caller may have as many."""
_MINUTE = 60_000
_CONNECTIONS = (
    ("grpc.max_concurrent_streams", CALLS),
    # With the probe, gRPC reads tens of megabytes of a connection before anybody asks for its message.
    ("grpc.http2.bdp_probe", 0),
    # Close connections that never spoke, that fell silent, and those whose peer is gone.
    ("grpc.server_handshake_timeout_ms", 5_000),
    ("grpc.max_connection_idle_ms", 10 * _MINUTE),
    ("grpc.keepalive_time_ms", _MINUTE),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Make clients connect again: a withdrawn key or certificate ends its long streams, too.
    ("grpc.max_connection_age_ms", 60 * _MINUTE),
    ("grpc.max_connection_age_grace_ms", _MINUTE),
)


def refuse_open_doors(server: ServerConfig) -> None:
    """Raise ConfigError if a TCP port would be open to the network without TLS and keys."""
    if bool(server.tls_certificate) != bool(server.tls_key):
        raise ConfigError("server: tls_certificate and tls_key are needed together")
    if server.tls_client_ca and not server.tls_certificate:
        raise ConfigError("server: tls_client_ca needs tls_certificate and tls_key")
    if any(key.certificate for key in server.keys) and not server.tls_client_ca:
        raise ConfigError("server.keys: an entry with a certificate needs server.tls_client_ca")
    if server.user_header and not (server.keys or server.keys_file):
        raise ConfigError(
            "server.user_header: there are no keys (server.keys); the proxy must send one, or anybody could be anybody"
        )
    protected = bool(server.tls_certificate and (server.keys or server.keys_file))
    for name in ("grpc_address", "http_address", "web_address"):
        host, _ = split_address(getattr(server, name))
        if not is_loopback(host) and not protected and not server.insecure:
            raise ConfigError(
                f"server.{name}: {host} can be reached from other machines; give server.tls_certificate, "
                "server.tls_key and server.keys, or set server.insecure: true"
            )


def under_way_bytes(server: ServerConfig) -> int:
    """Return the most bytes that all OTLP requests under way over HTTP may take together; the same over gRPC."""
    return 2 * server.max_request_bytes


def messages_at_once(server: ServerConfig, memory_limit: int) -> int:
    """Return how many gRPC messages may be read at once: as many of the largest as an eighth of the memory holds."""
    return min(16, max(3, memory_limit // 8 // _largest_message(server)))


def _largest_message(server: ServerConfig) -> int:
    # The receiver's own limit is smaller and has the clearer message; gRPC's guards the memory.
    return server.max_request_bytes + 1024 * 1024


# Of the descriptors, gRPC takes half and each of the two HTTP ports an eighth. A quarter is left for everything else.
def grpc_connections() -> int:
    """Return how many connections the gRPC port has at most."""
    return min(4096, open_files() // 2)


def http_connections() -> int:
    """Return how many connections an HTTP port has at most."""
    return min(512, open_files() // 8)


class GrpcServer:
    """A synchronous server: for unary calls of raw bytes it costs less than the asyncio one."""

    def __init__(
        self,
        config: ServerConfig,
        certificates: Certificates | None,
        door: Door,
        connections: GrpcConnections,
        pipelines: Pipelines,
    ) -> None:
        self._config = config
        self._certificates = certificates
        self._pool = futures.ThreadPoolExecutor(CALLS, "agenteval-grpc")
        self._server = grpc.server(
            self._pool,
            interceptors=[door],
            options=[
                ("grpc.max_receive_message_length", _largest_message(config)),
                ("grpc.max_send_message_length", -1),
                # Two collectors on one port would share its connections at random.
                ("grpc.so_reuseport", 0),
                ("grpc.max_allowed_incoming_connections", grpc_connections()),
                *_CONNECTIONS,
            ],
        )
        self._server.add_generic_rpc_handlers(
            otlp_handlers(lambda context: pipeline_of(pipelines, context).ingest, caller_of)
        )
        services = TenantServices(pipelines, Shares(WATCHERS))
        add_EvaluationServiceServicer_to_server(services, self._server)  # type: ignore[no-untyped-call]
        self._connections = connections
        self._running = False

    def bind(self) -> str:
        """Reserve the port, and return its address. Raises OSError if it is taken."""
        address = self._config.grpc_address
        try:
            if self._certificates is not None:
                port = self._server.add_secure_port(address, self._certificates.grpc_credentials())
            else:
                port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"server.grpc_address: {address} is taken or cannot be bound") from error
        self._port = port
        return f"{address.rpartition(':')[0]}:{port}"

    def start(self) -> None:
        self._server.start()
        self._connections.watch(self._port)
        self._running = True

    @property
    def health(self) -> str | None:
        """None while the port accepts."""
        return None if self._running else "the gRPC port is not open"

    def shutdown(self, timeout: float) -> None:
        self._running = False
        self._connections.shutdown()
        # Stop it even if it never started: it may hold a port.
        self._server.stop(timeout).wait(timeout + 1)
        self._pool.shutdown(wait=False)


class HttpServers:
    """The HTTP ports by name, on one event loop in one thread."""

    def __init__(self, config: ServerConfig, certificates: Certificates | None) -> None:
        self._config = config
        self._certificates = certificates
        self._servers: dict[str, HttpPort] = {}
        self._thread: threading.Thread | None = None

    def start(self, apps: Mapping[str, ASGIApp]) -> dict[str, str]:
        """Bind and serve; return the addresses by name. Raises OSError that names the address that is taken."""
        with ExitStack() as opened:
            sockets = {name: opened.enter_context(self._bind(name)) for name in apps}
            opened.pop_all()
        for name, app in apps.items():
            # The web port asks for a key, not for a certificate: people and probes have none.
            tls = self._certificates.contexts(required=name == "http") if self._certificates else None
            self._servers[name] = HttpPort(app, sockets[name], limit=http_connections(), tls=tls)
        self._thread = threading.Thread(target=self._run, name="agenteval-http", daemon=True)
        self._thread.start()
        return {name: self._address(name, bound) for name, bound in sockets.items()}

    @property
    def health(self) -> str | None:
        """None while all of them accept."""
        serving = self._thread is not None and self._thread.is_alive()
        if serving and all(server.started and not server.should_exit for server in self._servers.values()):
            return None
        return "the HTTP ports are not open"

    def shutdown(self, timeout: float) -> None:
        for server in self._servers.values():
            server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout + 1)

    def _run(self) -> None:
        async def serve() -> None:
            await asyncio.gather(*(server.serve() for server in self._servers.values()))

        asyncio.run(serve())

    def _bind(self, name: str) -> socket.socket:
        address: str = getattr(self._config, f"{name}_address")
        host, port = split_address(address)
        try:
            return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as error:
            raise OSError(f"server.{name}_address: {address} cannot be bound: {error.strerror}") from error

    def _address(self, name: str, bound: socket.socket) -> str:
        requested: str = getattr(self._config, f"{name}_address")
        return f"{requested.rpartition(':')[0]}:{bound.getsockname()[1]}"


class TenantApps:
    """An ASGI application that hands each request to the application of the caller's tenant. `make` makes a tenant's
    application at its first request."""

    def __init__(self, pipelines: Pipelines, make: Callable[[Pipeline], ASGIApp]) -> None:
        self._pipelines = pipelines
        self._make = make
        self._apps: dict[str, ASGIApp] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller: Caller = scope["state"]["caller"]
        app = self._apps.get(caller.tenant)
        if app is None:
            try:
                # Opening a new tenant's files takes too long for the event loop.
                pipeline = await run_in_threadpool(self._pipelines.of, caller.tenant)
            except Unavailable as error:
                await error_response(503, "unavailable", str(error))(scope, receive, send)
                return
            app = self._apps.setdefault(caller.tenant, self._make(pipeline))
        await app(scope, receive, send)


class TenantServices:
    """A gRPC servicer whose methods call the service of the caller's tenant.

    All tenants share the slots in `watchers`, because the threads are the server's.
    """

    def __init__(self, pipelines: Pipelines, watchers: Shares) -> None:
        self._pipelines = pipelines
        self._watchers = watchers

    def __getattr__(self, method: str) -> Callable[[Any, grpc.ServicerContext], Any]:
        def answered(request: Any, context: grpc.ServicerContext) -> Any:
            own = pipeline_of(self._pipelines, context)
            service = EvaluationService(own.queries, Gate(own.reports, caller_of(context)), own.feed, self._watchers)
            return getattr(service, method)(request, context)

        return answered


def pipeline_of(pipelines: Pipelines, context: grpc.ServicerContext) -> Pipeline:
    """Return the pipeline of the caller's tenant; abort the call if there is none."""
    try:
        return pipelines.of(caller_of(context).tenant)
    except CollectorError as error:
        abort(context, error)
