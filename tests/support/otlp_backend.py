"""An endpoint of OTLP over HTTP, as a backend of telemetry has it."""

import gzip
import ssl
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from threading import Thread

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest


class Backend:
    """An OTLP/HTTP receiver that keeps what it is sent, by path, and answers as `answers` says in turn, then 200."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.taken: dict[str, Queue[tuple[bytes, Mapping[str, str]]]] = {
            path: Queue() for path in ("/otlp/v1/metrics", "/otlp/v1/logs")
        }
        self.answers: list[int] = []
        backend = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = backend.answers.pop(0) if backend.answers else 200
                if status == 200:
                    backend.taken[self.path].put(
                        (gzip.decompress(body), {name.lower(): value for name, value in self.headers.items()})
                    )
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", "/login")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/otlp"

    def metrics(self) -> tuple[ExportMetricsServiceRequest, Mapping[str, str]]:
        body, headers = self.taken["/otlp/v1/metrics"].get(timeout=30)
        return ExportMetricsServiceRequest.FromString(body), headers

    def logs(self) -> tuple[ExportLogsServiceRequest, Mapping[str, str]]:
        body, headers = self.taken["/otlp/v1/logs"].get(timeout=30)
        return ExportLogsServiceRequest.FromString(body), headers

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
