"""TLS of all ports: versions, client certificates, and files that change while the collector runs."""

import shutil
import socket
import ssl
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from agenteval_collector.app.collector import Collector
from agenteval_collector.config.sources import ConfigError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from tests.support.certificates import Certificate, self_signed, signed
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.otlp import span, traces
from tests.support.running_collector import RunningCollector, settings

PORTS = ("grpc", "http", "web")


@pytest.fixture
def own(tmp_path: Path) -> Certificate:
    return self_signed(tmp_path)


def tls(own: Certificate, **more: Any) -> dict[str, Any]:
    return {"tls_certificate": str(own.certificate), "tls_key": str(own.key), "keys": ["secret"], **more}


def presented(address: str) -> str:
    """The certificate that a port shows, as PEM."""
    host, _, port = address.rpartition(":")
    return ssl.get_server_certificate((host, int(port)), timeout=10)


def handshake(address: str, context: ssl.SSLContext) -> str | None:
    """The version that is agreed on."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as plain, context.wrap_socket(plain) as protected:
        return protected.version()


def test_no_port_speaks_an_old_tls(tmp_path: Path, own: Certificate) -> None:
    def client(version: ssl.TLSVersion) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        context.set_alpn_protocols(["h2", "http/1.1"])
        context.minimum_version = context.maximum_version = version
        return context

    with RunningCollector(tmp_path / "data", server=tls(own)) as collector:
        for port in PORTS:
            address = collector.addresses[port]
            assert handshake(address, client(ssl.TLSVersion.TLSv1_2)) == "TLSv1.2"
            with pytest.warns(DeprecationWarning, match="TLSv1_1"):
                old = client(ssl.TLSVersion.TLSv1_1)
            with pytest.raises(ssl.SSLError):
                handshake(address, old)


def test_a_certificate_that_changes_is_shown_without_a_restart(tmp_path: Path, own: Certificate) -> None:
    (tmp_path / "new").mkdir()
    newer, clock = self_signed(tmp_path / "new"), ManualClock()
    with RunningCollector(tmp_path / "data", clock, server=tls(own)) as collector:
        before = own.certificate.read_text()
        assert {presented(collector.addresses[port]).strip() for port in PORTS} == {before.strip()}
        shutil.copy(newer.certificate, own.certificate)
        clock.advance(2)
        # A certificate without its key is no pair: the one before stays.
        assert {presented(collector.addresses[port]).strip() for port in PORTS} == {before.strip()}
        shutil.copy(newer.key, own.key)
        clock.advance(2)
        eventually(
            lambda: (
                {presented(collector.addresses[port]).strip() for port in PORTS}
                == {newer.certificate.read_text().strip()}
            )
        )


def test_a_client_certificate_stands_for_a_caller(tmp_path: Path, own: Certificate) -> None:
    (tmp_path / "clients").mkdir()
    authority = self_signed(tmp_path / "clients", "authority")
    shop, other = (signed(tmp_path / "clients", authority, name) for name in ("shop", "other"))
    keys = [
        {"name": "the-shop", "certificate": "shop", "scopes": ["write"]},
        {"name": "reader", "key": "reading", "scopes": ["read"]},
    ]
    server = tls(own, tls_client_ca=str(authority.certificate), keys=keys)
    trusted = own.certificate.read_bytes()

    with RunningCollector(tmp_path / "data", server=server) as collector:

        def exported(pair: Certificate | None, *metadata: tuple[str, str]) -> grpc.StatusCode:
            shown = (pair.key.read_bytes(), pair.certificate.read_bytes()) if pair else (None, None)
            credentials = grpc.ssl_channel_credentials(trusted, *shown)
            with grpc.secure_channel(collector.addresses["grpc"], credentials) as channel:
                call = TraceServiceStub(channel).Export.future(traces(span(1, 1)), timeout=10, metadata=metadata)
                call.exception(timeout=20)
                return call.code()

        def posted(pair: Certificate | None, port: str, path: str, **headers: str) -> int | None:
            context = ssl.create_default_context(cafile=str(own.certificate))
            if pair is not None:
                context.load_cert_chain(pair.certificate, pair.key)
            with httpx.Client(verify=context, trust_env=False, timeout=20) as client:
                try:
                    method = "POST" if port == "http" else "GET"
                    headers = {"content-type": "application/x-protobuf", **headers}
                    return client.request(
                        method, f"https://{collector.addresses[port]}{path}", headers=headers
                    ).status_code
                except httpx.TransportError:
                    return None

        assert exported(shop) is grpc.StatusCode.OK
        assert exported(other) is grpc.StatusCode.UNAUTHENTICATED
        assert exported(None) is grpc.StatusCode.UNAVAILABLE
        assert exported(shop, ("authorization", "Bearer reading")) is grpc.StatusCode.PERMISSION_DENIED
        assert posted(shop, "http", "/v1/traces") == 200
        assert posted(other, "http", "/v1/traces") == 401
        assert posted(None, "http", "/v1/traces") is None
        assert posted(shop, "web", "/metrics") == 403
        assert posted(None, "web", "/metrics") == 401
        assert posted(None, "web", "/metrics", authorization="Bearer reading") == 200
        assert posted(None, "web", "/readyz") == 200


@pytest.mark.parametrize(
    ("server", "says"),
    [
        pytest.param({"tls_client_ca": "ca.pem"}, "tls_client_ca needs tls_certificate", id="an authority alone"),
        pytest.param({"keys": [{"name": "a", "certificate": "a"}]}, "needs server.tls_client_ca", id="no authority"),
        pytest.param({"tls_certificate": "no.pem", "tls_key": "no.key"}, "no.pem, no.key cannot", id="files"),
    ],
)
def test_certificates_that_cannot_be_used_are_named(tmp_path: Path, server: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Collector(settings(tmp_path, server=server))
