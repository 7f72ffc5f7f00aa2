"""Connections of the HTTP ports, and bodies that are under way together."""

import gzip
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from agenteval_collector.ingest.http import Bodies
from agenteval_collector.runtime.errors import Overloaded
from agenteval_collector.serve.doors.http_port import Connections, HttpPort
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.otlp import span, traces
from tests.support.running_collector import RunningCollector

LIMIT = 4
POST = (
    b"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-protobuf\r\nContent-Length: %d\r\n\r\n"
)


@contextmanager
def port(limit: int = LIMIT) -> Iterator[tuple[str, int]]:
    """A port with an application that answers `/` with the number of requests to `/held`, which it holds to its end."""
    released = threading.Event()
    holding: list[None] = []

    async def at_once(request: Request) -> Response:
        return Response(str(len(holding)))

    def held(request: Request) -> Response:
        holding.append(None)
        released.wait(60)
        return Response("late")

    app = Starlette(routes=[Route("/", at_once), Route("/held", held)])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        server = HttpPort(app, listener, limit=limit)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield address
        finally:
            released.set()
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


def connected(address: tuple[str, int], stack: ExitStack, sent: bytes = b"") -> socket.socket:
    made = stack.enter_context(socket.create_connection(address, 20))
    made.sendall(sent)
    return made


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return bool(connection.recv(1))
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def test_who_waits_longest_makes_room_for_who_comes() -> None:
    with port() as address, ExitStack() as stack:
        idle = [connected(address, stack, sent) for sent in (b"", b"GET / HT", b"", b"GET /", b"", b"")]
        url = f"http://{address[0]}:{address[1]}/"
        assert [httpx.get(url, timeout=20, trust_env=False).text for _ in range(10)] == ["0"] * 10
        eventually(lambda: sum(map(is_open, idle)) < LIMIT)


def test_a_request_under_way_is_never_cut_off_for_a_new_one() -> None:
    with port() as address, ExitStack() as stack:
        url = f"http://{address[0]}:{address[1]}/"
        held: list[socket.socket] = []
        while len(held) < LIMIT - 1:
            held.append(connected(address, stack, b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n"))
            eventually(lambda: httpx.get(url, timeout=20, trust_env=False).text == str(len(held)))
        held.append(connected(address, stack, b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n"))

        def is_refused() -> bool:
            try:
                httpx.get(url, timeout=20, trust_env=False)
            except httpx.TransportError:
                return True
            return False

        eventually(is_refused, within=20)
        assert all(map(is_open, held))


CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(CHUNKED + b"\r\n-1\r\n", b"400", id="a chunk of -1 bytes"),
        pytest.param(CHUNKED + b"\r\n1;" + b"a" * 200_000, b"400", id="a chunk with a long name"),
        pytest.param(CHUNKED + b"\r\n0\r\n" + b"T: x\r\n" * 50_000, b"400", id="trailers without end"),
        pytest.param(CHUNKED + b"Content-Length: 4\r\n\r\n0\r\n\r\n", b"400", id="two lengths"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n\0\0\r\n\r\n", b"200", id="nonsense behind a request"),
        pytest.param(b"GET /held HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n\0\r\n\r\n", None, id="and it waits"),
    ],
)
def test_what_is_not_http_is_refused_once_and_is_no_failure_of_ours(
    sent: bytes, status: bytes | None, capfd: pytest.CaptureFixture[str]
) -> None:
    with port() as address, ExitStack() as stack:
        client = connected(address, stack)
        answer = b""
        with suppress(OSError):
            client.sendall(sent)
            client.settimeout(1 if status is None else 20)
            while piece := client.recv(1000):
                answer += piece
        if status is not None and answer:
            assert answer.startswith(b"HTTP/1.1 " + status)
        assert httpx.get(f"http://{address[0]}:{address[1]}/", timeout=20, trust_env=False).status_code == 200
    assert "Traceback" not in capfd.readouterr().err


def test_where_a_request_comes_from_is_what_the_connection_says(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "agenteval_collector.audit")
    with RunningCollector(tmp_path, server={"keys": ["secret"]}) as collector:
        url = f"http://{collector.addresses['web']}/api/v1/sessions"
        httpx.get(url, headers={"X-Forwarded-For": "10.9.8.7"}, timeout=20, trust_env=False)
    assert "refused" in caplog.text
    assert "10.9.8.7" not in caplog.text


class Fake:
    """A connection as `Connections` sees it."""

    def __init__(self, peer: str, since: float, turn: tuple[str, ...] | None, held: Connections) -> None:
        self.peer, self.since, self.turn, self._held = peer, since, turn, held
        self.is_cut = False

    def cut_off(self) -> None:
        self.is_cut = True
        self._held.remove(self)  # type: ignore[arg-type]


def test_the_address_with_most_connections_loses_the_one_that_waits_longest() -> None:
    held = Connections(LIMIT)
    made: list[Any] = [
        Fake("good", 0.0, ("next request",), held),
        Fake("bad", 3.0, ("request",), held),
        Fake("bad", 1.0, None, held),
        Fake("bad", 2.0, ("request",), held),
    ]
    for each in made:
        held.add(each)
    assert held.has_room()
    assert [each.is_cut for each in made] == [False, False, False, True]


def test_bodies_under_way_share_one_bound() -> None:
    bodies = Bodies(100, ManualClock())
    with bodies.one("shop") as first:
        bodies.add(first, b"x" * 60)
        with bodies.one("shop") as second:
            bodies.add(second, b"x" * 15)
            with pytest.raises(Overloaded):
                bodies.add(second, b"x")
            with bodies.one("bank") as third:
                bodies.add(third, b"x" * 18)
                with pytest.raises(Overloaded):
                    bodies.add(third, b"x")
        bodies.add(first, b"x" * 15)
    with bodies.one("shop") as fourth:
        bodies.add(fourth, b"x" * 100)


def test_a_body_that_takes_long_gives_its_memory_to_others() -> None:
    clock = ManualClock()
    bodies = Bodies(100, clock)
    with bodies.one("bank") as complete, bodies.one("shop") as slow:
        bodies.add(complete, b"x" * 40)
        bodies.complete(complete)
        bodies.add(slow, b"x" * 60)
        clock.advance(11)
        with bodies.one("shop") as quick:
            bodies.add(quick, b"x" * 60)
            bodies.complete(quick)
            for going_on in (lambda: bodies.complete(slow), lambda: bodies.add(slow, b"")):
                with pytest.raises(Overloaded, match="took more than 10 s"):
                    going_on()
            with bodies.one("shop") as another, pytest.raises(Overloaded, match="too much memory"):
                bodies.add(another, b"x")
        assert (len(complete.content), len(slow.content)) == (40, 0)


def test_unfinished_bodies_leave_room_and_the_others_come_back_later(tmp_path: Path) -> None:
    size = 200_000
    with RunningCollector(tmp_path, server={"max_request_bytes": size}) as collector, ExitStack() as stack:
        host, _, number = collector.addresses["http"].rpartition(":")
        unfinished = [connected((host, int(number)), stack, POST % size + b"x" * (size - 1)) for _ in range(6)]
        first_lines: dict[socket.socket, bytes] = {}

        def refused() -> bool:
            for each in unfinished:
                each.setblocking(False)
                with suppress(BlockingIOError):
                    first_lines.setdefault(each, each.recv(1000).split(b"\r\n")[0])
            # Two fit; which pieces come first decides whether one of them takes the place of the other.
            return len(first_lines) >= 4

        eventually(refused)
        assert set(first_lines.values()) == {b"HTTP/1.1 429 Too Many Requests"}
        assert len(first_lines) < len(unfinished)
        for each in unfinished:
            each.close()
        body = gzip.compress(traces(span(1, 1)).SerializeToString())
        headers = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
        url = f"http://{collector.addresses['http']}/v1/traces"
        eventually(
            lambda: httpx.post(url, content=body, headers=headers, trust_env=False, timeout=20).status_code == 200
        )
