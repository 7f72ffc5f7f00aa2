"""Recorded conversations as sessions of their own, as often as a test needs them: other ids, the same content."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_agenteval import semconv
from tests.support.eventually import eventually
from tests.support.recordings import read_requests
from tests.support.running_collector import RunningCollector


@dataclass(frozen=True, slots=True, kw_only=True)
class Resent:
    """A session as it is sent: its id, its traces, and the requests that carry them."""

    session_id: str
    trace_ids: Collection[str]
    spans: Collection[ExportTraceServiceRequest]
    logs: Collection[ExportLogsServiceRequest] = ()

    def send(self, collector: RunningCollector) -> None:
        """Send all of it over gRPC; logs first, so that no trace is judged without them and then again."""
        for logs in self.logs:
            collector.send_logs(logs)
        for request in self.spans:
            collector.send(request)

    def settled(self, collector: RunningCollector, *, within: float = 60.0) -> dict[str, Any]:
        """The documents of its traces by id, once nothing of them is pending."""

        def look(trace_id: str) -> Any:
            document = collector.get(f"/api/v1/traces/{trace_id}")
            return document if document and document["complete"] and document["status"] != "pending" else None

        return {each: eventually(partial(look, each), within=within) for each in self.trace_ids}


def resent(truth: Path, session_id: str) -> Resent:
    """The recording of `X.expected.json` under another session and other traces."""
    spans = list(read_requests(_beside(truth, ".otlp.pb"), ExportTraceServiceRequest))
    logs_of = _beside(truth, ".logs.otlp.pb")
    logs = list(read_requests(logs_of, ExportLogsServiceRequest)) if logs_of.exists() else []
    trace_ids = set()
    for span in _spans(spans):
        span.trace_id = _renamed(span.trace_id, session_id)
        span.attributes.add(key=semconv.AGENTEVAL_SESSION_ID).value.string_value = session_id
        for link in span.links:
            link.trace_id = _renamed(link.trace_id, session_id)
        trace_ids.add(span.trace_id.hex())
    for log in _log_records(logs):
        log.trace_id = log.trace_id and _renamed(log.trace_id, session_id)
    return Resent(session_id=session_id, trace_ids=trace_ids, spans=spans, logs=logs)


def _beside(truth: Path, ending: str) -> Path:
    return truth.with_name(truth.name.replace(".expected.json", ending))


def _spans(requests: Collection[ExportTraceServiceRequest]) -> Iterator[Span]:
    for request in requests:
        for of_resource in request.resource_spans:
            for of_scope in of_resource.scope_spans:
                yield from of_scope.spans


def _log_records(requests: Collection[ExportLogsServiceRequest]) -> Iterator[LogRecord]:
    for request in requests:
        for of_resource in request.resource_logs:
            for of_scope in of_resource.scope_logs:
                yield from of_scope.log_records


def _renamed(trace_id: bytes, session_id: str) -> bytes:
    return sha256(session_id.encode() + trace_id).digest()[:16]
