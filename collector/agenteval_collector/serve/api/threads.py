"""Run blocking calls of the store for coroutines: in few threads, with bounded waiting and a timeout."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

from agenteval_collector.ingest.shares import SHARER, Shares
from agenteval_collector.runtime.errors import Overloaded, Unavailable
from agenteval_collector.runtime.memory import MIB, MemoryGuard
from agenteval_collector.runtime.work import ANSWER, READ_WITHIN, SPANS

T = TypeVar("T")
ANSWER_WITHIN = 5.0
"""Seconds until a call is answered with an error."""


class BoundedThreads:
    """Runs calls in `threads` threads. At most `waiting` further calls wait; others are refused.

    Callers share these slots. A call that takes longer than `timeout` seconds is answered with an error. Its thread
    cannot be stopped and keeps its slot until it returns, so abandoned calls never add up to more threads. `refused`
    and `timed_out` count both cases.
    """

    def __init__(self, name: str, *, threads: int, waiting: int, timeout: float) -> None:
        self.refused = 0
        self.timed_out = 0
        self._timeout = timeout
        self._slots = Shares(threads + waiting)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, call: Callable[[], T]) -> T:
        """Return what `call()` returns. Raises Overloaded, Unavailable after the timeout, or what `call` raises."""
        who = SHARER.get()
        if not self._slots.take(who):
            self.refused += 1
            raise Overloaded("too many requests are waiting; ask again in a second")
        try:
            future = self._pool.submit(call)
        except RuntimeError as error:
            self._slots.give_back(who)
            raise Unavailable("the collector is stopping") from error
        # Give the slot back when the call returns, not when its caller gives up: until then the thread is occupied.
        future.add_done_callback(lambda _: self._slots.give_back(who))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._timeout)
        except TimeoutError as error:
            self.timed_out += 1
            raise Unavailable(f"no answer from the store within {self._timeout:g} s; ask again") from error

    def close(self) -> None:
        """Refuse further calls and cancel those that wait. Does not wait for running ones."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class WebThreads:
    """All threads of the web port. A call that takes longer than `timeout` seconds is answered with 503.

    Answers take `memory` until they are sent. No trace has more than `trace_bytes`.
    """

    def __init__(self, memory: MemoryGuard, timeout: float = ANSWER_WITHIN, *, trace_bytes: int = 16 * MIB) -> None:
        self.memory = memory
        self._trace_bytes = trace_bytes
        self.reads = BoundedThreads("api-read", threads=4, waiting=64, timeout=timeout)
        # Assembling a trace again takes several times its size, so one is assembled at a time.
        self.spans = BoundedThreads("api-spans", threads=1, waiting=16, timeout=timeout)
        # A thread of its own: a scrape must not fail because people look at pages.
        self.scrapes = BoundedThreads("api-scrape", threads=1, waiting=3, timeout=timeout)
        self.writes = BoundedThreads("api-write", threads=1, waiting=16, timeout=timeout)

    def room_for(self, *, spans: bool) -> AbstractContextManager[None]:
        """Reserve the memory that an answer takes until it is encoded. Raises Unavailable if there is none for it."""
        return self.memory.work.reserve(SPANS * self._trace_bytes if spans else ANSWER, READ_WITHIN)

    def close(self) -> None:
        """Refuse further calls."""
        for pool in (self.reads, self.spans, self.scrapes, self.writes):
            pool.close()
