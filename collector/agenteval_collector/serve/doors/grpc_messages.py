"""Bound the memory of the messages of all gRPC calls, while they come and until they are done with.

gRPC hands a message over when it is whole, and does not tell how much of it has come. Before a message is read, gRPC
holds 64 KiB of it at most. So each message that is read may take as much memory as the largest, and few are read at
once. Most messages are there as a whole before they are read, so reading them takes no time.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import grpc

from agenteval_collector.ingest.shares import Shares
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import InvalidRequest, Overloaded
from agenteval_collector.runtime.grpc_status import abort

PRESSED_SECONDS: Final = 10.0
"""Seconds that a message may take to come while other calls wait for their turn; and that a call waits for its turn."""
_LOOK_SECONDS: Final = 0.5
"""Seconds between two looks of a call that waits."""


@dataclass(slots=True, eq=False)
class _WaitingCall:
    """A call whose message is to be read."""

    who: str
    context: grpc.ServicerContext
    since: float
    """The time (monotonic) when it began to wait; later, when its turn came."""
    called: threading.Event = field(default_factory=threading.Event, init=False)


class GrpcMessages:
    """The messages of all calls. At most `at_once` are read at once, and those that have come take at most `limit`
    bytes; callers share both. From any thread."""

    def __init__(self, at_once: int, limit: int, clock: Clock) -> None:
        self._turns = Shares(at_once)
        self._bytes = Shares(limit)
        self._clock = clock
        self._lock = threading.Lock()
        # Both by age: the first is the oldest.
        self._waiting: dict[_WaitingCall, None] = {}
        self._coming: dict[_WaitingCall, None] = {}

    def read(self, requests: Iterator[Any], context: grpc.ServicerContext, who: str) -> Any:
        """Return the one message of a call, when its turn has come. Ends the call if there is no message, or no
        room."""
        turn = self._wait(who, context)
        try:
            message = next(requests)
            size = len(message) if isinstance(message, bytes) else message.ByteSize()
            if not self._bytes.take(who, size):
                abort(context, Overloaded("the requests under way take too much memory; send it again later"))
        except StopIteration:
            abort(context, InvalidRequest("the call has no request"))
        finally:
            self._give_back(turn)
        # False: the call has ended already, so that the callback would never run.
        if not context.add_callback(lambda: self._bytes.give_back(who, size)):
            self._bytes.give_back(who, size)
        return message

    def make_room(self) -> None:
        """End the call whose message has been coming for longest, if that is too long while others wait."""
        with self._lock:
            oldest = next(iter(self._coming), None)
        if oldest is not None and self._has_taken_long(oldest):
            oldest.context.cancel()

    def _wait(self, who: str, context: grpc.ServicerContext) -> _WaitingCall:
        turn = _WaitingCall(who, context, self._clock.monotonic())
        with self._lock:
            self._waiting[turn] = None
            self._call_next()
        while not turn.called.wait(_LOOK_SECONDS):
            self.make_room()
            if self._has_taken_long(turn) or not context.is_active():
                self._give_up(turn)
        return turn

    def _give_up(self, turn: _WaitingCall) -> None:
        with self._lock:
            if turn.called.is_set():
                return
            del self._waiting[turn]
        abort(turn.context, Overloaded("as many requests are read as can be; send it again later"))

    def _give_back(self, turn: _WaitingCall) -> None:
        with self._lock:
            del self._coming[turn]
            self._turns.give_back(turn.who)
            self._call_next()

    def _call_next(self) -> None:
        """Start the reading of all messages whose turn it is. The lock is held."""
        have_all = set()
        for turn in list(self._waiting):
            if turn.who in have_all:
                continue
            if not self._turns.take(turn.who):
                have_all.add(turn.who)
                continue
            del self._waiting[turn]
            turn.since = self._clock.monotonic()
            self._coming[turn] = None
            turn.called.set()

    def _has_taken_long(self, turn: _WaitingCall) -> bool:
        return self._clock.monotonic() - turn.since > PRESSED_SECONDS
