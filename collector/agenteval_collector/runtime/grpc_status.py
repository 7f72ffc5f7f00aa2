"""Turn the collector's errors into gRPC statuses. Nothing else does."""

from collections.abc import Mapping
from typing import Final, NoReturn

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2

from agenteval_collector.runtime import errors

_CODES: Final[Mapping[type[errors.CollectorError], grpc.StatusCode]] = {
    errors.Overloaded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.RetryableError: grpc.StatusCode.UNAVAILABLE,
    errors.NotFound: grpc.StatusCode.NOT_FOUND,
    errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    errors.Forbidden: grpc.StatusCode.PERMISSION_DENIED,
    errors.InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    errors.RequestTooLarge: grpc.StatusCode.INVALID_ARGUMENT,
    errors.CollectorError: grpc.StatusCode.INTERNAL,
}
"""The first class that fits counts. Retryable errors have the codes that OTLP clients retry."""


def status_code(error: errors.CollectorError) -> grpc.StatusCode:
    """Return the gRPC status of an error."""
    return next(code for kind, code in _CODES.items() if isinstance(error, kind))


def status_details(error: errors.CollectorError) -> status_pb2.Status:
    """Return the error as `google.rpc.Status`, with the delay to wait if it is retryable."""
    details = []
    if isinstance(error, errors.RetryableError):
        packed = any_pb2.Any()
        packed.Pack(_retry_info(error))
        details.append(packed)
    code = code_pb2.Code.Value(status_code(error).name)
    return status_pb2.Status(code=code, message=str(error), details=details)


def abort(context: grpc.ServicerContext, error: errors.CollectorError) -> NoReturn:
    """End the call with the error's status.

    The delay is sent twice: in the status details, as the standard has it, and in a metadata key, as the Python OTLP
    exporter reads nothing else.
    """
    metadata: list[tuple[str, str | bytes]] = [("grpc-status-details-bin", status_details(error).SerializeToString())]
    if isinstance(error, errors.RetryableError):
        metadata.append(("google.rpc.retryinfo-bin", _retry_info(error).SerializeToString()))
    context.set_trailing_metadata(tuple(metadata))
    context.abort(status_code(error), str(error))
    raise AssertionError("grpc's abort always raises")


def _retry_info(error: errors.RetryableError) -> error_details_pb2.RetryInfo:
    delay = duration_pb2.Duration()
    delay.FromNanoseconds(round(error.retry_after * 1e9))
    return error_details_pb2.RetryInfo(retry_delay=delay)
