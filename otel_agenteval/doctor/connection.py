"""Checks of the endpoint that spans go to: is somebody there, is it OTLP over gRPC, is it ours."""

import sys
from collections.abc import Iterator, Mapping

import grpc

from otel_agenteval.config import AGENTEVAL_ENDPOINT, Destination, Options, resolve
from otel_agenteval.doctor.checks import Check, error, ok, warning
from otel_agenteval.proto.v1.evaluation_pb2 import GetTraceRequest
from otel_agenteval.sending.transport import EXPORT_METHOD, SERVICE, advice_on, open_channel

TIMEOUT = 5.0
_OTEL_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def about_endpoint(options: Options, environ: Mapping[str, str]) -> Iterator[Check]:
    """Check the endpoint that a processor with these options would send to from this environment."""
    try:
        destination = resolve(options, environ, sys.modules)
    except ValueError as problem:
        yield error("endpoint", str(problem), "correct it; the collector's gRPC port is http://127.0.0.1:4317")
        return
    scheme = "https" if destination.secure else "http"
    found = f"{scheme}://{destination.target}, from {destination.source}"
    if environ.get(_OTEL_ENDPOINT) and destination.source == "the default":
        advice = f"set {AGENTEVAL_ENDPOINT} if the collector is elsewhere: {_OTEL_ENDPOINT} is another exporter's here"
        yield warning("endpoint", found, advice)
    else:
        yield ok("endpoint", found)
    yield from _about_service(destination)


def _about_service(destination: Destination) -> Iterator[Check]:
    try:
        channel = open_channel(destination)
    except OSError as problem:
        yield error("gRPC", f"the TLS files cannot be read: {problem}", "correct the path of the certificate")
        return
    with channel:
        # A request without spans: whoever takes OTLP takes it, and nothing comes of it.
        if (failure := _call(channel, EXPORT_METHOD, b"", destination)) is not None:
            yield _about_failure(destination, failure)
            return
        yield _about_evaluation_service(channel, destination)


def _about_evaluation_service(channel: grpc.Channel, destination: Destination) -> Check:
    failure = _call(channel, f"/{SERVICE}/GetTrace", GetTraceRequest().SerializeToString(), destination)
    code = None if failure is None else failure.code()
    # Without an id the question is refused, by a collector of ours alone.
    if code in (None, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND):
        return ok("gRPC", f"a collector of ours takes OTLP on {destination.target}")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return warning(
            "gRPC",
            f"what takes OTLP on {destination.target} is not a collector of ours",
            "stop it, or have it pass traces on to ours (an `otlp` exporter), or start ours on another port "
            f"(`agenteval collector --grpc-address 127.0.0.1:14317`) and set {AGENTEVAL_ENDPOINT}",
        )
    assert failure is not None
    return _about_failure(destination, failure)


def _about_failure(destination: Destination, failure: grpc.RpcError) -> Check:
    code, details = failure.code(), failure.details() or ""
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return error("gRPC", f"{destination.target} wants a key: {details}", "set AGENTEVAL_API_KEY to one of its keys")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return error("gRPC", f"{destination.target} speaks gRPC, but takes no OTLP", "give the collector's gRPC port")
    advice = advice_on(details) or f"check the address, or set {AGENTEVAL_ENDPOINT}"
    return error("gRPC", f"{destination.target}: {code.name}: {details[:300]}", advice)


def _call(channel: grpc.Channel, method: str, request: bytes, destination: Destination) -> grpc.RpcError | None:
    """Return how a call failed; None where it did not."""
    try:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method, None, None)
        call(request, timeout=TIMEOUT, metadata=destination.headers)
    except grpc.RpcError as failure:
        return failure
    return None
