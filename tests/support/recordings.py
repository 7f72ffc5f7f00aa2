"""Recorded telemetry: requests as an exporter sent them, each prefixed by its length as a varint."""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_agenteval.conventions.spans import LogRecord, SpanRecord, attributes, log_record, span_record
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import Trace

DATA = Path(__file__).parents[1] / "data"

Request = TypeVar("Request", bound=Message)


def recordings(*folders: str) -> list[Path]:
    """The recordings of spans in these folders of `tests/data`, without those of log records beside them."""
    found = [path for folder in folders for path in sorted((DATA / folder).glob("*.otlp.pb"))]
    return [path for path in found if ".logs." not in path.name]


def name_of(path: Path) -> str:
    """The name of a recording, or of the truth about it, for the ids of tests."""
    return path.name.removesuffix(".otlp.pb").removesuffix(".expected.json")


def logs_of(path: Path) -> Path:
    """Where the log records of a recording are, if it has any."""
    return path.with_name(f"{name_of(path)}.logs.otlp.pb")


def read_requests(path: Path, kind: type[Request]) -> Iterator[Request]:
    """The requests of a recording, in the order they were sent."""
    content, position = path.read_bytes(), 0
    while position < len(content):
        size = shift = 0
        while True:
            byte = content[position]
            position += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        yield kind.FromString(content[position : position + size])
        position += size


@cache
def recorded_spans(path: Path) -> dict[str, list[SpanRecord]]:
    """The spans of a recording in order of arrival, by trace id."""
    found: defaultdict[str, list[SpanRecord]] = defaultdict(list)
    for request in read_requests(path, ExportTraceServiceRequest):
        for of_resource in request.resource_spans:
            resource = attributes(of_resource.resource.attributes)
            for of_scope in of_resource.scope_spans:
                for span in of_scope.spans:
                    found[span.trace_id.hex()].append(span_record(span, resource, of_scope.scope.name))
    return dict(found)


@cache
def recorded_logs(path: Path) -> dict[str, list[LogRecord]]:
    """The log records of a recording in order of arrival, by trace id; none where the file does not exist."""
    found: defaultdict[str, list[LogRecord]] = defaultdict(list)
    if not path.exists():
        return {}
    for request in read_requests(path, ExportLogsServiceRequest):
        for of_resource in request.resource_logs:
            resource = attributes(of_resource.resource.attributes)
            for of_scope in of_resource.scope_logs:
                for log in of_scope.log_records:
                    found[log.trace_id.hex()].append(log_record(log, resource, of_scope.scope.name))
    return dict(found)


@cache
def recorded_traces(path: Path) -> dict[str, Trace]:
    """The traces of a recording as the reader reads them, by trace id; read once for all tests of a process."""
    logs = recorded_logs(logs_of(path))
    return {key: read_trace(key, spans, logs.get(key, ())) for key, spans in recorded_spans(path).items()}
