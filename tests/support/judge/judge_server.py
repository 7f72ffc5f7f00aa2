"""A judge to test against, over real HTTP: it speaks `/v1/chat/completions` and behaves as badly as it is told.

As a stand-in for a judge, without a model and without a key:

    python -m tests.support.judge.judge_server --port 8080
    OPENAI_BASE_URL=http://127.0.0.1:8080/v1 agenteval collector
"""

import argparse
import json
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeAlias

from tests.support.judge.behaviours import NAMED, OK, Behaviour, Wire
from tests.support.judge.completions import Received, answer, error_body, schema_of
from tests.support.judge.filling import fill

_HANGS_AT_MOST = 600.0
_HUGE = 256 * 1024 * 1024


Responder: TypeAlias = Callable[[Received], str | None]
"""The reply's text; None: the schema filled in."""


class JudgeServer:
    """Answers by filling in the schema that it is sent, with `score` for every number.

    The first requests are answered as `script` says, one by one, and all others as `then` says; `responder` may give
    the texts. A context manager; `requests` is safe to read at any time.
    """

    def __init__(
        self,
        script: Iterable[Behaviour] = (),
        *,
        then: Behaviour = OK,
        score: float = 0.8,
        responder: Responder | None = None,
        port: int = 0,
    ) -> None:
        self._script = tuple(script)
        self._then = then
        self._score = score
        self._responder = responder
        self._received: list[Received] = []
        self._lock = threading.Lock()  # of _received, which every connection's thread adds to
        self.closing = threading.Event()
        self._server = _Server(self, port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="judge-server")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join(timeout=10)
        self._server.server_close()

    @property
    def url(self) -> str:
        """To be given as `judge.base_url`."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def requests(self) -> tuple[Received, ...]:
        """All requests so far, in the order of their arrival."""
        with self._lock:
            return tuple(self._received)

    def receive(self, received: Received) -> Behaviour:
        """Record a request; how it is to be answered."""
        with self._lock:
            number = len(self._received)
            self._received.append(received)
        return self._script[number] if number < len(self._script) else self._then

    def reply(self, received: Received) -> str:
        """The undisturbed text."""
        text = self._responder(received) if self._responder else None
        if text is None:
            text = json.dumps(fill(received.schema or {"type": "object"}, self._score))
        return text


class _Server(ThreadingHTTPServer):
    """Ends every open connection when it is closed, so that no thread stays behind."""

    daemon_threads = False
    request_queue_size = 128

    def __init__(self, judge: JudgeServer, port: int) -> None:
        self.judge = judge
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def close_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().close_request(request)

    def server_close(self) -> None:
        for connection in list(self._connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # its client has gone already
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that went away in the middle is what half of the behaviours are for.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not self.path.endswith("/chat/completions"):
            self._send(404, error_body(f"no such path: {self.path}"), {})
            return
        try:
            request = json.loads(body)
        except ValueError as error:
            self._send(400, error_body(f"no JSON: {error}"), {})
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        received = Received(request, headers, schema_of(request))
        self._behave(received, self.server.judge.receive(received))

    def _behave(self, received: Received, behaviour: Behaviour) -> None:
        closing = self.server.judge.closing
        if closing.wait(_HANGS_AT_MOST if behaviour.wire is Wire.HANGING else behaviour.wait):
            self.close_connection = True
            return
        match behaviour.wire:
            case Wire.HANGING:
                self.close_connection = True
            case Wire.RESET:
                self._reset()
            case Wire.HTML:
                self._send(behaviour.status, b"<!doctype html><h1>Welcome</h1>", {"Content-Type": "text/html"})
            case Wire.DRIPPING:
                self._head(200, {"Content-Length": str(_HUGE)})
                while not closing.wait(0.02):
                    self.wfile.write(b" ")
            case Wire.HUGE:
                self._head(200, {"Connection": "close"})
                for _ in range(_HUGE // 65536):
                    self.wfile.write(b" " * 65536)
            case Wire.ERROR:
                self._send(200, error_body("it failed", code=behaviour.status), behaviour.headers)
            case _:
                status, body = answer(received, behaviour, self.server.judge.reply(received))
                body = body[: len(body) // 2] if behaviour.wire is Wire.CUT else body
                self._send(status, body, behaviour.headers)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self._head(status, {"Content-Length": str(len(body)), **headers})
        self.wfile.write(body)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())


def main(arguments: list[str] | None = None) -> None:
    """Serve until SIGINT or SIGTERM; the first line on stdout is the base URL."""
    parser = argparse.ArgumentParser(
        prog="judge_server", description="A judge without a model, to try and to test with."
    )
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--behaviour", choices=sorted(NAMED), default="ok", help="of every answer")
    parser.add_argument("--score", type=float, default=0.8, help="of every answer, in [0, 1]")
    chosen = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with JudgeServer(then=NAMED[chosen.behaviour], score=chosen.score, port=chosen.port) as server:
        print(server.url, flush=True)
        stop.wait()


if __name__ == "__main__":
    main()
