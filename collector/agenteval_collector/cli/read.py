"""`agenteval sessions`, `session`, `trace`, `why` and `agreement`: ask a collector over its API."""

import json
from typing import Annotated
from urllib.parse import quote, urlencode

import typer

from agenteval_collector.api.explanation import about_outcomes, about_trace
from agenteval_collector.cli.client import ApiError, get
from agenteval_collector.cli.failing import fail
from agenteval_collector.cli.show import show_explanation, show_session, show_sessions, show_trace
from agenteval_collector.cli.show_judging import show_agreement, show_judgements
from agenteval_collector.cli.terminal import clean
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.runtime.times import rfc3339
from otel_agenteval.loops.setting_values import seconds

Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="AGENTEVAL_URL",
        help="The collector's web port; `label` and `judge` take its gRPC port, as --grpc.",
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        "--api-key", envvar="AGENTEVAL_API_KEY", help="The collector's key, where it wants one.", show_envvar=True
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the API's JSON.")]
TraceId = Annotated[str, typer.Argument(metavar="TRACE", help="A trace id: 32 hexadecimal digits.")]

DEFAULT_URL = "http://127.0.0.1:4319"


def sessions(
    agent: Annotated[str | None, typer.Option(help="Only sessions of this agent.")] = None,
    service: Annotated[str | None, typer.Option(help="Only sessions of this service.")] = None,
    version: Annotated[str | None, typer.Option(help="Only sessions of this service.version.")] = None,
    user: Annotated[str | None, typer.Option(help="Only sessions of this user.")] = None,
    finding: Annotated[str | None, typer.Option(help="Only with this kind of finding: tool_failed, ...")] = None,
    severity: Annotated[str | None, typer.Option(help="Only with a finding of it: error, warning, info.")] = None,
    below: Annotated[
        str | None, typer.Option(metavar="NAME:VALUE", help="Only with such a score below this: coherence:0.2.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Only sessions in which this was said.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only those seen since: 30m, 2d, or 2026-03-02T09:00:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only those seen before, in the same form.")] = None,
    order: Annotated[str, typer.Option(help="`newest`, or `attention`: first what to look at first.")] = "newest",
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most this many.")] = 50,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List sessions with their worst findings and their scores."""
    wanted = {
        "agent": agent,
        "service": service,
        "version": version,
        "user": user,
        "finding": finding,
        "severity": severity,
        "below": below,
        "text": text,
        "since": _time(since),
        "until": _time(until),
    }
    asked = {name: value for name, value in wanted.items() if value}
    query = {"limit": str(limit), "order": order, **asked}
    body = fetch(url, f"/api/v1/sessions?{urlencode(query)}", api_key)
    if as_json:
        typer.echo(body)
    else:
        show_sessions(json.loads(body), now=SystemClock().now(), filtered=bool(asked))


def session(
    session_id: Annotated[str, typer.Argument(metavar="SESSION", help="A session id.")],
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show a session: its findings, its scores, and its traces with their ids and signals."""
    body = fetch(url, f"/api/v1/sessions/{quote(session_id, safe='')}", api_key)
    if as_json:
        typer.echo(body)
    else:
        show_session(json.loads(body), now=SystemClock().now())


def trace(trace_id: TraceId, url: Url = DEFAULT_URL, api_key: Key = None, as_json: AsJson = False) -> None:
    """Show a trace: its findings, what was said, which tools were called, and its outcomes."""
    body = fetch(url, f"/api/v1/traces/{quote(trace_id, safe='')}", api_key)
    if as_json:
        typer.echo(body)
    else:
        show_trace(json.loads(body))


def why(
    trace_id: TraceId,
    full: Annotated[bool, typer.Option("--full", help="Whole texts of what the judge was asked and answered.")] = False,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Explain a trace: what was found and what could be seen, each score, what to switch on for missing ones."""
    path = f"/api/v1/traces/{quote(trace_id, safe='')}"
    document = json.loads(fetch(url, path, api_key))
    judgements = json.loads(fetch(url, f"{path}/judgements", api_key))["items"]
    notes = about_trace(document) + about_outcomes(document)
    if as_json:
        explanation = [{"text": note.text, "advice": note.advice} for note in notes]
        typer.echo(json.dumps({**document, "explanation": explanation, "judgements": judgements}))
    else:
        show_explanation(notes)
        show_judgements(document, judgements, full=full)


def agreement(
    name: Annotated[str | None, typer.Option(help="Only this evaluator.")] = None,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Compare scores with the labels that people gave (`agenteval label`): kappa, correlation and drift."""
    body = fetch(url, f"/api/v1/agreement?{urlencode({'name': name} if name else {})}", api_key)
    if as_json:
        typer.echo(body)
    else:
        show_agreement(json.loads(body)["items"])


def _time(text: str | None) -> str | None:
    """A time for the API; `30m` and the like are that long ago."""
    if text is None:
        return None
    try:
        ago = seconds(text)
    except ValueError:
        return text
    return rfc3339(SystemClock().now() - round(ago * 1e9))


def fetch(url: str, path: str, key: str | None) -> str:
    """The collector's answer; ends the command with a sentence where it cannot be asked."""
    try:
        return get(url, path, key)
    except ApiError as error:
        fail(clean(str(error)))
