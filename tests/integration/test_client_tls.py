"""TLS to a real server with a certificate of its own."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from otel_agenteval.config import Options, resolve
from otel_agenteval.sending.transport import EXPORT_METHOD, Delivered, Retry, Transport
from tests.support.certificates import self_signed


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return self_signed(tmp_path, names="DNS:localhost").certificate


@pytest.fixture
def port(certificate: Path) -> Iterator[int]:
    class Sink(grpc.GenericRpcHandler):
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
            return grpc.unary_unary_rpc_method_handler(lambda request, context: b"")

    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((Sink(),))
    pair = (certificate.with_suffix(".key").read_bytes(), certificate.read_bytes())
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
