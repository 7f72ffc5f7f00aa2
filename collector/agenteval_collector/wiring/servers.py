"""The three ports: OTLP/gRPC with our own service, OTLP/HTTP, and the web port."""

import asyncio
import logging
import socket
import threading
from collections.abc import Mapping
from concurrent import futures
from contextlib import ExitStack
from dataclasses import dataclass

import grpc
import uvicorn
from starlette.types import ASGIApp

from agenteval_collector.api.ports import Reports
from agenteval_collector.api.queries import Queries
from agenteval_collector.api.security import Keys, LoopbackHost
from agenteval_collector.api.service import EvaluationService
from agenteval_collector.config import ConfigError, ServerConfig
from agenteval_collector.emit.telemetry import TelemetryOutput
from agenteval_collector.receiver.grpc import otlp_handlers
from agenteval_collector.receiver.http import otlp_app
from agenteval_collector.receiver.ingest import Ingest
from agenteval_collector.runtime.addresses import is_loopback
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.rpc import KeyInterceptor
from agenteval_collector.web.app import make_app
from agenteval_collector.wiring.ports import Healthy
from otel_agenteval.proto.v1.evaluation_pb2_grpc import add_EvaluationServiceServicer_to_server

logger = logging.getLogger(__name__)

INGEST_THREADS = 16
"""Requests that wait for the same commit at most; more would wait for Python, not for the disk."""
WATCH_THREADS = 256
"""Watchers at most, each with a thread of its own that sleeps: an agent watches for verdicts on its sessions."""


def split_address(address: str) -> tuple[str, int]:
    """Split `host:port` and `[v6]:port` in parts."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def refuse_open_doors(server: ServerConfig) -> None:
    """Raise ConfigError where a port would be open to the network without TLS and keys."""
    if bool(server.tls_certificate) != bool(server.tls_key):
        raise ConfigError("server: tls_certificate and tls_key are needed together")
    protected = bool(server.tls_certificate and server.keys)
    for name in ("grpc_address", "http_address", "web_address"):
        host, _ = split_address(getattr(server, name))
        if not is_loopback(host) and not protected and not server.insecure:
            raise ConfigError(
                f"server.{name}: {host} can be reached from other machines; give server.tls_certificate, "
                "server.tls_key and server.keys, or set server.insecure: true"
            )


class Health:
    """The health of all parts together."""

    def __init__(self, *parts: Healthy) -> None:
        self._parts = parts

    def sentence(self) -> str | None:
        """Return None while every part can do its work, else why not."""
        return "; ".join(trouble for part in self._parts if (trouble := part.health) is not None) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """All ports; they open together and close together."""

    config: ServerConfig
    grpc: "GrpcServer"
    http: "HttpServers"
    ingest: Ingest
    queries: Queries
    reports: Reports
    output: TelemetryOutput
    health: Health
    clock: Clock

    def start(self) -> Mapping[str, str]:
        """Open the ports; return their addresses by name. Raises OSError naming the address that is taken."""
        address = self.grpc.bind()
        # The page tells users where the gRPC port is.
        web = make_app(
            self.queries,
            self.reports,
            metrics=self.output.render,
            health=self.health.sentence,
            keys=_keys(self.config),
            loopback=is_loopback(split_address(self.config.web_address)[0]),
            clock=self.clock,
            grpc_endpoint=f"http://{address}",
        )
        addresses = {"grpc": address, **self.http.start({"http": _otlp_app(self.ingest, self.config), "web": web})}
        self.grpc.start()
        return addresses

    def shutdown(self, timeout: float) -> None:
        """Take nothing more, and answer what was begun within `timeout` seconds. Safe before start and twice."""
        self.grpc.shutdown(timeout)
        self.http.shutdown(timeout)


def _keys(config: ServerConfig) -> list[str]:
    return [key.get_secret_value() for key in config.keys]


def _otlp_app(ingest: Ingest, config: ServerConfig) -> ASGIApp:
    """Make the application of OTLP/HTTP: for callers with a key, if there are any, not for pages of other sites."""
    app: ASGIApp = otlp_app(ingest)
    if config.keys:
        app = Keys(app, keys=_keys(config))
    # A page in a browser on this machine must not be able to feed us through a name of its own.
    return LoopbackHost(app) if is_loopback(split_address(config.http_address)[0]) else app


class GrpcServer:
    """A synchronous server: for unary calls of raw bytes it costs less than the asyncio one."""

    def __init__(self, config: ServerConfig, ingest: Ingest, service: EvaluationService) -> None:
        self._config = config
        self._pool = futures.ThreadPoolExecutor(INGEST_THREADS + WATCH_THREADS, "agenteval-grpc")
        self._server = grpc.server(
            self._pool,
            interceptors=[KeyInterceptor(_keys(config))] if config.keys else None,
            options=[
                # Ours is the smaller limit and has the clearer message; this one guards the memory.
                ("grpc.max_receive_message_length", config.max_request_bytes + 1024 * 1024),
                ("grpc.max_send_message_length", -1),
                # Two collectors on one port would share its connections at random.
                ("grpc.so_reuseport", 0),
            ],
            maximum_concurrent_rpcs=INGEST_THREADS * 8 + WATCH_THREADS,
        )
        self._server.add_generic_rpc_handlers(otlp_handlers(ingest))
        add_EvaluationServiceServicer_to_server(service, self._server)  # type: ignore[no-untyped-call]
        self._running = False

    def bind(self) -> str:
        """Reserve the port, and return its address. Raises OSError where it is taken."""
        address = self._config.grpc_address
        try:
            if self._config.tls_certificate and self._config.tls_key:
                pair = (self._config.tls_key.read_bytes(), self._config.tls_certificate.read_bytes())
                port = self._server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
            else:
                port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"server.grpc_address: {address} is taken or cannot be bound") from error
        return f"{address.rpartition(':')[0]}:{port}"

    def start(self) -> None:
        self._server.start()
        self._running = True

    @property
    def health(self) -> str | None:
        """None while the port accepts."""
        return None if self._running else "the gRPC port is not open"

    def shutdown(self, timeout: float) -> None:
        self._running = False
        # Also where it never started: it may hold a port.
        self._server.stop(timeout).wait(timeout + 1)
        self._pool.shutdown(wait=False)


class HttpServers:
    """The HTTP ports by name, on one event loop in one thread."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._servers: dict[str, uvicorn.Server] = {}
        self._thread: threading.Thread | None = None

    def start(self, apps: Mapping[str, ASGIApp]) -> dict[str, str]:
        """Bind and serve; return the addresses by name. Raises OSError naming the one that is taken."""
        with ExitStack() as opened:
            sockets = {name: opened.enter_context(self._bind(name)) for name in apps}
            opened.pop_all()
        for name, app in apps.items():
            self._servers[name] = uvicorn.Server(
                uvicorn.Config(
                    app,
                    log_level="warning",
                    access_log=False,
                    lifespan="auto",
                    server_header=False,
                    timeout_graceful_shutdown=2,
                    ssl_certfile=self._config.tls_certificate,
                    ssl_keyfile=self._config.tls_key,
                )
            )
        self._thread = threading.Thread(target=self._run, args=(sockets,), name="agenteval-http", daemon=True)
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

    def _run(self, sockets: Mapping[str, socket.socket]) -> None:
        async def serve() -> None:
            await asyncio.gather(*(self._servers[name].serve([bound]) for name, bound in sockets.items()))

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
