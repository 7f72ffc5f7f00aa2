"""`agenteval label`: what a person says a score should have been, told to a collector over gRPC."""

from typing import Annotated, NoReturn
from urllib.parse import urlsplit

import grpc
import typer

from agenteval_collector.api.security import is_loopback
from agenteval_collector.cli.read import Key, TraceId
from agenteval_collector.cli.settings import fail
from agenteval_collector.cli.terminal import clean
from otel_agenteval.proto.v1.evaluation_pb2 import LabelTraceRequest, LabelTraceResponse

TIMEOUT_SECONDS = 10.0
METHOD = "/otel_agenteval.proto.v1.EvaluationService/LabelTrace"
DEFAULT_GRPC = "http://127.0.0.1:4317"

_WORDS = {"pass": 1.0, "yes": 1.0, "fail": 0.0, "no": 0.0}


def label(
    trace_id: TraceId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="An outcome of the trace, such as task_completion.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="A number from 0 to 1; or pass, yes, fail, no.")],
    note: Annotated[str, typer.Option(help="Why.")] = "",
    by: Annotated[str, typer.Option(metavar="PERSON", help="Who says so. A person has one label for a score.")] = "",
    address: Annotated[str, typer.Option("--grpc", metavar="URL", help="The collector's gRPC port.")] = DEFAULT_GRPC,
    api_key: Key = None,
) -> None:
    """Say what a score of a trace should have been; `agenteval agreement` compares."""
    request = LabelTraceRequest(trace_id=trace_id, name=name, value=_value(value), author=by, note=note)
    metadata = (("authorization", f"Bearer {api_key}"),) if api_key else ()
    with _channel(address) as channel:
        call = channel.unary_unary(METHOD, LabelTraceRequest.SerializeToString, LabelTraceResponse.FromString)
        try:
            call(request, timeout=TIMEOUT_SECONDS, metadata=metadata)
        except grpc.RpcError as error:
            _refused(error, address, api_key)
    typer.echo(clean(f"{name} of {trace_id} is {request.value:.2f}{f', says {by}' if by else ''}."))


def _value(text: str) -> float:
    word = _WORDS.get(text.lower())
    if word is not None:
        return word
    try:
        value = float(text)
    except ValueError:
        fail(f"VALUE is {clean(text)!r}, not a number from 0 to 1, nor one of {', '.join(_WORDS)}")
    if not 0.0 <= value <= 1.0:
        fail(f"VALUE is {clean(text)!r}, not a number from 0 to 1")
    return value


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
        fail(f"what answers at {address} takes no labels: give the gRPC address of a collector")
    # The collector puts its own refusals into the details as well; whatever else fails has none.
    if any(each.key == "grpc-status-details-bin" for each in error.trailing_metadata() or ()):
        fail(clean(error.details() or code.name))
    fail(f"no collector answers at {address}; start one with `agenteval collector`")
