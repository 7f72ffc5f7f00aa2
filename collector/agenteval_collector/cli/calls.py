"""Calls of a collector over gRPC, and what is said where one fails."""

from typing import Annotated, Any, NoReturn
from urllib.parse import urlsplit

import grpc
import typer
from google.protobuf.message import Message

from agenteval_collector.cli.failing import fail
from agenteval_collector.cli.terminal import clean
from agenteval_collector.runtime.addresses import is_loopback
from otel_agenteval.proto.v1 import evaluation_pb2 as pb

TIMEOUT_SECONDS = 10.0
SERVICE = pb.DESCRIPTOR.services_by_name["EvaluationService"]
DEFAULT_GRPC = "http://127.0.0.1:4317"

Address = Annotated[
    str,
    typer.Option(
        "--grpc", metavar="URL", help="The collector's gRPC port. Commands that only read take its web port, as --url."
    ),
]


def call(method: str, request: Message, address: str, key: str | None) -> Any:
    """The answer of the collector at `address`; ends the command with a sentence where there is none."""
    answer = getattr(pb, SERVICE.methods_by_name[method].output_type.name)
    metadata = (("authorization", f"Bearer {key}"),) if key else ()
    with _channel(address) as channel:
        rpc = channel.unary_unary(f"/{SERVICE.full_name}/{method}", type(request).SerializeToString, answer.FromString)
        try:
            return rpc(request, timeout=TIMEOUT_SECONDS, metadata=metadata)
        except grpc.RpcError as error:
            _refused(error, address, key)


def _channel(address: str) -> grpc.Channel:
    try:
        parts = urlsplit(address)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port is not None
    except ValueError:
        valid = False
    if not valid:
        fail(f"--grpc is {clean(address)!r}, not an address such as {DEFAULT_GRPC}")
    # A proxy of the environment has nothing to do with a collector on this machine.
    options = [("grpc.enable_http_proxy", 0)] if is_loopback(parts.hostname or "") else []
    if parts.scheme == "https":
        return grpc.secure_channel(parts.netloc, grpc.ssl_channel_credentials(), options)
    return grpc.insecure_channel(parts.netloc, options)


def _refused(error: grpc.RpcError, address: str, key: str | None) -> NoReturn:
    code = error.code()
    if code is grpc.StatusCode.UNAUTHENTICATED:
        which = "does not accept this key" if key else "wants a key"
        fail(f"the collector at {address} {which}: give it with --api-key or AGENTEVAL_API_KEY")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        fail(f"what answers at {address} does not know this call: give the gRPC address of a collector")
    # The collector puts its own refusals into the details as well; whatever else fails has none.
    if any(each.key == "grpc-status-details-bin" for each in error.trailing_metadata() or ()):
        fail(clean(error.details() or code.name))
    fail(f"no collector answers at {address}; start one with `agenteval collector`")
