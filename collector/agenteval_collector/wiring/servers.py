"""The three ports: OTLP/gRPC with our own service, OTLP/HTTP, and the web port."""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent import futures
from dataclasses import dataclass

import grpc
import uvicorn
from starlette.types import ASGIApp

from agenteval_collector.api.security import Keys, LoopbackHost, is_loopback
from agenteval_collector.api.service import EvaluationService
from agenteval_collector.config import ConfigError, ServerConfig
from agenteval_collector.receiver.grpc import otlp_handlers
from agenteval_collector.receiver.http import otlp_app
from agenteval_collector.receiver.ingest import Ingest
from agenteval_collector.runtime.rpc import KeyInterceptor
from otel_agenteval.proto.v1.evaluation_pb2_grpc import add_EvaluationServiceServicer_to_server

logger = logging.getLogger(__name__)

INGEST_THREADS = 16
"""Requests that wait for the same commit at most; more would wait for Python, not for the disk."""
WATCH_THREADS = 256
"""Watchers at most, each with a thread of its own that sleeps: an agent watches for verdicts on its sessions."""


def split_address(address: str) -> tuple[str, int]:
    """`host:port` and `[v6]:port` in parts."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def refuse_open_doors(server: ServerConfig) -> None:
    """Raises ConfigError where a port would be open to the network without TLS and keys."""
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


@dataclass(frozen=True, slots=True)
class Servers:
    """All ports; they open together and close together."""

    grpc: "GrpcServer"
    http: "HttpServers"

    def start(self) -> Mapping[str, str]:
        """Open the ports; their addresses by name. Raises OSError naming the address that is taken."""
        addresses = {"grpc": self.grpc.bind()}
        addresses |= self.http.start(addresses["grpc"])
        self.grpc.start()
        return addresses

    @property
    def running(self) -> bool:
        return self.grpc.running and self.http.running

    def shutdown(self, timeout: float) -> None:
        """Take nothing more, and answer what was begun within `timeout` seconds. Safe before start and twice."""
        self.grpc.shutdown(timeout)
        self.http.shutdown(timeout)


def make_servers(
    config: ServerConfig, ingest: Ingest, service: EvaluationService, web: Callable[[str], ASGIApp]
) -> Servers:
    """The ports over what is behind them; `web` makes the web port's application from the gRPC address."""

    def otlp(_grpc_address: str) -> ASGIApp:
        app: ASGIApp = otlp_app(ingest)
        if config.keys:
            app = Keys(app, keys=[key.get_secret_value() for key in config.keys])
        # A page in a browser on this machine must not be able to feed us through a name of its own.
        return LoopbackHost(app) if is_loopback(split_address(config.http_address)[0]) else app

    return Servers(GrpcServer(config, ingest, service), HttpServers(config, {"http": otlp, "web": web}))


class GrpcServer:
    """A synchronous server: for unary calls of raw bytes it costs less than the asyncio one."""

    def __init__(self, config: ServerConfig, ingest: Ingest, service: EvaluationService) -> None:
        self._config = config
        self._pool = futures.ThreadPoolExecutor(INGEST_THREADS + WATCH_THREADS, "agenteval-grpc")
        self._server = grpc.server(
            self._pool,
            interceptors=[KeyInterceptor([key.get_secret_value() for key in config.keys])] if config.keys else None,
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
        self.running = False

    def bind(self) -> str:
        """Reserve the port; its address. Raises OSError where it is taken."""
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
        self.running = True

    def shutdown(self, timeout: float) -> None:
        self.running = False
        # Also where it never started: it may hold a port.
        self._server.stop(timeout).wait(timeout + 1)
        self._pool.shutdown(wait=False)


class HttpServers:
    """The HTTP ports by name, on one event loop in one thread."""

    def __init__(self, config: ServerConfig, apps: Mapping[str, Callable[[str], ASGIApp]]) -> None:
        self._config = config
        self._apps = apps
        self._servers: dict[str, uvicorn.Server] = {}
        self._thread: threading.Thread | None = None

    def start(self, grpc_address: str) -> dict[str, str]:
        """Bind and serve; the addresses by name. Raises OSError naming the one that is taken."""
        sockets: dict[str, socket.socket] = {}
        try:
            for name in self._apps:
                sockets[name] = self._bind(name)
        except OSError:
            for bound in sockets.values():
                bound.close()
            raise
        for name, app in self._apps.items():
            self._servers[name] = uvicorn.Server(
                uvicorn.Config(
                    app(grpc_address),
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
    def running(self) -> bool:
        serving = self._thread is not None and self._thread.is_alive()
        return serving and all(server.started and not server.should_exit for server in self._servers.values())

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
        address = self._requested(name)
        host, port = split_address(address)
        try:
            return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as error:
            raise OSError(f"server.{name}_address: {address} cannot be bound: {error.strerror}") from error

    def _requested(self, name: str) -> str:
        address: str = getattr(self._config, f"{name}_address")
        return address

    def _address(self, name: str, bound: socket.socket) -> str:
        return f"{self._requested(name).rpartition(':')[0]}:{bound.getsockname()[1]}"
