"""Waiting for what another process or thread does, with a deadline."""

import time
from collections.abc import Callable
from threading import Event
from typing import TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T], *, within: float = 30.0, every: float = 0.05) -> T:
    """The first truthy value that `look` returns; fails the test when there is none within `within` seconds.

    Look at all that is asserted afterwards: what arrives together in a test may arrive apart on a busy machine.
    """
    deadline = time.monotonic() + within
    pause = Event()
    while not (seen := look()):
        assert time.monotonic() < deadline, f"still {seen!r} after {within} s"
        pause.wait(every)
    return seen
