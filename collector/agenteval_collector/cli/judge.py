"""`agenteval judge`: have the judge score what it has not, told to a collector over gRPC."""

from typing import Annotated

import typer

from agenteval_collector.cli.calls import DEFAULT_GRPC, Address, call
from agenteval_collector.cli.failing import fail
from agenteval_collector.cli.read import Key
from agenteval_collector.cli.terminal import clean
from agenteval_collector.runtime.clock import SystemClock
from otel_agenteval.loops.setting_values import seconds
from otel_agenteval.proto.v1.evaluation_pb2 import JudgeTracesRequest


def judge(
    trace_ids: Annotated[list[str] | None, typer.Argument(metavar="TRACE...", help="Trace ids.")] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="All whose outcomes failed, or had no budget, instead of single traces.")
    ] = False,
    since: Annotated[str, typer.Option(metavar="TIME", help="How far back --failed goes, such as 30m or 2d.")] = "1h",
    address: Address = DEFAULT_GRPC,
    api_key: Key = None,
) -> None:
    """Have the judge score what it has not: what failed, had no budget, or was sampled out (single traces only)."""
    if bool(trace_ids) == failed:
        fail("give the ids of traces, or --failed")
    request = JudgeTracesRequest(trace_ids=trace_ids, failed_since_unix_nano=_before(since) if failed else 0)
    answer = call("JudgeTraces", request, address, api_key)
    if not answer.traces:
        there_is = "there is no room (judge.backlog)" if answer.more else "the judge has left out nothing there"
        typer.echo(f"No trace waits for the judge by that: {there_is}.")
        return
    typer.echo(f"{answer.traces} {'trace waits' if answer.traces == 1 else 'traces wait'} for the judge.")
    if answer.more:
        typer.echo("There are more: call it again when these are judged.")


def _before(text: str) -> int:
    """The time so long ago (ns)."""
    try:
        ago = seconds(text)
    except ValueError:
        fail(f"--since is {clean(text)!r}, not a time such as 30m, 1h or 2d")
    return max(1, SystemClock().now() - round(ago * 1e9))
