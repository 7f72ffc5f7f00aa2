"""Senders with a known truth: each trace in two requests, over gRPC and HTTP, each sent until it is acknowledged."""

import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

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


def parts(number: int) -> list[ExportTraceServiceRequest]:
    """The requests of trace `number`: a tool call, then the turn that it belongs to, with the count of both."""
    call = span(
        number,
        2,
        parent=1,
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name="search",
        gen_ai__tool__call__arguments=f'{{"q": {number}}}',
        gen_ai__tool__call__result=f"result {number}",
    )
    # Of one sender, so that its traces come in order: else an earlier one that comes late scores those behind it again.
    session = f"session-{number % SENDERS}-{number // 200}"
    root = turn(number, question(number), answer(number), session=session)
    del root.attributes[-2:]  # its marker: there are two spans
    return [traces(call, process="p"), traces(marked(root, 2, "p"), process="p")]


class Workload:
    """Senders that go on wherever the collector is. `acknowledged` holds the traces of which every part was."""

    def __init__(self, addresses: Addresses) -> None:
        self.acknowledged: list[int] = []
        self.sent = 0
        """Requests, those that failed included."""
        self._addresses = addresses
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
        attempt = self._over_grpc if first % 2 else self._over_http
        number = first
        while not self._done.is_set():
            if all(self._insist(attempt, part) for part in parts(number)):
                self.acknowledged.append(number)
            number += SENDERS
            self._done.wait(PAUSE)

    def _insist(self, attempt: Callable[[ExportTraceServiceRequest], bool], part: ExportTraceServiceRequest) -> bool:
        while not self._done.is_set():
            self.sent += 1
            if attempt(part):
                return True
            self._done.wait(AGAIN)
        return False

    def _over_grpc(self, part: ExportTraceServiceRequest) -> bool:
        with grpc.insecure_channel(self._addresses()["grpc"]) as channel:
            try:
                answer = TraceServiceStub(channel).Export(part, timeout=TIMEOUT)
            except grpc.RpcError:
                return False
        assert not answer.partial_success.rejected_spans, answer
        return True

    def _over_http(self, part: ExportTraceServiceRequest) -> bool:
        request = urllib.request.Request(
            f"http://{self._addresses()['http']}/v1/traces",
            data=part.SerializeToString(),
            headers={"Content-Type": "application/x-protobuf"},
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT):
                return True
        except OSError:
            return False
