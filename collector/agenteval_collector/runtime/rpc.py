"""The one place where errors become gRPC statuses, and where a caller's key is checked."""

import hmac
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2

from agenteval_collector.runtime.errors import (
    CollectorError,
    InvalidRequest,
    NotFound,
    Overloaded,
    RequestTooLarge,
    RetryableError,
)


def status_code(error: CollectorError) -> grpc.StatusCode:
    """Return the gRPC status of an error; retryable ones are those that OTLP clients retry."""
    match error:
        case Overloaded():
            return grpc.StatusCode.RESOURCE_EXHAUSTED
        case RetryableError():
            return grpc.StatusCode.UNAVAILABLE
        case NotFound():
            return grpc.StatusCode.NOT_FOUND
        case InvalidRequest() | RequestTooLarge():
            return grpc.StatusCode.INVALID_ARGUMENT
        case _:
            return grpc.StatusCode.INTERNAL


def status_details(error: CollectorError) -> status_pb2.Status:
    """Return the error as `google.rpc.Status`, with the delay to wait where it is retryable."""
    details = []
    if isinstance(error, RetryableError):
        packed = any_pb2.Any()
        packed.Pack(_retry_info(error))
        details.append(packed)
    code = code_pb2.Code.Value(status_code(error).name)
    return status_pb2.Status(code=code, message=str(error), details=details)


def abort(context: grpc.ServicerContext, error: CollectorError) -> NoReturn:
    """End the call with the error's status.

    The delay is sent twice: the status details are the standard, and the Python OTLP exporter reads only the
    metadata key of its own.
    """
    metadata: list[tuple[str, str | bytes]] = [("grpc-status-details-bin", status_details(error).SerializeToString())]
    if isinstance(error, RetryableError):
        metadata.append(("google.rpc.retryinfo-bin", _retry_info(error).SerializeToString()))
    context.set_trailing_metadata(tuple(metadata))
    context.abort(status_code(error), str(error))
    raise AssertionError("grpc's abort always raises")


def _retry_info(error: RetryableError) -> error_details_pb2.RetryInfo:
    delay = duration_pb2.Duration()
    delay.FromNanoseconds(round(error.retry_after * 1e9))
    return error_details_pb2.RetryInfo(retry_delay=delay)


class KeyInterceptor(grpc.ServerInterceptor):
    """Refuses every call without `authorization: Bearer KEY` for one of `keys`."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._expected = [f"Bearer {key}".encode() for key in keys]

    def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler[Any, Any] | None]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "grpc.RpcMethodHandler[Any, Any] | None":
        given = dict(handler_call_details.invocation_metadata or ()).get("authorization", "")
        given = given if isinstance(given, bytes) else given.encode()
        # Every key is compared, so that time tells nothing about which one was nearly right.
        if any([hmac.compare_digest(given, key) for key in self._expected]):
            return continuation(handler_call_details)
        return grpc.unary_unary_rpc_method_handler(_refuse)


def _refuse(_request: object, context: grpc.ServicerContext) -> NoReturn:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, "a key is needed: send it as `authorization: Bearer KEY`")
    raise AssertionError("grpc's abort always raises")
