"""Serve HTTP on a port with limits: of connections, and of the time that each may keep us waiting.

The port accepts connections by itself, so that a stranger meets a limit before uvicorn knows of the connection.
"""

import asyncio
import logging
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final

import h11
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from otel_agenteval.sending.throttle import ThrottledLog

logger = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 10.0
"""Seconds that a client may take to shake hands, to send the head of a request, or to go on reading an answer."""
KEEP_ALIVE_SECONDS: Final = 75
"""Seconds between an answer and the next request: longer than exporters and scrapes pause."""
LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at what all connections do."""
GRACE_SECONDS: Final = 1
"""Seconds that requests under way have when the port closes."""


def _unambiguous(app: ASGIApp) -> ASGIApp:
    """Refuse requests that give their length twice: a proxy may read them as two requests."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope.get("headers", ())}:
            refusal = PlainTextResponse("give Content-Length or Transfer-Encoding", 400, {"Connection": "close"})
            await refusal(scope, receive, send)
        else:
            await app(scope, receive, send)

    return checked


class Connection(H11Protocol):
    """A connection that knows how long its client has kept it waiting."""

    def __init__(self, peer: str, forget: Callable[["Connection"], None], **named: Any) -> None:
        super().__init__(**named)
        self.peer = peer
        self.since = time.monotonic()
        self.opening: asyncio.Task[None] | None = None
        """The handshake, after which there is a transport."""
        self._is_open = False
        self._forget = forget
        self._turn_before: object = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._is_open = True
        if certificate := transport.get_extra_info("peercert"):
            names = dict(pair for rdn in certificate.get("subject", ()) for pair in rdn)
            self.app_state = {**self.app_state, "certificate": names.get("commonName", "")}

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget(self)

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that is not HTTP, and leave the one before it unanswered. Uvicorn would try to answer it,
        and log 6 KB about a failure of ours each time."""
        if self.cycle and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self.cut_off()
                return
        super().send_400_response(msg)

    def look(self) -> None:
        """Cut the connection off if its client has taken too long."""
        now, turn = time.monotonic(), self.turn
        if turn is None or turn != self._turn_before:
            self._turn_before, self.since = turn, now
        # Uvicorn ends those that wait for the next request; the reader of a body has a limit of its own.
        elif turn != ("next request",) and now - self.since > REQUEST_SECONDS:
            self.cut_off()

    @property
    def turn(self) -> tuple[object, ...] | None:
        """The step that the client has to take next. None while the client waits for us."""
        if not self._is_open:
            return ("shake hands",)
        if size := self.transport.get_write_buffer_size():
            return ("read the answer", size)
        if self.cycle and not self.cycle.response_complete:
            return None
        if self.cycle and self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            return ("next request",)
        return ("request", id(self.cycle))

    def cut_off(self) -> None:
        """Close the connection now, even if something waits to be sent."""
        if self._is_open:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()
        self._forget(self)


class Connections:
    """The connections of a TCP port, at most `limit` of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: set[Connection] = set()

    def has_room(self) -> bool:
        """Return whether one more connection may come. If there is no room, end one that waits for its client."""
        return len(self._held) < self._limit or self.make_room()

    def make_room(self) -> bool:
        """Cut off the connection that has waited longest for its client, of the address with the most that wait."""
        waiting = [connection for connection in self._held if connection.turn is not None]
        if not waiting:
            return False
        of_peer = Counter(connection.peer for connection in waiting)
        min(waiting, key=lambda connection: (-of_peer[connection.peer], connection.since)).cut_off()
        return True

    def add(self, connection: Connection) -> None:
        self._held.add(connection)

    def remove(self, connection: Connection) -> None:
        self._held.discard(connection)

    def look(self) -> None:
        """Cut off the connections whose clients take too long."""
        for connection in list(self._held):
            connection.look()

    def cut_off(self) -> None:
        """Cut off all connections."""
        for connection in list(self._held):
            connection.cut_off()


class HttpPort(uvicorn.Server):
    """Serves `app` on `listener` to at most `limit` connections. `tls` returns the context for the next one."""

    def __init__(
        self, app: ASGIApp, listener: socket.socket, *, limit: int, tls: Callable[[], ssl.SSLContext] | None = None
    ) -> None:
        super().__init__(
            uvicorn.Config(
                _unambiguous(app),
                http="h11",
                ws="none",
                # Strangers must not be able to fill the log.
                log_level="error",
                # In the form of all other lines.
                log_config=None,
                access_log=False,
                # The address of a caller is that of its connection, as callers share by address.
                proxy_headers=False,
                lifespan="auto",
                server_header=False,
                timeout_graceful_shutdown=GRACE_SECONDS + 1,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
            )
        )
        self._listener = listener
        self._listener.setblocking(False)
        self._tls = tls
        self._connections = Connections(limit)
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = ThrottledLog(logger, time.monotonic)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        self._begin(self._accept())
        self._begin(self._look())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._tasks:
            task.cancel()
        self._listener.close()
        # Before uvicorn cancels the readers of bodies that do not come: it would log each as a failure.
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._connections.cut_off)
        await super().shutdown(sockets=[])

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            # Accepting does not pause while others wait to be accepted; this lets connected clients have their turn.
            await asyncio.sleep(0)
            try:
                accepted, address = await loop.sock_accept(self._listener)
            except OSError as error:
                self._log.warning("accept", "a connection cannot be accepted: %s", error)
                if not self._connections.make_room():
                    await asyncio.sleep(LOOK_SECONDS)
                continue
            if not self._connections.has_room():
                accepted.close()
                continue
            connection = Connection(
                address[0],
                self._connections.remove,
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
                _loop=loop,
            )
            self._connections.add(connection)
            connection.opening = self._begin(self._open(connection, accepted))

    async def _open(self, connection: Connection, accepted: socket.socket) -> None:
        tls: dict[str, Any] = {}
        if self._tls is not None:
            tls = {"ssl": self._tls(), "ssl_handshake_timeout": REQUEST_SECONDS}
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted, **tls)
        except OSError as error:
            # The handshake failed, which is the client's affair.
            logger.debug("%s did not connect: %s", connection.peer, error)
            self._connections.remove(connection)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._connections.look()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
