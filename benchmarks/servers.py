"""Servers to compare with: python -m benchmarks.servers KIND FOLDER

`bare` is a grpcio server that parses every request and forgets it. `accept` is the receiver and the log of the
collector, with nothing behind them. It checks and commits a request before it answers.
"""

import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
from agenteval_collector.config.settings import QuotasConfig, Settings
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.ingest.grpc import SERVICES, otlp_handlers
from agenteval_collector.ingest.ingest import Ingest
from agenteval_collector.ingest.quotas import Quotas
from agenteval_collector.ingest.rejections import RejectionLog
from agenteval_collector.ingest.request_file import RequestFile
from agenteval_collector.ingest.request_log import RequestLog
from agenteval_collector.ingest.validity import Limits
from agenteval_collector.model.callers import ANONYMOUS
from agenteval_collector.model.labels import Label
from agenteval_collector.model.logged_requests import LoggedRequest, Signal
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.runtime.machine import memory_limit
from agenteval_collector.runtime.memory import MemoryGuard
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

Handlers = list[grpc.GenericRpcHandler]


def bare(_folder: Path) -> Handlers:
    """Return handlers that parse each request and answer."""
    answer = ExportTraceServiceResponse().SerializeToString()

    def export(body: bytes, _context: grpc.ServicerContext) -> bytes:
        ExportTraceServiceRequest.FromString(body)
        return answer

    methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {"Export": grpc.unary_unary_rpc_method_handler(export)}
    return [grpc.method_handlers_generic_handler(SERVICES[Signal.TRACES], methods)]


class NoAssembly:
    """Stands for the assembly: it has room for everything, and does nothing with it."""

    def admit(self) -> None: ...

    def take_request(self, request: LoggedRequest) -> None: ...

    def label(self, *said: Label) -> None: ...


def accept(folder: Path) -> Handlers:
    """Return handlers that check each request, commit it and answer."""
    settings = Settings()
    assembly = NoAssembly()
    log = RequestLog(
        RequestFile(folder / "log.db"),
        SystemClock(),
        assembly,
        tenant="default",
        max_pending_bytes=settings.log.max_pending_bytes,
    )
    log.start()
    limits = Limits(request=settings.server.max_request_bytes, span=settings.server.max_span_bytes)
    telemetry = TelemetryOutput(version="0", instance_id="benchmark", is_on_duty=lambda: True).own_work
    memory = MemoryGuard(memory_limit(), SystemClock())
    rejections = RejectionLog(SystemClock().monotonic)
    ingest = Ingest(
        log, assembly, assembly, limits, telemetry, memory, rejections, Quotas(QuotasConfig(), SystemClock())
    )
    return otlp_handlers(lambda _context: ingest, lambda _context: ANONYMOUS)


THREADS = 16

KINDS: dict[str, Callable[[Path], Handlers]] = {"bare": bare, "accept": accept}


def main() -> None:
    """Serve until SIGTERM. Print the address when the port is open."""
    kind, folder = sys.argv[1:]
    server = grpc.server(ThreadPoolExecutor(THREADS), options=[("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers(tuple(KINDS[kind](Path(folder))))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    # The signal is blocked, so that only sigwait gets it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    print(f"127.0.0.1:{port}", flush=True)
    signal.sigwait({signal.SIGTERM})
    server.stop(1.0).wait(2.0)


if __name__ == "__main__":
    main()
