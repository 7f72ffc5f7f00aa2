"""Who connects to the gRPC port again and again leaves places to others."""

import socket
import sys
from contextlib import ExitStack

import pytest
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.runtime.memory import MemoryGuard
from agenteval_collector.serve.doors.grpc_connections import GrpcConnections, KnownPeers

from tests.support.eventually import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="connections of a process are told on Linux only")

SHORT, ROOMY = MemoryGuard(1, SystemClock()), MemoryGuard(1 << 40, SystemClock())


def is_over(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False


def test_an_address_has_its_share_and_no_more() -> None:
    with ExitStack() as opened:
        port = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        other = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))

        def connect(to: socket.socket, source: str) -> socket.socket:
            made = socket.create_connection(to.getsockname(), timeout=5, source_address=(source, 0))
            opened.enter_context(made)
            opened.enter_context(to.accept()[0])
            return made

        crowd = [connect(port, "127.0.0.2") for _ in range(20)]
        few = [connect(port, "127.0.0.3") for _ in range(3)]
        elsewhere = [connect(other, "127.0.0.2") for _ in range(20)]
        limit = GrpcConnections(16, ROOMY, peers=KnownPeers())
        limit._port = port.getsockname()[1]
        assert limit.look() == 8
        eventually(lambda: [is_over(each) for each in crowd] == [False] * 12 + [True] * 8)
        assert not any(is_over(each) for each in (*few, *elsewhere))


def test_while_memory_is_short_only_callers_stay() -> None:
    with ExitStack() as opened:
        port = opened.enter_context(socket.create_server(("::1", 0), family=socket.AF_INET6))
        made = []
        for _ in range(3):
            made.append(opened.enter_context(socket.create_connection(port.getsockname()[:2], timeout=5)))
            opened.enter_context(port.accept()[0])
        peers = KnownPeers()
        peers.hear(f"ipv6:%5B::1%5D:{made[1].getsockname()[1]}")
        connections = GrpcConnections(4096, SHORT, peers=peers)
        connections._port = port.getsockname()[1]
        assert connections.look() == 2
        eventually(lambda: [is_over(each) for each in made] == [True, False, True])


def test_where_there_is_room_nobody_is_ended() -> None:
    limit = GrpcConnections(4096, SHORT, peers=None)
    limit.watch(1)
    assert limit.look() == 0
    limit.shutdown()
