"""TLS of all ports: version 1.2 or later, with client certificates if there is an authority for them.

Files are read again when they change. Each new connection uses what they hold then.
"""

import ssl
from collections.abc import Callable
from typing import Any, Final

import grpc

from agenteval_collector.config.settings import ServerConfig
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.serve.doors.watched_files import Watched

_ALPN: Final = ["http/1.1"]


class Certificates:
    """The collector's certificate and key, and the authority of its clients' certificates."""

    def __init__(self, server: ServerConfig, clock: Clock) -> None:
        """Raises ConfigError if a file cannot be used."""
        assert server.tls_certificate is not None
        assert server.tls_key is not None
        self._certificate = server.tls_certificate
        self._key = server.tls_key
        self._authority = server.tls_client_ca
        self._clock = clock
        self._files = [path for path in (self._certificate, self._key, self._authority) if path is not None]
        self._context(ssl.CERT_NONE)

    def contexts(self, *, required: bool) -> Callable[[], ssl.SSLContext]:
        """Return a function that gives the context for a new connection. `required`: clients need a certificate."""
        mode = ssl.CERT_NONE
        if self._authority is not None:
            mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        return Watched(self._files, lambda: self._context(mode), self._clock).get

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """Return the credentials of a gRPC server. Clients need a certificate if there is an authority."""
        configurations = Watched(self._files, self._configuration, self._clock)
        given = configurations.get()

        def changed() -> Any:
            nonlocal given
            before, given = given, configurations.get()
            return given if given is not before else None

        return grpc.dynamic_ssl_server_credentials(
            given, changed, require_client_authentication=self._authority is not None
        )

    def _context(self, mode: ssl.VerifyMode) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = mode
        context.set_alpn_protocols(_ALPN)
        try:
            context.load_cert_chain(self._certificate, self._key)
            if self._authority is not None:
                context.load_verify_locations(self._authority)
        except OSError as error:
            named = ", ".join(map(str, self._files))
            raise ConfigError(f"server.tls_*: {named} cannot be used: {error.strerror or error}") from error
        return context

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        # Raises what OpenSSL has against the files. gRPC would only fail at the next handshake.
        self._context(ssl.CERT_NONE)
        pair = (self._key.read_bytes(), self._certificate.read_bytes())
        authority = self._authority.read_bytes() if self._authority is not None else None
        return grpc.ssl_server_certificate_configuration([pair], authority)
