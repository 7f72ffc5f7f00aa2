"""A backend that takes events, as an OTLP log receiver of the user's: it keeps what each event said, and how often."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc

from tests.support.fake_collector import attributes


class Said(NamedTuple):
    """What an event said of a trace."""

    trace_id: str
    name: str
    revision: int
    score: float | None


class EventBackend(logs_service_pb2_grpc.LogsServiceServicer):
    """Keeps events by id. `contradictions` are ids under which two things were said."""

    def __init__(self) -> None:
        self.said: dict[str, Said] = {}
        self.times: Counter[str] = Counter()
        self.contradictions: set[str] = set()
        self._lock = threading.Lock()

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        for resource in request.resource_logs:
            for scope in resource.scope_logs:
                for record in scope.log_records:
                    self._take(record.trace_id.hex(), attributes(record))
        return logs_service_pb2.ExportLogsServiceResponse()

    @property
    def duplicates(self) -> int:
        """How many events came that had come before."""
        return self.times.total() - len(self.times)

    def _take(self, trace_id: str, told: dict[str, Any]) -> None:
        said = Said(
            trace_id,
            told["gen_ai.evaluation.name"],
            told.get("agenteval.evaluation.revision", 0),
            told.get("gen_ai.evaluation.score.value"),
        )
        with self._lock:
            event_id = told["agenteval.event.id"]
            if self.said.setdefault(event_id, said) != said:
                self.contradictions.add(event_id)
            self.times[event_id] += 1


@contextmanager
def event_backend(host: str = "127.0.0.1") -> Iterator[tuple[EventBackend, str]]:
    """Yield a backend that listens on an address of this machine, and its URL."""
    backend = EventBackend()
    server = grpc.server(ThreadPoolExecutor(4))
    logs_service_pb2_grpc.add_LogsServiceServicer_to_server(backend, server)
    port = server.add_insecure_port(f"{host}:0")
    server.start()
    try:
        yield backend, f"http://{host}:{port}"
    finally:
        server.stop(None).wait(10)
