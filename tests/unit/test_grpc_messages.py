"""The memory of gRPC messages that come, and of those that have come."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeAlias

import grpc
import pytest
from agenteval_collector.serve.doors.grpc_messages import PRESSED_SECONDS, GrpcMessages

from tests.support.clock import ManualClock
from tests.support.eventually import eventually

LIMIT = 100
AT_ONCE = 4


Begun: TypeAlias = "tuple[Call, Future[Any]]"


class Call:
    """A call as gRPC shows it, whose one message comes when `message` is set."""

    def __init__(self) -> None:
        self.message: bytes | None = None
        self.is_asked = self.is_cancelled = self.is_stuck = False
        self.code: grpc.StatusCode | None = None
        self._arrived = threading.Event()
        self._over: list[Callable[[], None]] = []

    def __next__(self) -> bytes:
        self.is_asked = True
        self._arrived.wait(20)
        if self.is_cancelled:
            raise grpc.RpcError
        assert self.message is not None
        return self.message

    def arrive(self, message: bytes) -> None:
        self.message = message
        self._arrived.set()

    def is_active(self) -> bool:
        return not self.is_cancelled

    def cancel(self) -> None:
        if self.is_stuck:
            return
        self.is_cancelled = True
        self._arrived.set()

    def set_trailing_metadata(self, metadata: object) -> None:
        """What goes with the refusal."""

    def abort(self, code: grpc.StatusCode, _details: str) -> None:
        self.code = code
        raise grpc.RpcError

    def add_callback(self, callback: Callable[[], None]) -> bool:
        self._over.append(callback)
        return True

    def end(self) -> None:
        for each in self._over:
            each()


class Door:
    """GrpcMessages behind a door: `AT_ONCE` at once, of `LIMIT` bytes together."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.clock = ManualClock()
        self.messages = GrpcMessages(AT_ONCE, LIMIT, self.clock)
        self._pool = pool

    def begin(self, who: str = "shop") -> Begun:
        """A call whose message is to be read."""
        call: Any = Call()
        known = len(self.messages._coming) + len(self.messages._waiting)
        read = self._pool.submit(lambda: self.messages.read(call, call, who))
        eventually(lambda: len(self.messages._coming) + len(self.messages._waiting) > known)
        return call, read


@pytest.fixture
def door() -> Iterator[Door]:
    with ThreadPoolExecutor(8) as pool:
        yield Door(pool)


def answered(begun: Begun, message: bytes = b"x") -> bool:
    """Whether the message of a call is read once it has come."""
    call, read = begun
    call.arrive(message)
    return bool(read.result(20) == message)


def code(begun: Begun) -> grpc.StatusCode | None:
    call, read = begun
    with pytest.raises(grpc.RpcError):
        read.result(20)
    return call.code


def test_who_sends_slowly_leaves_turns_to_others(door: Door) -> None:
    slow = [door.begin("slow") for _ in range(AT_ONCE)]
    assert answered(door.begin("quick"))
    assert [call.is_asked for call, _ in slow] == [True, True, True, False]
    assert answered(slow[0])
    assert all(answered(each) for each in slow[1:])


def test_a_message_that_takes_long_gives_its_turn_to_those_who_wait(door: Door) -> None:
    slow = [door.begin() for _ in range(AT_ONCE - 1)]
    door.clock.advance(PRESSED_SECONDS - 1)
    waiting = door.begin()
    door.clock.advance(2)
    assert answered(waiting)
    assert slow[0][0].is_cancelled
    for call, _ in slow:
        call.cancel()


def test_who_waits_too_long_is_told_to_come_back(door: Door) -> None:
    stuck = [door.begin() for _ in range(AT_ONCE - 1)]
    for call, _ in stuck:
        call.is_stuck = True
    waiting = door.begin()
    door.clock.advance(PRESSED_SECONDS + 1)
    assert code(waiting) is grpc.StatusCode.RESOURCE_EXHAUSTED
    for each in stuck:
        assert answered(each)
    assert answered(door.begin())


def test_who_goes_away_waits_no_more(door: Door) -> None:
    slow = [door.begin() for _ in range(AT_ONCE - 1)]
    waiting = door.begin()
    waiting[0].cancel()
    code(waiting)
    assert all(answered(each) for each in slow)


def test_who_wants_a_place_ends_the_oldest_message_only(door: Door) -> None:
    calls = [door.begin()[0] for _ in range(3)]
    door.messages.make_room()
    assert not calls[0].is_cancelled
    door.clock.advance(PRESSED_SECONDS + 1)
    door.messages.make_room()
    assert [each.is_cancelled for each in calls] == [True, False, False]
    for each in calls[1:]:
        each.cancel()


def test_messages_that_have_come_count_by_their_size_until_their_calls_are_over(door: Door) -> None:
    first = door.begin()
    assert answered(first, bytes(LIMIT))
    second = door.begin("another")
    second[0].arrive(b"x")
    assert code(second) is grpc.StatusCode.RESOURCE_EXHAUSTED
    first[0].end()
    assert answered(door.begin("another"))
