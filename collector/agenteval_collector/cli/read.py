"""`agenteval sessions`, `session`, `trace` and `why`: what a collector knows, asked over its API."""

import json
from typing import Annotated
from urllib.parse import quote, urlencode

import typer

from agenteval_collector.api.explanation import about_outcome, about_trace
from agenteval_collector.cli.client import ApiError, get
from agenteval_collector.cli.settings import fail
from agenteval_collector.cli.show import show_explanation, show_session, show_sessions, show_trace
from agenteval_collector.cli.terminal import clean
from agenteval_collector.clock import SystemClock

Url = Annotated[str, typer.Option("--url", envvar="AGENTEVAL_URL", help="The collector's web port.")]
Key = Annotated[
    str | None,
    typer.Option(
        "--api-key", envvar="AGENTEVAL_API_KEY", help="The collector's key, where it wants one.", show_envvar=True
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the API's JSON.")]
TraceId = Annotated[str, typer.Argument(metavar="TRACE", help="A trace id: 32 hexadecimal digits.")]

DEFAULT_URL = "http://127.0.0.1:4319"


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(sessions)
    app.command()(session)
    app.command()(trace)
    app.command()(why)


def sessions(
    agent: Annotated[str | None, typer.Option(help="Only sessions of this agent.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most this many.")] = 50,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List sessions and their scores, newest first."""
    query = {"limit": str(limit), **({"agent": agent} if agent else {})}
    body = fetch(url, f"/api/v1/sessions?{urlencode(query)}", api_key)
    if as_json:
        typer.echo(body)
    else:
        show_sessions(json.loads(body), now=SystemClock().now())


def session(
    session_id: Annotated[str, typer.Argument(metavar="SESSION", help="A session id.")],
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show a session: its scores, and its traces with their ids and signals."""
    body = fetch(url, f"/api/v1/sessions/{quote(session_id, safe='')}", api_key)
    if as_json:
        typer.echo(body)
    else:
        show_session(json.loads(body), now=SystemClock().now())


def trace(trace_id: TraceId, url: Url = DEFAULT_URL, api_key: Key = None, as_json: AsJson = False) -> None:
    """Show a trace: what was said, which tools were called, and its outcomes."""
    body = fetch(url, f"/api/v1/traces/{quote(trace_id, safe='')}", api_key)
    if as_json:
        typer.echo(body)
    else:
        show_trace(json.loads(body))


def why(trace_id: TraceId, url: Url = DEFAULT_URL, api_key: Key = None, as_json: AsJson = False) -> None:
    """Explain a trace: its status, each outcome, and what to switch on for those that are missing."""
    document = json.loads(fetch(url, f"/api/v1/traces/{quote(trace_id, safe='')}", api_key))
    notes = about_trace(document) + [about_outcome(outcome) for outcome in document["outcomes"]]
    if as_json:
        explanation = [{"text": note.text, "advice": note.advice} for note in notes]
        typer.echo(json.dumps({**document, "explanation": explanation}))
    else:
        show_explanation(notes)


def fetch(url: str, path: str, key: str | None) -> str:
    """What the collector answers; ends the command with a sentence where it cannot be asked."""
    try:
        return get(url, path, key)
    except ApiError as error:
        fail(clean(str(error)))
