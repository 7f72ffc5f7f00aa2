"""The servers of the three TCP ports, gRPC and HTTP, and their bounds."""

import asyncio
import socket
import threading
from collections.abc import Mapping
from concurrent import futures
from contextlib import ExitStack

import grpc
from starlette.types import ASGIApp

from agenteval_collector.app.routing import TenantServices, pipeline_of
from agenteval_collector.app.tenants import Pipelines
from agenteval_collector.config.settings import ServerConfig
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.ingest.grpc import otlp_handlers
from agenteval_collector.ingest.shares import Shares
from agenteval_collector.runtime.addresses import is_loopback
from agenteval_collector.runtime.machine import open_files
from agenteval_collector.serve.doors.grpc_connections import GrpcConnections
from agenteval_collector.serve.doors.grpc_door import Door
from agenteval_collector.serve.doors.http_port import HttpPort
from agenteval_collector.serve.doors.tls import Certificates
from otel_agenteval.proto.v1.evaluation_pb2_grpc import add_EvaluationServiceServicer_to_server

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


def split_address(address: str) -> tuple[str, int]:
    """Split `host:port` and `[v6]:port` in parts."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def refuse_open_doors(server: ServerConfig) -> None:
    """Raise ConfigError if a TCP port would be open to the network without TLS and keys."""
    if bool(server.tls_certificate) != bool(server.tls_key):
        raise ConfigError("server: tls_certificate and tls_key are needed together")
    if server.tls_client_ca and not server.tls_certificate:
        raise ConfigError("server: tls_client_ca needs tls_certificate and tls_key")
    if any(key.certificate for key in server.keys) and not server.tls_client_ca:
        raise ConfigError("server.keys: an entry with a certificate needs server.tls_client_ca")
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
        self._server.add_generic_rpc_handlers(otlp_handlers(lambda context: pipeline_of(pipelines, context).ingest))
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
