"""The door of a gRPC server whose places are taken."""

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from agenteval_collector.model.callers import Scope
from agenteval_collector.serve.doors.grpc_door import HEALTH_CHECK, Door, caller_of
from agenteval_collector.serve.doors.grpc_messages import PRESSED_SECONDS
from google.rpc import status_pb2

from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.keys import door

METHOD = "/test.Service/Say"
SCOPES = {METHOD: (Scope.READ,)}
SECONDS = 20.0


class Held(threading.Event):
    """What the method waits for, and how many calls of it do."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0


@contextmanager
def served(at: Door, said: Held) -> Iterator[Any]:
    """A channel to a server with this door. `Say` waits for the event, and answers with the name of the caller."""

    def say(request: bytes, context: grpc.ServicerContext) -> bytes:
        said.calls += 1
        said.wait(SECONDS)
        return caller_of(context).name.encode()

    server = grpc.server(ThreadPoolExecutor(4), interceptors=[at])
    handlers: Any = {"Say": grpc.unary_unary_rpc_method_handler(say)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test.Service", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        said.set()
        server.stop(0).wait(SECONDS)


@pytest.fixture
def said() -> Held:
    return Held()


def asked(channel: Any, **options: Any) -> Any:
    return channel.unary_unary(METHOD).future(b"", timeout=SECONDS, **options)


def code(call: Any) -> grpc.StatusCode:
    call.exception(timeout=SECONDS)
    answer: grpc.StatusCode = call.code()
    return answer


def test_the_method_knows_its_caller(said: Held) -> None:
    said.set()
    with served(door(SCOPES, {"name": "shop", "key": "secret", "scopes": ["read"]}), said) as channel:
        for given in ("Bearer secret", "bearer  secret "):
            assert asked(channel, metadata=(("authorization", given),)).result() == b"shop"
        for given in ("Basic secret", "secret", "Bearer", "Bearer Secret", ""):
            refused = asked(channel, metadata=(("authorization", given),))
            assert code(refused) is grpc.StatusCode.UNAUTHENTICATED


def test_without_keys_everybody_is_anonymous(said: Held) -> None:
    said.set()
    with served(door(SCOPES), said) as channel:
        assert asked(channel).result() == b"anonymous"


def test_where_all_places_are_taken_calls_are_told_to_come_back_and_health_is_answered(said: Held) -> None:
    with served(door(SCOPES, slots=3), said) as channel:
        under_way = [asked(channel), asked(channel)]
        eventually(lambda: said.calls == 2)
        refused = asked(channel)
        assert code(refused) is grpc.StatusCode.RESOURCE_EXHAUSTED
        details = dict(refused.trailing_metadata())["grpc-status-details-bin"]
        assert status_pb2.Status.FromString(details).details
        assert channel.unary_unary(HEALTH_CHECK)(b"", timeout=SECONDS) == b"\x08\x01"
        said.set()
        assert [each.result() for each in under_way] == [b"anonymous"] * 2
        eventually(lambda: code(asked(channel)) is grpc.StatusCode.OK)


def test_a_call_whose_request_does_not_come_gives_its_place_to_the_next(
    said: Held, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock, ended = ManualClock(), threading.Event()

    def nothing() -> Iterator[bytes]:
        ended.wait(SECONDS)
        yield from ()

    said.set()
    # Labelling is in the audit log, which shows that the call has its place.
    with served(door({METHOD: (Scope.LABEL,)}, slots=1, clock=clock), said) as channel:
        silent = channel.stream_unary(METHOD).future(nothing(), timeout=60)
        eventually(lambda: '"allowed"' in caplog.text)
        assert code(asked(channel)) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert not silent.done()
        clock.advance(PRESSED_SECONDS + 1)
        eventually(lambda: code(asked(channel)) is grpc.StatusCode.OK)
        assert code(silent) is grpc.StatusCode.CANCELLED
        ended.set()


def test_a_call_without_a_request_is_refused(said: Held) -> None:
    with served(door(SCOPES), said) as channel:
        call = channel.stream_unary(METHOD).future(iter(()), timeout=SECONDS)
        assert code(call) is grpc.StatusCode.INVALID_ARGUMENT


def test_health_says_when_the_work_cannot_be_done(said: Held) -> None:
    with served(door(SCOPES, "secret", health="the disk is full"), said) as channel:
        assert channel.unary_unary(HEALTH_CHECK)(b"", timeout=SECONDS) == b"\x08\x02"
