"""TLS to a real server with a certificate of its own."""

import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from otel_agenteval.config import Options, resolve
from otel_agenteval.sending.transport import EXPORT_METHOD, Delivered, Retry, Transport


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -keyout key.pem -out cert.pem"
    alternative_name = ["-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command.split(), *alternative_name], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path / "cert.pem"


@pytest.fixture
def port(certificate: Path) -> Iterator[int]:
    class Sink(grpc.GenericRpcHandler):
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
            return grpc.unary_unary_rpc_method_handler(lambda request, context: b"")

    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((Sink(),))
    pair = (certificate.with_name("key.pem").read_bytes(), certificate.read_bytes())
    port = server.add_secure_port("localhost:0", grpc.ssl_server_credentials([pair]))
    server.start()
    yield port
    server.stop(None).wait(10)


def answer(options: Options) -> object:
    transport = Transport(lambda: resolve(options, {}, ()))
    try:
        return transport.send(EXPORT_METHOD, b"", 10)
    finally:
        transport.close()


def test_https_with_the_servers_root_is_delivered(port: int, certificate: Path) -> None:
    assert answer(Options(endpoint=f"https://localhost:{port}", certificate=str(certificate))) == Delivered()


def test_certificate_nobody_trusts_is_not_talked_to(port: int) -> None:
    assert isinstance(answer(Options(endpoint=f"https://localhost:{port}")), Retry)


def test_certificate_file_that_is_missing_is_named(port: int) -> None:
    found = answer(Options(endpoint=f"https://localhost:{port}", certificate="/no/such/ca.pem"))
    assert isinstance(found, Retry)
    assert "/no/such/ca.pem" in found.problem
