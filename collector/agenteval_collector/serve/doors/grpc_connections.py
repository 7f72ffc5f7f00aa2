"""Limit the connections of the gRPC port.

gRPC accepts connections by itself. It has no limit by address, and it reads headers before the caller is known.
"""

import logging
import os
import socket
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import unquote

from agenteval_collector.runtime.component import Poller
from agenteval_collector.runtime.memory import MemoryGuard
from otel_agenteval.internal.lru import LruMap

logger = logging.getLogger(__name__)

CONNECTIONS_COUNTED_EVERY: Final = 0.2
"""Seconds between two looks."""
ONE_SHARE: Final = 3 / 4
"""The most that one address may have of all connections. One caller may have the same share of the slots."""
KNOWN: Final = 16_384
"""Connections of callers that are remembered, the newest."""
_FOLDER: Final = "/proc/self/fd"
_MAPPED: Final = "::ffff:"
"""The beginning of an IPv4 address if a socket serves both versions."""


class PeerAddress(NamedTuple):
    """The other end of a connection."""

    address: str
    port: int


class KnownPeers:
    """The connections on which a known key or certificate was shown. Thread-safe."""

    def __init__(self) -> None:
        self._known: LruMap[str, bool] = LruMap(KNOWN)

    def hear(self, peer: str) -> None:
        """Remember a connection by gRPC's name for its other end: `ipv4:10.0.0.1:4711`, `ipv6:%5B::1%5D:4711`."""
        self._known.put(peer, True)

    def peers(self) -> set[PeerAddress]:
        """Return the other ends of all remembered connections."""
        named = (unquote(peer).partition(":")[2].rpartition(":") for peer, _ in self._known.items())
        return {PeerAddress(address.strip("[]"), int(port)) for address, _, port in named if port.isdecimal()}


class GrpcConnections(Poller):
    """Ends connections to the gRPC port: the newest ones of an address that has more than its share, and those of
    strangers while the process has little memory left. It works on Linux alone: other systems do not list them."""

    def __init__(self, total: int, memory: MemoryGuard, *, peers: KnownPeers | None) -> None:
        """Take `total`, the number of connections that are accepted at most. `peers` has those of callers; None: nobody
        needs a key."""
        super().__init__("connections", CONNECTIONS_COUNTED_EVERY)
        self._most = int(total * ONE_SHARE)
        self._peers = peers
        self._memory = memory
        self._port = 0
        # Addresses that were logged: one that comes again and again must not fill the log.
        self._told: LruMap[str, bool] = LruMap(1024)

    def watch(self, port: int) -> None:
        """Start to look at the connections to this port."""
        self._port = port
        if sys.platform == "linux":
            self.start()

    def step(self) -> None:
        try:
            self.look()
        except OSError as error:
            logger.warning("the connections of the gRPC port cannot be looked at now: %s", error)

    def look(self) -> int:
        """End the connections that are too many; return their number."""
        ended = 0
        if self._peers is not None and self._memory.is_short:
            peers = self._peers.peers()
            for descriptor, peer in self._connections():
                if peer not in peers:
                    ended += self._end(descriptor, peer.address, "strangers' connections end while memory is short")
        # A process with few descriptors has few connections: then none has to be looked at.
        if len(os.listdir(_FOLDER)) > self._most:
            by_address: dict[str, list[int]] = defaultdict(list)
            for descriptor, peer in self._connections():
                by_address[peer.address].append(descriptor)
            for address, descriptors in by_address.items():
                for descriptor in sorted(descriptors)[self._most :]:
                    ended += self._end(descriptor, address, f"one address has {self._most} connections at most")
        return ended

    def _connections(self) -> Iterator[tuple[int, PeerAddress]]:
        """Yield the descriptor and the other end of each connection to the port."""
        for name in os.listdir(_FOLDER):
            with suppress(OSError):  # It is closed by now, or is no socket.
                if os.readlink(f"{_FOLDER}/{name}").startswith("socket:") and (peer := self._peer(int(name))):
                    yield int(name), peer

    def _peer(self, descriptor: int) -> PeerAddress | None:
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.getsockname()[1] != self._port:
                return None
            address, port = connection.getpeername()[:2]
        return PeerAddress(address.removeprefix(_MAPPED), port)

    def _end(self, descriptor: int, address: str, why: str) -> int:
        """End a connection, and return 1. Return 0 if it has ended by itself: its descriptor may be reused by
        then."""
        with suppress(OSError):
            if self._peer(descriptor) is not None:
                with socket.socket(fileno=os.dup(descriptor)) as connection:
                    connection.shutdown(socket.SHUT_RDWR)
                if not self._told.get(address):
                    self._told.put(address, True)
                    logger.warning("a connection of %s to the gRPC port is ended: %s", address, why)
                return 1
        return 0
