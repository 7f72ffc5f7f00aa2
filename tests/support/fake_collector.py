"""A collector that keeps what it gets and answers as it is told: a real gRPC server for tests of clients."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import Queue
from types import TracebackType
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_agenteval.proto.v1.evaluation_pb2 import (
    ReportRunRequest,
    ReportRunResponse,
    ReportStartsRequest,
    ReportStartsResponse,
    WatchRequest,
    WatchResponse,
)
from tests.support.ports import free_port

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
REPORT_RUN = "/otel_agenteval.proto.v1.EvaluationService/ReportRun"
REPORT_STARTS = "/otel_agenteval.proto.v1.EvaluationService/ReportStarts"
WATCH = "/otel_agenteval.proto.v1.EvaluationService/Watch"


@dataclass
class Reply:
    """One scripted answer: an error where `code` is given, else a success with or without rejected spans."""

    code: grpc.StatusCode | None = None
    details: str = ""
    trailers: tuple[tuple[str, bytes], ...] = ()
    rejected: int = 0
    message: str = ""
    hold: threading.Event | None = None
    """Answer only once this is set; at the latest after ten seconds."""


@dataclass
class Received:
    """What arrived, refused requests included."""

    requests: list[bytes] = field(default_factory=list)
    accepted: list[bytes] = field(default_factory=list)
    reports: list[ReportRunRequest] = field(default_factory=list)
    starts: list[ReportStartsRequest] = field(default_factory=list)
    watches: list[WatchRequest] = field(default_factory=list)
    metadata: list[dict[str, Any]] = field(default_factory=list)


class FakeCollector:
    """Listens on a free port, or on the one given; `script` and `report_script` are used up, then all is taken."""

    def __init__(self, port: int | None = None, max_message_bytes: int = 64 * 1024 * 1024) -> None:
        self.received = Received()
        self.script: deque[Reply] = deque()
        self.report_script: deque[Reply] = deque()
        self._arrived = threading.Condition()
        self._server = grpc.server(
            ThreadPoolExecutor(16),
            options=[("grpc.max_receive_message_length", max_message_bytes), ("grpc.so_reuseport", 0)],
        )
        self.starts_script: deque[Reply] = deque()
        self._untold: deque[bytes] = deque()
        self._readers: list[Queue[bytes | None]] = []
        unary: dict[str, Callable[[bytes, grpc.ServicerContext], bytes]] = {
            EXPORT: self._export,
            REPORT_RUN: self._report,
            REPORT_STARTS: self._starts,
        }
        self._server.add_generic_rpc_handlers((_Handlers(unary, {WATCH: self._watch}),))
        # Clients go on trying a collector that has stopped: nobody else may get its port, and the next one must.
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port or free_port()}")
        self._server.start()

    def __enter__(self) -> "FakeCollector":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """End at once, refusing what is in flight."""
        self._server.stop(None).wait(10)

    def spans(self) -> list[Span]:
        """The spans of accepted requests, in order of arrival."""
        return [span for _, span in self.spans_with_resource()]

    def spans_with_resource(self) -> list[tuple[dict[str, Any], Span]]:
        """The spans of accepted requests, each with its resource's attributes."""
        with self._arrived:
            messages = [ExportTraceServiceRequest.FromString(request) for request in self.received.accepted]
        return [
            (attributes(group.resource), span)
            for message in messages
            for group in message.resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]

    def wait_for(self, condition: Callable[[Received], bool], timeout: float = 30.0) -> bool:
        """Wait until `condition` holds of what arrived; False after `timeout` seconds."""
        with self._arrived:
            return self._arrived.wait_for(lambda: condition(self.received), timeout)

    def tell(self, message: WatchResponse | bytes) -> None:
        """Give this to the reader of the watch stream who has come last; without one, to the next."""
        with self._arrived:
            self._untold.append(message if isinstance(message, bytes) else message.SerializeToString())
            self._pass_on()

    def break_stream(self) -> None:
        """End the streams of all readers as a collector does that goes away."""
        with self._arrived:
            for told in self._readers:
                told.put(None)

    def _pass_on(self) -> None:
        while self._readers and self._untold:
            self._readers[-1].put(self._untold.popleft())

    def _watch(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        told: Queue[bytes | None] = Queue()
        # gRPC cancels no handler: without this its thread would outlive the reader, and keep the process from ending.
        if not context.add_callback(lambda: told.put(None)):
            return
        with self._arrived:
            self._readers.append(told)
            self._pass_on()
            self.received.watches.append(WatchRequest.FromString(request))
            self._arrived.notify_all()
        try:
            yield from iter(told.get, None)
        finally:
            with self._arrived:
                self._readers.remove(told)
        if context.is_active():
            context.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    def _starts(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        _refuse(self.starts_script.popleft() if self.starts_script else Reply(), context)
        with self._arrived:
            self.received.starts.append(ReportStartsRequest.FromString(request))
            self._arrived.notify_all()
        return ReportStartsResponse().SerializeToString()

    def _export(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        reply = self.script.popleft() if self.script else Reply()
        with self._arrived:
            self.received.requests.append(request)
            self.received.metadata.append(dict(context.invocation_metadata()))
            self._arrived.notify_all()
        _refuse(reply, context)
        with self._arrived:
            self.received.accepted.append(request)
            self._arrived.notify_all()
        response = ExportTraceServiceResponse()
        if reply.rejected or reply.message:
            response.partial_success.rejected_spans = reply.rejected
            response.partial_success.error_message = reply.message
        return response.SerializeToString()

    def _report(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        _refuse(self.report_script.popleft() if self.report_script else Reply(), context)
        with self._arrived:
            self.received.reports.append(ReportRunRequest.FromString(request))
            self._arrived.notify_all()
        return ReportRunResponse().SerializeToString()


def _refuse(reply: Reply, context: grpc.ServicerContext) -> None:
    if reply.hold is not None:
        reply.hold.wait(10)
    if reply.trailers:
        context.set_trailing_metadata(reply.trailers)
    if reply.code is not None:
        context.abort(reply.code, reply.details)


class _Handlers(grpc.GenericRpcHandler):
    def __init__(
        self,
        unary: dict[str, Callable[[bytes, grpc.ServicerContext], bytes]],
        streams: dict[str, Callable[[bytes, grpc.ServicerContext], Iterator[bytes]]],
    ) -> None:
        self._unary = unary
        self._streams = streams

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        name = handler_call_details.method
        if name in self._streams:
            return grpc.unary_stream_rpc_method_handler(self._streams[name])
        return grpc.unary_unary_rpc_method_handler(self._unary[name]) if name in self._unary else None


def attributes(holder: Any) -> dict[str, Any]:
    """The attributes of a span or resource message, by key; raises ValueError for a key that occurs twice."""
    found: dict[str, Any] = {}
    for item in holder.attributes:
        if item.key in found:
            raise ValueError(f"attribute {item.key!r} occurs twice")
        kind = item.value.WhichOneof("value")
        found[item.key] = getattr(item.value, kind) if kind else None
    return found
