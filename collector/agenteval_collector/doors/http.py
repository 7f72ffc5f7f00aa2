"""An HTTP port. It accepts by itself, so that strangers find a limit before uvicorn knows of them."""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from agenteval_collector.doors.connections import KEEP_ALIVE_SECONDS, REQUEST_SECONDS, Connection, Connections

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
GRACE_SECONDS: Final = 1
"""Seconds that requests under way have when the port closes."""
COMPLAINT_SECONDS: Final = 60.0
"""Seconds between two lines about connections that cannot be accepted."""


def _unambiguous(app: ASGIApp) -> ASGIApp:
    """Refuse what a proxy may read as two requests: a length of the body that is given twice."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope.get("headers", ())}:
            refusal = PlainTextResponse("give Content-Length or Transfer-Encoding", 400, {"Connection": "close"})
            await refusal(scope, receive, send)
        else:
            await app(scope, receive, send)

    return checked


class HttpPort(uvicorn.Server):
    """Serves `app` on `listener`, for at most `limit` connections; `tls` returns the context for the next one."""

    def __init__(
        self, app: ASGIApp, listener: socket.socket, *, limit: int, tls: Callable[[], ssl.SSLContext] | None = None
    ) -> None:
        super().__init__(
            uvicorn.Config(
                _unambiguous(app),
                http="h11",
                ws="none",
                # What a stranger sends must not write lines.
                log_level="error",
                access_log=False,
                # Where a request comes from is what the connection says: callers share by it.
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
        self._complained = -COMPLAINT_SECONDS

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        self._begin(self._accept())
        self._begin(self._look())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._tasks:
            task.cancel()
        self._listener.close()
        # A body that does not come must not be waited for until uvicorn cancels its reader, which it calls a failure.
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._connections.cut_off)
        await super().shutdown(sockets=[])

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            # Accepting does not pause while somebody waits to be accepted; those who are connected have their turn too.
            await asyncio.sleep(0)
            try:
                accepted, address = await loop.sock_accept(self._listener)
            except OSError as error:
                self._complain(error)
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
            # A handshake that failed: the client's affair.
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

    def _complain(self, error: OSError) -> None:
        if time.monotonic() - self._complained >= COMPLAINT_SECONDS:
            self._complained = time.monotonic()
            logger.error("a connection cannot be accepted: %s; said once in a minute", error)
