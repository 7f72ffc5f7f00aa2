"""The bodies of HTTP requests under way: their memory is bounded together. On one event loop."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from agenteval_collector.doors.shares import Shares
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import Overloaded

BODY_SECONDS: Final = 60.0
"""Time in which a body has to come."""
PRESSED_SECONDS: Final = 10.0
"""The same while others want its memory."""


class Body:
    """What has come of a body, decompressed."""

    def __init__(self, bodies: "Bodies", who: str, since: float) -> None:
        self.content = bytearray()
        self.who = who
        self.since = since
        self._bodies = bodies

    def add(self, piece: bytes) -> None:
        """Raises Overloaded where there is no memory for it, or where the body had to give up what it had."""
        self._bodies.take(self, len(piece))
        self.content += piece

    def is_complete(self) -> None:
        """Keep the memory from now on. Raises Overloaded where the body had to give it up."""
        self._bodies.complete(self)


class Bodies:
    """All bodies under way, of at most `limit` bytes together, which callers share."""

    def __init__(self, limit: int, clock: Clock) -> None:
        self._bytes = Shares(limit)
        self._clock = clock
        self._coming: dict[Body, None] = {}
        """By age: the first is the oldest."""

    @contextmanager
    def one(self, who: str) -> Iterator[Body]:
        """Give a body that counts for somebody until the end of the `with`."""
        body = Body(self, who, self._clock.monotonic())
        self._coming[body] = None
        try:
            yield body
        finally:
            self._coming.pop(body, None)
            self._bytes.give_back(who, len(body.content))

    def take(self, body: Body, size: int) -> None:
        """Count `size` bytes more; where they do not fit, a body that has taken too long gives up its own."""
        self._must_be_coming(body)
        while not self._bytes.take(body.who, size):
            oldest = next(iter(self._coming))
            if oldest is body or self._clock.monotonic() - oldest.since <= PRESSED_SECONDS:
                raise Overloaded("the requests under way take too much memory; send it again later")
            del self._coming[oldest]
            self._bytes.give_back(oldest.who, len(oldest.content))
            oldest.content = bytearray()

    def complete(self, body: Body) -> None:
        """Let nobody take its memory from a body."""
        self._must_be_coming(body)
        del self._coming[body]

    def _must_be_coming(self, body: Body) -> None:
        if body not in self._coming:
            raise Overloaded(f"the body took more than {PRESSED_SECONDS:g} s, and others came; send it again later")
