"""Receive OTLP over gRPC. Requests stay bytes between the wire and the log."""

from collections.abc import Callable
from typing import Final

import grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from agenteval_collector.ingest.ingest import Ingest
from agenteval_collector.ingest.validity import Checked
from agenteval_collector.model.callers import Caller, Scope
from agenteval_collector.model.logged_requests import Signal
from agenteval_collector.runtime.errors import CollectorError
from agenteval_collector.runtime.grpc_status import abort

SERVICES = {
    Signal.TRACES: "opentelemetry.proto.collector.trace.v1.TraceService",
    Signal.LOGS: "opentelemetry.proto.collector.logs.v1.LogsService",
}

SCOPES: Final = {f"/{service}/Export": (Scope.WRITE,) for service in SERVICES.values()}
"""The scopes of which each method needs one."""


def response(signal: Signal, checked: Checked) -> ExportTraceServiceResponse | ExportLogsServiceResponse:
    """Return the answer to an accepted request, with a partial success only if something was rejected."""
    answer = ExportTraceServiceResponse() if signal is Signal.TRACES else ExportLogsServiceResponse()
    if checked.rejected:
        answer.partial_success.error_message = checked.reason
        field = "rejected_spans" if signal is Signal.TRACES else "rejected_log_records"
        setattr(answer.partial_success, field, checked.rejected)
    return answer


def otlp_handlers(
    ingest_of: Callable[[grpc.ServicerContext], Ingest], caller_of: Callable[[grpc.ServicerContext], Caller]
) -> list[grpc.GenericRpcHandler]:
    """Return the Export methods of traces and logs. `ingest_of` gives the ingest that a call's bytes go to."""
    return [
        grpc.method_handlers_generic_handler(
            service, {"Export": grpc.unary_unary_rpc_method_handler(_export(ingest_of, caller_of, signal))}
        )
        for signal, service in SERVICES.items()
    ]


def _export(
    ingest_of: Callable[[grpc.ServicerContext], Ingest],
    caller_of: Callable[[grpc.ServicerContext], Caller],
    signal: Signal,
) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    def export(body: bytes, context: grpc.ServicerContext) -> bytes:
        ingest = ingest_of(context)
        try:
            checked = ingest.take_request(signal, body, caller_of(context))
        except CollectorError as error:
            ingest.refused(error)
            abort(context, error)
        return response(signal, checked).SerializeToString()

    return export
