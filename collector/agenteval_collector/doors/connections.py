"""The connections of an HTTP port: how long each may keep us waiting, and which one goes when there are too many."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS: Final = 10.0
"""Seconds that a client may take to shake hands, to send the head of a request, or to go on reading an answer."""
KEEP_ALIVE_SECONDS: Final = 75
"""Seconds between an answer and the next request: longer than exporters and scrapes pause."""


class Connection(H11Protocol):
    """A connection that knows since when its client keeps it waiting."""

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
            names = dict(pair for part in certificate.get("subject", ()) for pair in part)
            self.app_state = {**self.app_state, "certificate": names.get("commonName", "")}

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget(self)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP. What was asked before it is not answered as well: uvicorn would try to, and log that
        it cannot as a failure of ours, with 6 KB for each."""
        if self.cycle and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self.cut_off()
                return
        super().send_400_response(msg)

    def look(self) -> None:
        """Cut the connection off where its client has taken too long."""
        now, turn = time.monotonic(), self.turn
        if turn is None or turn != self._turn_before:
            self._turn_before, self.since = turn, now
        # Uvicorn ends those that wait for the next request; the reader of a body has a limit of its own.
        elif turn != ("next request",) and now - self.since > REQUEST_SECONDS:
            self.cut_off()

    @property
    def turn(self) -> tuple[object, ...] | None:
        """What the client is to do; None: it is our turn."""
        if not self._is_open:
            return ("shake hands",)
        if left := self.transport.get_write_buffer_size():
            return ("read the answer", left)
        if self.cycle and not self.cycle.response_complete:
            return None
        if self.cycle and self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            return ("next request",)
        return ("request", id(self.cycle))

    def cut_off(self) -> None:
        """Close the connection now, whatever waits to be sent."""
        if self._is_open:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()
        self._forget(self)


class Connections:
    """The connections of a port, at most `limit` of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: set[Connection] = set()

    def has_room(self) -> bool:
        """Return whether one more may come; make room for it where that takes nothing from anybody at work."""
        return len(self._held) < self._limit or self.make_room()

    def make_room(self) -> bool:
        """Cut off the one that has waited for its client longest, of the address with most of those that wait."""
        waiting = [each for each in self._held if each.turn is not None]
        if not waiting:
            return False
        of_peer = Counter(each.peer for each in waiting)
        min(waiting, key=lambda each: (-of_peer[each.peer], each.since)).cut_off()
        return True

    def add(self, connection: Connection) -> None:
        self._held.add(connection)

    def remove(self, connection: Connection) -> None:
        self._held.discard(connection)

    def look(self) -> None:
        """Cut off those whose clients take too long."""
        for each in list(self._held):
            each.look()

    def cut_off(self) -> None:
        """Cut off all of them."""
        for each in list(self._held):
            each.cut_off()
