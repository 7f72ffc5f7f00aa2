"""Work that is little, in a module that a process loads at once."""

import os
import time
from collections.abc import Callable

MIB = 1024 * 1024


def echo() -> Callable[[bytes], bytes]:
    """Work that returns what it is given, with the process that did it."""
    return _echo


def _echo(body: bytes) -> bytes:
    if body.startswith(b"grow "):
        _GROWN.append(bytearray(os.urandom(1) * (int(body.split()[1]) * MIB)))
    if body == b"sleep":
        time.sleep(600)
    return b"%d %b" % (os.getpid(), body)


_GROWN: list[bytearray] = []
