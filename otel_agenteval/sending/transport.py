"""One gRPC channel to the collector, and the meaning of its answers: delivered, try again, or refused."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otel_agenteval.config import Destination
from otel_agenteval.internal.text import visible
from otel_agenteval.sending.background import forks_wait

EXPORT_METHOD: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SERVICE: Final = "otel_agenteval.proto.v1.EvaluationService"
REPORT_METHOD: Final = f"/{SERVICE}/ReportRun"
FEEDBACK_METHOD: Final = f"/{SERVICE}/ReportFeedback"
STARTS_METHOD: Final = f"/{SERVICE}/ReportStarts"

# https://opentelemetry.io/docs/specs/otlp/#failures; RESOURCE_EXHAUSTED also without a RetryInfo, because a
# collector that sheds load wants these spans later.
_RETRYABLE: Final = frozenset(
    {
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)
_CONNECTION_LOST: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})
# The beginnings of gRPC's details of a failure to connect, or to resolve the name. Nothing else tells such a failure
# from a collector that answers UNAVAILABLE. With a wording that is not listed, the collector counts as reached: we wait
# for it.
_NOT_CONNECTED: Final = ("failed to connect to all addresses", "errors resolving", "DNS resolution failed")
_RETRY_INFO: Final = "google.rpc.retryinfo-bin"
_STATUS_DETAILS: Final = "grpc-status-details-bin"

_logger = logging.getLogger("otel_agenteval")


@dataclass(frozen=True, slots=True)
class Delivered:
    """The collector has the request, except `rejected` spans that it refused with `message`."""

    rejected: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class Retry:
    """The same request may be taken later: `after` so many seconds, None if the collector did not say when.

    `never_reached` is true if no attempt so far found a collector to connect to.
    """

    problem: str
    after: float | None = None
    never_reached: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """The same request would fail again. With `too_large`, a smaller one may pass."""

    problem: str
    too_large: bool = False


Answer: TypeAlias = Delivered | Retry | Refused


class Transport:
    """Connects at the first call, and anew after a lost connection, because gRPC's own back-off grows to two
    minutes."""

    def __init__(self, destination: Callable[[], Destination]) -> None:
        self._destination = destination
        self._channel: grpc.Channel | None = None
        self._reached = False

    def send(self, method: str, request: bytes, timeout: float) -> Answer:
        """Send an encoded request, and wait for the answer at most `timeout` seconds. Failures are answers, not
        errors."""
        with forks_wait():
            return self._call(method, request, timeout)

    def close(self) -> None:
        """Close the connection. A call in progress ends."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _call(self, method: str, request: bytes, timeout: float) -> Answer:
        destination = self._destination()
        if self._channel is None:
            try:
                self._channel = open_channel(destination)
            except OSError as error:
                problem = f"cannot read the TLS files of {destination.target}: {error}"
                return Retry(problem, never_reached=not self._reached)
        channel = self._channel
        try:
            # Without serializers: the request is bytes already, and most answers are not read.
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method, None, None)
            response = call(request, timeout=timeout, metadata=destination.headers)
        except grpc.RpcError as error:
            if error.code() in _CONNECTION_LOST:
                self.close()
            self._reached = self._reached or not _is_not_connected(error)
            return _failure(destination, error, self._reached)
        except ValueError:
            # gRPC raises ValueError for a channel that `close` has closed meanwhile. Anything else is a bug of ours.
            if channel is self._channel:
                raise
            return Retry("the connection was closed")
        self._reached = True
        return _partial_success(response) if method == EXPORT_METHOD else Delivered()


def open_channel(destination: Destination) -> grpc.Channel:
    """Return a new channel, which shares no connection. Raises OSError if the TLS files cannot be read.

    Call it inside `forks_wait`, because gRPC imports most of itself only here.
    """
    options: list[tuple[str, int]] = [
        # Channels to one address share connections by default, and after a fork the child's would use the parent's.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_send_message_length", -1),
    ]
    if destination.loopback:
        # A proxy that the environment names cannot reach this machine's own address.
        options.append(("grpc.enable_http_proxy", 0))
    compression = grpc.Compression.Gzip if destination.gzip else grpc.Compression.NoCompression
    _logger.debug("connecting to %s (%s)", destination.target, destination.source)
    _keep_grpc_running()
    if not destination.secure:
        return grpc.insecure_channel(destination.target, options, compression)
    credentials = grpc.ssl_channel_credentials(
        _file(destination.certificate), _file(destination.client_key), _file(destination.client_certificate)
    )
    return grpc.secure_channel(destination.target, credentials, options, compression)


@cache
def _keep_grpc_running() -> grpc.Channel:
    """Open a channel that is never used and never closed.

    When its last channel closes, gRPC shuts down on a thread of its own. A child that is forked meanwhile would inherit
    a lock that nobody releases.
    """
    return grpc.insecure_channel("127.0.0.1:1")


def _file(path: str | None) -> bytes | None:
    return Path(path).read_bytes() if path else None


def _partial_success(response: bytes) -> Answer:
    try:
        partial = ExportTraceServiceResponse.FromString(response).partial_success
    except DecodeError:
        return Delivered(message="the answer is no ExportTraceServiceResponse")
    return Delivered(rejected=max(partial.rejected_spans, 0), message=visible(partial.error_message))


def _is_not_connected(error: grpc.RpcError) -> bool:
    return error.code() is grpc.StatusCode.UNAVAILABLE and (error.details() or "").startswith(_NOT_CONNECTED)


def _failure(destination: Destination, error: grpc.RpcError, reached: bool) -> Answer:
    code, details = error.code(), error.details() or ""
    problem = f"{destination.target} ({destination.source}): {code.name}: {visible(details[:500])}"
    if not reached and (advice := advice_on(details)):
        problem = f"{problem}; {advice}"
    if code not in _RETRYABLE:
        return Refused(problem)
    # gRPC itself answers this for a message over the receiver's limit. Waiting would not make the message smaller.
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in details:
        return Refused(problem, too_large=True)
    return Retry(problem, _retry_delay(error), never_reached=not reached)


def _retry_delay(error: grpc.RpcError) -> float | None:
    """Return the seconds that the collector asks for, by a RetryInfo in a trailer or in the details of the status."""
    trailers: dict[str, Any] = {item.key: item.value for item in error.trailing_metadata() or ()}
    info = RetryInfo()
    try:
        if _RETRY_INFO in trailers:
            info.ParseFromString(trailers[_RETRY_INFO])
            return _seconds(info)
        if _STATUS_DETAILS in trailers:
            for detail in Status.FromString(trailers[_STATUS_DETAILS]).details:
                if detail.Is(RetryInfo.DESCRIPTOR) and detail.Unpack(info):
                    return _seconds(info)
    except DecodeError:
        _logger.debug("unreadable retry delay in the trailers of %s", error)
    return None


def _seconds(info: RetryInfo) -> float:
    return float(info.retry_delay.seconds + info.retry_delay.nanos / 1e9)


_ADVICE: Final = (
    # gRPC has no status codes for these. A wording that is not listed gets no advice.
    ("http1.x server", "this port speaks HTTP, not gRPC: 4318 is OTLP/HTTP and 4319 the page, use 4317"),
    ("missing selected ALPN", "this port speaks HTTPS, not gRPC: 4318 is OTLP/HTTP and 4319 the page, use 4317"),
    ("WRONG_VERSION_NUMBER", "this port has no TLS: use http:// instead of https://"),
    ("CERTIFICATE_VERIFY_FAILED", "its certificate is not trusted: give its CA, as certificate=FILE"),
    ("Hostname Verification Check failed", "its certificate is for another name: use that name in the address"),
    ("Socket closed", "it closed the connection: if it has TLS, use https:// instead of http://"),
    ("Connection refused", "nothing listens there: start `agenteval collector`, or set AGENTEVAL_ENDPOINT"),
)


def advice_on(details: str) -> str | None:
    """Return advice on a connection that failed with these details of gRPC; None if no wording is known."""
    return next((advice for wording, advice in _ADVICE if wording in details), None)
