"""Work on a thread of its own while a block runs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOPPED_WITHIN = 60.0
"""Seconds for it to see that it is done."""


@contextmanager
def running(work: Callable[[], None], done: threading.Event) -> Iterator[None]:
    """Run `work` until the block ends; then it sees `done`."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(STOPPED_WITHIN)
