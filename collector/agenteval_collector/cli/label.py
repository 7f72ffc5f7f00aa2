"""`agenteval label`: what a person says a score should have been, told to a collector over gRPC."""

from typing import Annotated

import typer

from agenteval_collector.cli.calls import DEFAULT_GRPC, Address, call
from agenteval_collector.cli.failing import fail
from agenteval_collector.cli.read import Key, TraceId
from agenteval_collector.cli.terminal import clean
from otel_agenteval.proto.v1.evaluation_pb2 import LabelTraceRequest

_WORDS = {"pass": 1.0, "yes": 1.0, "fail": 0.0, "no": 0.0}


def label(
    trace_id: TraceId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="An outcome of the trace, such as task_completion.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="A number from 0 to 1; or pass, yes, fail, no.")],
    note: Annotated[str, typer.Option(help="Why.")] = "",
    by: Annotated[str, typer.Option(metavar="PERSON", help="Who says so. A person has one label for a score.")] = "",
    address: Address = DEFAULT_GRPC,
    api_key: Key = None,
) -> None:
    """Say what a score of a trace should have been; `agenteval agreement` compares."""
    request = LabelTraceRequest(trace_id=trace_id, name=name, value=_value(value), author=by, note=note)
    call("LabelTrace", request, address, api_key)
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
