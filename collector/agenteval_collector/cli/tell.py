"""Commands that tell a collector something over gRPC: `label` and `judge`."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import grpc
import typer
from google.protobuf.message import Message

from agenteval_collector.cli.client import address_parts, wants_key
from agenteval_collector.cli.read import DEFAULT_URL, AsJson, Key, Url, fetch_known, judge_drift
from agenteval_collector.cli.review import review
from agenteval_collector.cli.settings import ConfigFile
from agenteval_collector.cli.terminal import clean, fail
from agenteval_collector.runtime.addresses import is_loopback
from agenteval_collector.runtime.clock import SystemClock
from otel_agenteval.loops.setting_values import seconds
from otel_agenteval.proto.v1.evaluation_pb2 import JudgeTracesRequest, LabelSessionRequest, LabelTraceRequest
from otel_agenteval.proto.v1.evaluation_pb2_grpc import EvaluationServiceStub

TIMEOUT_SECONDS = 10.0
DEFAULT_GRPC = "http://127.0.0.1:4317"

Address = Annotated[
    str,
    typer.Option(
        "--grpc", metavar="URL", help="The collector's gRPC port. Commands that only read take its web port, as --url."
    ),
]

_WORDS = {"pass": 1.0, "yes": 1.0, "fail": 0.0, "no": 0.0}


def label(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TRACE] NAME VALUE",
            help="A trace id: 32 hexadecimal digits. An outcome of the trace, such as task_completion. "
            "A number from 0 to 1; or pass, yes, fail, no.",
        ),
    ] = None,
    session_id: Annotated[
        str, typer.Option("--session", metavar="ID", help="Instead of a trace: an outcome of a session, goal_success.")
    ] = "",
    note: Annotated[str, typer.Option(help="Why.")] = "",
    by: Annotated[str, typer.Option(metavar="PERSON", help="Who says so. A person has one label for a score.")] = "",
    draw: Annotated[
        str,
        typer.Option(
            "--next", metavar="NAME", help="Instead of a trace or session: those drawn at random, one by one."
        ),
    ] = "",
    agent: Annotated[str, typer.Option(help="With --next: only of this agent.")] = "",
    version: Annotated[str, typer.Option(help="With --next: only of this service.version.")] = "",
    url: Url = DEFAULT_URL,
    address: Address = DEFAULT_GRPC,
    api_key: Key = None,
) -> None:
    """Say what a score of a trace, or (--session) of a whole session, should have been: of one that you name, or
    (--next) of some drawn at random, whose labels correct the pass rates of `agenteval quality`."""

    def say(trace_id: str | None, session_id: str, name: str, said: float, *, drawn: bool) -> None:
        label: dict[str, Any] = {"name": name, "value": said, "author": by, "note": note, "drawn": drawn}
        if trace_id is not None:
            call("LabelTrace", LabelTraceRequest(trace_id=trace_id, **label), address, api_key)
        else:
            call("LabelSession", LabelSessionRequest(session_id=session_id, **label), address, api_key)

    given = [each for each in arguments or () if each]
    if draw:
        if given or session_id:
            fail("give --next NAME alone, without a trace or session")
        only = {key: value for key, value in (("agent", agent), ("version", version)) if value}
        review(draw, only, ask=lambda path: fetch_known(url, path, api_key), say=partial(say, drawn=True))
        return
    if len(given) != (2 if session_id else 3):
        fail("give TRACE, NAME and VALUE; or --session ID, NAME and VALUE; or --next NAME")
    *trace, name, text = given
    said = _value(text)
    say(trace[0] if trace else None, session_id, name, said, drawn=False)
    typer.echo(clean(f"{name} of {trace[0] if trace else session_id} is {said:.2f}{f', says {by}' if by else ''}."))


def judge(
    trace_ids: Annotated[list[str] | None, typer.Argument(metavar="TRACE...", help="Trace ids.")] = None,
    session_ids: Annotated[
        list[str] | None,
        typer.Option("--session", metavar="ID", help="Whether a session reached its goal; may be given several times."),
    ] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="All whose outcomes failed, or had no budget, instead of single traces.")
    ] = False,
    since: Annotated[str, typer.Option(metavar="TIME", help="How far back --failed goes, such as 30m or 2d.")] = "1h",
    check: Annotated[
        bool, typer.Option("--check", help="Ask again about changed traces, in this process: is the judge biased?")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=500, help="With --check: at most so many traces.")] = 30,
    seed: Annotated[int, typer.Option(help="With --check: another one draws other traces.")] = 0,
    yes: Annotated[bool, typer.Option("--yes", help="With --check: do not ask before it costs something.")] = False,
    file: ConfigFile = None,
    data_dir: Annotated[Path | None, typer.Option(help="With --check: the collector's folder.")] = None,
    address: Address = DEFAULT_GRPC,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Have the judge score what it has not: what failed, had no budget, or was sampled out (named ones only).

    Without traces or sessions, show whether the judge says something else than before of the same ones. With --check,
    find out whether it looks at what must not matter.
    """
    named = bool(trace_ids or session_ids)
    if named + failed + check > 1:
        fail("give the ids of traces or sessions, --failed, or --check")
    if check:
        # Here, so that the other commands are quick.
        from agenteval_collector.cli.check_judge import check_judge  # noqa: PLC0415

        check_judge(file, data_dir, limit=limit, seed=seed, confirmed=yes, as_json=as_json)
        return
    if not named and not failed:
        judge_drift(url, api_key, as_json)
        return
    if as_json:
        fail("--json is for the judge's drift and for --check: give no traces")
    since_when = _before(since) if failed else 0
    request = JudgeTracesRequest(trace_ids=trace_ids, session_ids=session_ids, failed_since_unix_nano=since_when)
    answer = call("JudgeTraces", request, address, api_key)
    if failed or (trace_ids and session_ids):
        one, several = "trace or session", "traces and sessions"
    else:
        one, several = ("session", "sessions") if session_ids else ("trace", "traces")
    if not answer.traces:
        there_is = "there is no room (judge.backlog)" if answer.more else "the judge has left out nothing there"
        typer.echo(f"No {one} waits for the judge by that: {there_is}.")
        return
    typer.echo(f"{answer.traces} {f'{one} waits' if answer.traces == 1 else f'{several} wait'} for the judge.")
    if answer.more:
        typer.echo("There are more: call it again when these are judged.")


def call(method: str, request: Message, address: str, key: str | None) -> Any:
    """Return the answer of the collector at `address`; ends the command with a sentence where there is none."""
    metadata = (("authorization", f"Bearer {key}"),) if key else ()
    with _channel(address) as channel:
        try:
            stub = EvaluationServiceStub(channel)  # type: ignore[no-untyped-call]
            return getattr(stub, method)(request, timeout=TIMEOUT_SECONDS, metadata=metadata)
        except grpc.RpcError as error:
            _refused(error, address, key)


def _channel(address: str) -> grpc.Channel:
    parts = address_parts(address)
    if parts is None or parts.port is None:
        fail(f"--grpc is {clean(address)!r}, not an address such as {DEFAULT_GRPC}")
    # A proxy of the environment has nothing to do with a collector on this machine.
    options = [("grpc.enable_http_proxy", 0)] if is_loopback(parts.hostname or "") else []
    if parts.scheme == "https":
        return grpc.secure_channel(parts.netloc, grpc.ssl_channel_credentials(), options)
    return grpc.insecure_channel(parts.netloc, options)


def _refused(error: grpc.RpcError, address: str, key: str | None) -> NoReturn:
    code = error.code()
    if code is grpc.StatusCode.UNAUTHENTICATED:
        fail(wants_key(address, key))
    if code is grpc.StatusCode.UNIMPLEMENTED:
        fail(f"what answers at {address} does not know this call: give the gRPC address of a collector")
    # The collector puts its own refusals into the details as well; whatever else fails has none.
    if any(each.key == "grpc-status-details-bin" for each in error.trailing_metadata() or ()):
        fail(clean(error.details() or code.name))
    fail(f"no collector answers at {address}; start one with `agenteval collector`")


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


def _before(text: str) -> int:
    """Return the time so long ago (ns)."""
    try:
        ago = seconds(text)
    except ValueError:
        fail(f"--since is {clean(text)!r}, not a time such as 30m, 1h or 2d")
    return max(1, SystemClock().now() - round(ago * 1e9))
