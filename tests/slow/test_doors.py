"""What strangers can do to a real collector: whoever has a key is served all the while, and memory stays bounded."""

import os
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from agenteval_collector.runtime.machine import open_files
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from otel_agenteval.proto.v1 import evaluation_pb2 as pb
from otel_agenteval.proto.v1.evaluation_pb2_grpc import EvaluationServiceStub
from tests.support.collector_process import collector_process
from tests.support.eventually import eventually
from tests.support.http2 import CONTINUATION, HEADERS, Peer, call_headers, frame, header
from tests.support.otlp import span, traces

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MIB = 1024 * 1024
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
WATCH = "/otel_agenteval.proto.v1.EvaluationService/Watch"
UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
BEARER = {"authorization": "Bearer secret"}
GREEDY = ("authorization", "Bearer greedy")
PROTOBUF = {**BEARER, "content-type": "application/x-protobuf"}
UNFINISHED = (
    b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer greedy\r\n"
    b"Content-Type: %s\r\nContent-Length: %d\r\n\r\n"
)

UNFINISHED_AT = {
    "http": (b"/v1/traces", b"application/x-protobuf"),
    "web": (b"/problems/0123456789abcdef", b"application/x-www-form-urlencoded"),
}


class Attacked:
    """A collector that wants a key, in a process of its own."""

    def __init__(self, addresses: dict[str, str], folder: Path) -> None:
        self.addresses = addresses
        self.log = folder / "collector.log"
        children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
        pids = [pid for each in children for pid in each.read_text().split()]
        own = f"--data-dir={folder}".encode()
        [self.pid] = [int(pid) for pid in pids if own in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]

    def memory(self) -> int:
        """Bytes that are resident."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * resource.getpagesize()

    def place(self, port: str) -> tuple[str, int]:
        host, _, number = self.addresses[port].rpartition(":")
        return host, int(number)

    def serves_key_holders(self) -> bool:
        """Whether each port serves somebody with a key who connects now."""
        with grpc.insecure_channel(self.addresses["grpc"], options=UNLIMITED) as channel:
            call = TraceServiceStub(channel).Export.future(traces(span(1, 1)), timeout=20, metadata=[*BEARER.items()])
            call.exception(timeout=30)
        body = traces(span(2, 1)).SerializeToString()
        try:
            answers = [
                httpx.get(f"http://{self.addresses['web']}/readyz", timeout=20, trust_env=False),
                httpx.get(f"http://{self.addresses['web']}/metrics", headers=BEARER, timeout=20, trust_env=False),
                httpx.post(
                    f"http://{self.addresses['http']}/v1/traces",
                    content=body,
                    headers=PROTOBUF,
                    timeout=20,
                    trust_env=False,
                ),
            ]
        except httpx.TransportError:
            return False
        return call.code() is grpc.StatusCode.OK and all(each.status_code == 200 for each in answers)


@contextmanager
def running(folder: Path, memory: int = 4096 * MIB) -> Iterator[Attacked]:
    # For the attackers, who are all in this process.
    open_files()
    environ = {
        "AGENTEVAL_SERVER__KEYS": "[secret, {name: greedy, key: greedy}]",
        "AGENTEVAL_SERVER__MEMORY_LIMIT": str(memory),
    }
    with collector_process(folder, environ) as addresses:
        made = Attacked(addresses, folder)
        eventually(made.serves_key_holders, within=60)
        yield made


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    with running(tmp_path_factory.mktemp("attacked")) as collector:
        yield collector


def peak(collector: Attacked, until: Callable[[], bool]) -> int:
    """The most memory that was resident until then."""
    most = 0

    def look() -> bool:
        nonlocal most
        most = max(most, collector.memory())
        return until()

    eventually(look, within=90, every=0.01)
    return most


def test_calls_without_a_key_take_no_place(attacked: Attacked) -> None:
    released = threading.Event()

    def nothing() -> Iterator[bytes]:
        released.wait(60)
        yield from ()

    with grpc.insecure_channel(attacked.addresses["grpc"], options=UNLIMITED) as channel:
        opened: Any = channel.stream_unary(EXPORT)
        calls = [opened.future(nothing(), timeout=60) for _ in range(420)]
        assert attacked.serves_key_holders()
        eventually(lambda: all(each.done() for each in calls), within=30)
        assert {each.code() for each in calls} == {grpc.StatusCode.UNAUTHENTICATED}
        released.set()


def test_calls_of_one_key_leave_places_to_others(attacked: Attacked) -> None:
    with ExitStack() as stack:
        peers = [stack.enter_context(closing(Peer(attacked.place("grpc")))) for _ in range(3)]
        for number in range(250):
            for peer in peers:
                peer.call(2 * number + 1, EXPORT, GREEDY)
        assert attacked.serves_key_holders()


def test_watches_of_one_key_leave_places_to_others(attacked: Attacked) -> None:
    request = pb.WatchRequest().SerializeToString()
    with ExitStack() as stack:
        peers = [stack.enter_context(closing(Peer(attacked.place("grpc")))) for _ in range(3)]
        for number in range(250):
            for peer in peers:
                peer.call(2 * number + 1, WATCH, GREEDY)
                peer.send(2 * number + 1, b"\0" + len(request).to_bytes(4, "big") + request)
        assert attacked.serves_key_holders()
        channel = stack.enter_context(grpc.insecure_channel(attacked.addresses["grpc"], options=UNLIMITED))
        watch = EvaluationServiceStub(channel).Watch(pb.WatchRequest(), timeout=20, metadata=[*BEARER.items()])
        assert not list(watch.initial_metadata())
        assert watch.is_active()


@pytest.mark.parametrize("port", ["http", "web"])
def test_requests_of_one_key_leave_places_to_others(attacked: Attacked, port: str) -> None:
    with ExitStack() as stack:
        for _ in range(520):
            connection = stack.enter_context(socket.create_connection(attacked.place(port), 20))
            connection.sendall(UNFINISHED % (*UNFINISHED_AT[port], 1000) + b"x")
        assert attacked.serves_key_holders()


def test_unfinished_messages_have_a_bound_together(attacked: Attacked) -> None:
    before, size = attacked.memory(), 60 * MIB

    def send(peer: Peer) -> None:
        with suppress(OSError):
            peer.call(1, EXPORT, GREEDY)
            peer.send(1, b"\0" + size.to_bytes(4, "big") + bytes(size - 1))
            while not {0, 1} & peer.ended:
                peer.read()

    with ExitStack() as stack:
        peers = [stack.enter_context(closing(Peer(attacked.place("grpc")))) for _ in range(40)]
        senders = [threading.Thread(target=send, args=(peer,), daemon=True) for peer in peers]
        for each in senders:
            each.start()
        others = iter(range(20))
        most = peak(attacked, lambda: not attacked.serves_key_holders() or next(others, None) is None)
        assert next(others, None) is None
    assert most - before < 512 * MIB


@pytest.mark.parametrize("key", [None, "guess"])
def test_messages_without_a_key_are_not_buffered(attacked: Attacked, key: str | None) -> None:
    before, message = attacked.memory(), bytes(60 * MIB)
    metadata = (("authorization", f"Bearer {key}"),) if key else ()
    with ExitStack() as stack:
        calls = []
        for _ in range(4):
            channel = stack.enter_context(grpc.insecure_channel(attacked.addresses["grpc"], options=UNLIMITED))
            export: Any = channel.unary_unary(EXPORT)
            calls += [export.future(message, timeout=60, metadata=metadata) for _ in range(4)]
        most = peak(attacked, lambda: all(each.done() for each in calls))
        assert {each.code() for each in calls} == {grpc.StatusCode.UNAUTHENTICATED}
    assert most - before < 32 * MIB
    assert attacked.serves_key_holders()


@pytest.mark.parametrize("port", ["grpc", "http", "web"])
def test_idle_connections_stop_nobody(attacked: Attacked, port: str) -> None:
    begun = (b"", b"GET / HTTP/1.1\r\nHost: ", b"\x16\x03\x01")
    with ExitStack() as stack:
        for number in range(1100):
            idle = stack.enter_context(socket.create_connection(attacked.place(port), 20))
            idle.sendall(begun[number % 3])
        for _ in range(3):
            assert attacked.serves_key_holders()
    assert "Traceback" not in attacked.log.read_text()


def test_unfinished_bodies_have_a_bound_together(attacked: Attacked) -> None:
    before, size = attacked.memory(), 62 * MIB

    def send(connection: socket.socket) -> None:
        try:
            connection.sendall(UNFINISHED % (*UNFINISHED_AT["http"], size) + bytes(size - 1))
        except OSError:
            return

    with ExitStack() as stack:
        senders = []
        for _ in range(40):
            connection = stack.enter_context(socket.create_connection(attacked.place("http"), 20))
            senders.append(threading.Thread(target=send, args=(connection,), daemon=True))
            senders[-1].start()
        most = peak(attacked, lambda: not any(each.is_alive() for each in senders))
        # They still hold what there is, and give it up for those who come.
        eventually(attacked.serves_key_holders, within=60, every=1)
    assert most - before < 400 * MIB


def test_headers_of_strangers_that_do_not_end_are_ended_once_memory_is_short(tmp_path: Path) -> None:
    limit = 440 * MIB
    with running(tmp_path, limit) as collector, ExitStack() as stack:
        block = header("x", "y") * 3000

        def flood(stranger: Peer) -> None:
            with suppress(OSError):
                stranger.socket.sendall(frame(HEADERS, 0, 1, call_headers(EXPORT)))
                while True:
                    stranger.socket.sendall(frame(CONTINUATION, 0, 1, block))

        floods = []
        for _ in range(3):
            stranger = Peer(collector.place("grpc"))
            stack.callback(stranger.socket.close)
            floods.append(threading.Thread(target=flood, args=(stranger,), daemon=True))
            floods[-1].start()
        most = peak(collector, lambda: not any(each.is_alive() for each in floods))
        eventually(collector.serves_key_holders, within=60, every=1)
        assert "strangers' connections end while memory is short" in collector.log.read_text()
    assert most < limit + 128 * MIB


def test_without_descriptors_it_complains_once_and_goes_on(tmp_path: Path) -> None:
    with running(tmp_path) as collector:
        used = len(os.listdir(f"/proc/{collector.pid}/fd"))
        resource.prlimit(collector.pid, resource.RLIMIT_NOFILE, (used + 20, used + 20))
        with ExitStack() as stack:
            for _ in range(200):
                stack.enter_context(socket.create_connection(collector.place("web"), 20))
            readyz = f"http://{collector.addresses['web']}/readyz"
            for _ in range(5):
                assert httpx.get(readyz, timeout=20, trust_env=False).status_code == 200
            said = collector.log.read_text()
            assert said.count("a connection cannot be accepted") == 1
            assert "Traceback" not in said
        eventually(collector.serves_key_holders, within=60)
