"""Coverage-guided fuzzing of the reader, with options of libFuzzer: python -m tests.slow.fuzz_reader -max_total_time=60

The first byte of an input chooses what the others are: choices of the property test of hostile spans, which must read
the same in any order; or an export request of spans or of log records as it comes over the wire.
"""

import sys

import atheris
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

with atheris.instrument_imports(include=["otel_agenteval.conventions"]):
    from otel_agenteval.conventions.spans import SpanRecord, attributes, log_record, span_record
    from otel_agenteval.conventions.trace_reader import read_trace
    from tests.unit.test_conventions_hostile import as_json, test_nothing_raises_and_arrival_order_does_not_matter

property_of_choices = test_nothing_raises_and_arrival_order_does_not_matter.hypothesis.fuzz_one_input  # type: ignore[attr-defined]


def read_spans(content: bytes) -> None:
    for of_resource in ExportTraceServiceRequest.FromString(content).resource_spans:
        resource = attributes(of_resource.resource.attributes)
        spans = [span_record(span, resource, "") for scope in of_resource.scope_spans for span in scope.spans]
        as_json(read_trace("t", spans)).encode()


def read_logs(content: bytes) -> None:
    for of_resource in ExportLogsServiceRequest.FromString(content).resource_logs:
        resource = attributes(of_resource.resource.attributes)
        logs = [log_record(record, resource, "") for scope in of_resource.scope_logs for record in scope.log_records]
        chat = {"gen_ai.operation.name": "chat"}
        spans = [SpanRecord(span_id=log.span_id, attributes=chat) for log in logs]
        as_json(read_trace("t", spans, logs)).encode()


def fuzz(data: bytes) -> None:
    kind, content = data[:1], data[1:]
    try:
        if kind == b"s":
            read_spans(content)
        elif kind == b"l":
            read_logs(content)
        else:
            property_of_choices(content)
    except DecodeError:
        return  # not a request: the receiver refuses it


if __name__ == "__main__":
    atheris.Setup(sys.argv, fuzz)
    atheris.Fuzz()
