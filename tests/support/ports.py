"""Ports for servers that have to be told theirs before they start."""

import itertools
import os
import socket

# Below those that Linux gives to connections and to whoever asks for any port (32,768 and up): between the look here
# and the server's start, only another test can take one. Each process looks from a place of its own.
_FIRST, _COUNT = 20_000, 12_000
_places = itertools.count(os.getpid() * 97)


def free_port() -> int:
    """Return a TCP port of this machine that nobody listens on, another one each time."""
    for place in itertools.islice(_places, _COUNT):
        port = _FIRST + place % _COUNT
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"every port from {_FIRST} to {_FIRST + _COUNT - 1} is taken")
