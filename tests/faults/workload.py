"""Senders with a known truth: each trace in two requests, over gRPC and HTTP, each sent until it is acknowledged."""

import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.support.otlp import marked, span, traces, turn

SENDERS = 4
PAUSE = 0.05
"""Seconds between two traces of a sender."""
AGAIN = 0.3
"""Seconds before what failed is sent again."""
TIMEOUT = 5.0

Addresses = Callable[[], Mapping[str, str]]


def question(number: int) -> str:
    return f"question {number}"


def answer(number: int) -> str:
    return f"the answer to question {number} is {number * 7919 % 104_729}"


def fails(number: int) -> bool:
    """Whether the tool of this trace fails."""
    return number % 5 == 0


def parts(number: int, session: str) -> list[ExportTraceServiceRequest]:
    """The requests of trace `number`: a tool call, then the turn that it belongs to, with the count of both. One
    call in five fails."""
    call = span(
        number,
        2,
        parent=1,
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name="search",
        gen_ai__tool__call__arguments=f'{{"q": {number}}}',
        gen_ai__tool__call__result=f"result {number}",
    )
    if fails(number):
        call.status.code = Status.STATUS_CODE_ERROR
    root = turn(number, question(number), answer(number), session=session)
    del root.attributes[-2:]  # its marker: there are two spans
    return [traces(call, process="p"), traces(marked(root, 2, "p"), process="p")]


class Workload:
    """Senders that go on wherever the collector is. `acknowledged` holds the traces of which every part was."""

    def __init__(self, addresses: Addresses, pause: float = PAUSE) -> None:
        self.acknowledged: list[int] = []
        self.sent = 0
        """Requests, those that failed included."""
        self.taken = 0
        """Requests that were acknowledged."""
        self._addresses = addresses
        self._pause = pause
        self._done = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        senders = [threading.Thread(target=self._send, args=(first,)) for first in range(1, SENDERS + 1)]
        for sender in senders:
            sender.start()
        try:
            yield
        finally:
            self._done.set()
            for sender in senders:
                sender.join(60)

    def _send(self, first: int) -> None:
        attempt = send_over_grpc if first % 2 else send_over_http
        number = first
        while not self._done.is_set():
            # Of one sender, so that its traces come in order: one that comes late scores those behind it again.
            session = f"session-{number % SENDERS}-{number // 200}"
            if all(self._insist(attempt, part) for part in parts(number, session)):
                self.acknowledged.append(number)
            number += SENDERS
            self._done.wait(self._pause)

    def _insist(
        self, attempt: Callable[[Mapping[str, str], ExportTraceServiceRequest], bool], part: ExportTraceServiceRequest
    ) -> bool:
        while not self._done.is_set():
            self.sent += 1
            if attempt(self._addresses(), part):
                self.taken += 1
                return True
            self._done.wait(AGAIN)
        return False


def send_over_grpc(addresses: Mapping[str, str], part: ExportTraceServiceRequest) -> bool:
    """Send a request, and return whether it was acknowledged."""
    with grpc.insecure_channel(addresses["grpc"]) as channel:
        try:
            answer = TraceServiceStub(channel).Export(part, timeout=TIMEOUT)
        except grpc.RpcError:
            return False
    assert not answer.partial_success.rejected_spans, answer
    return True


def send_over_http(addresses: Mapping[str, str], part: ExportTraceServiceRequest) -> bool:
    """The same over HTTP."""
    request = urllib.request.Request(
        f"http://{addresses['http']}/v1/traces",
        data=part.SerializeToString(),
        headers={"Content-Type": "application/x-protobuf"},
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT):
            return True
    except OSError:
        return False
