"""Commands that ask a collector over its API: `sessions`, `session`, `trace`, `why`, `quality`, `agreement`,
`reliability`."""

import json
import shlex
from functools import partial
from typing import Annotated
from urllib.parse import quote

import typer

from agenteval_collector.cli.client import AsJson, Environment, Key, Url, answer, fetch, time_of
from agenteval_collector.cli.show_judging import show_agreement, show_judgements, show_quality
from agenteval_collector.cli.show_reliability import show_agents, show_comparison, show_reliability
from agenteval_collector.cli.show_traces import show_explanation, show_session, show_sessions, show_trace
from agenteval_collector.cli.terminal import fail
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.serve.api.answers import Listing
from agenteval_collector.serve.api.explanation import about_outcomes, about_session, about_trace
from agenteval_collector.serve.api.figure_documents import ReliabilityDocument
from agenteval_collector.serve.api.wire import trace_id_of
from agenteval_collector.serve.web.formats import query
from otel_agenteval.internal.text import visible
from otel_agenteval.reader import DEFAULT_URL

TraceId = Annotated[str, typer.Argument(metavar="TRACE", help="A trace id: 32 hexadecimal digits.")]


def sessions(
    agent: Annotated[str | None, typer.Option(help="Only sessions of this agent.")] = None,
    service: Annotated[str | None, typer.Option(help="Only sessions of this service.")] = None,
    version: Annotated[str | None, typer.Option(help="Only sessions of this service.version.")] = None,
    user: Annotated[str | None, typer.Option(help="Only sessions of this user.")] = None,
    finding: Annotated[
        str | None, typer.Option(help="Only sessions with this kind of finding: tool_failed, ...")
    ] = None,
    severity: Annotated[
        str | None, typer.Option(help="Only sessions with a finding of this severity: error, warning, info.")
    ] = None,
    below: Annotated[
        str | None,
        typer.Option(metavar="NAME:VALUE", help="Only sessions with this score below this value: coherence:0.2."),
    ] = None,
    text: Annotated[str | None, typer.Option(help="Only sessions in which this was said.")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only sessions seen since 30m or 2d ago, or 2026-03-02T09:00:00Z."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only sessions seen before this time, in the same form.")
    ] = None,
    environment: Environment = None,
    order: Annotated[str, typer.Option(help="`newest` first; or `attention`: the worst first.")] = "newest",
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
        "since": time_of("--since", since),
        "until": time_of("--until", until),
        "environment": environment,
    }
    show = partial(show_sessions, now=SystemClock().now(), filtered=any(wanted.values()))
    answer(show, "/api/v1/sessions" + query({"limit": limit, "order": order, **wanted}), url, api_key, as_json)


def session(
    session_id: Annotated[str, typer.Argument(metavar="SESSION", help="A session id.")],
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show a session: its findings, its scores, and its traces with their ids and signals."""
    show = partial(show_session, now=SystemClock().now())
    answer(show, f"/api/v1/sessions/{quote(session_id, safe='')}", url, api_key, as_json)


def trace(trace_id: TraceId, url: Url = DEFAULT_URL, api_key: Key = None, as_json: AsJson = False) -> None:
    """Show a trace: its findings, what was said, which tools were called, and its outcomes."""
    answer(show_trace, f"/api/v1/traces/{quote(trace_id, safe='')}", url, api_key, as_json)


def why(
    trace_id: Annotated[str, typer.Argument(metavar="TRACE", help="A trace id: 32 hexadecimal digits.")] = "",
    session_id: Annotated[
        str, typer.Option("--session", metavar="ID", help="Instead of a trace: a session as a whole.")
    ] = "",
    full: Annotated[bool, typer.Option("--full", help="Whole texts of what the judge was asked and answered.")] = False,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Explain a trace or a session: what was found, what could be seen, each score, what is missing for others."""
    if bool(trace_id) == bool(session_id):
        fail("give TRACE, or --session ID")
    try:
        trace_id = trace_id and trace_id_of(trace_id)
    except InvalidRequest as error:
        fail(f"{error}; for a session: agenteval why --session {shlex.quote(visible(trace_id))}")
    if session_id:
        path = f"/api/v1/sessions/{quote(session_id, safe='')}"
        address = "/api/v1/judgements" + query({"session_id": session_id})
    else:
        path = f"/api/v1/traces/{quote(trace_id, safe='')}"
        address = f"{path}/judgements"
    document = fetch(url, path, api_key)
    judgements = fetch(url, address, api_key)["items"]
    notes = [*(about_session if session_id else about_trace)(document), *about_outcomes(document)]
    if as_json:
        typer.echo(
            json.dumps({**document, "explanation": [note._asdict() for note in notes], "judgements": judgements})
        )
    else:
        show_explanation(notes)
        show_judgements(document, judgements, full=full)


def quality(
    agent: Annotated[str | None, typer.Option(help="Only this agent.")] = None,
    service: Annotated[str | None, typer.Option(help="Only agents in this service.")] = None,
    version: Annotated[str | None, typer.Option(help="Only this service.version.")] = None,
    name: Annotated[str | None, typer.Option(help="Only this evaluator.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most this many rates, the newest.")] = 50,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show which share of traces pass, with 95 % intervals if people have labelled enough of them."""
    filters = query({"limit": limit, "agent": agent, "service": service, "version": version, "name": name})
    answer(show_quality, "/api/v1/quality" + filters, url, api_key, as_json)


def agreement(
    name: Annotated[str | None, typer.Option(help="Only this evaluator.")] = None,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Compare scores with the labels that people gave (`agenteval label`): kappa, correlation and drift."""
    path = "/api/v1/agreement" + query({"name": name})
    answer(lambda page: show_agreement(page["items"]), path, url, api_key, as_json)


def reliability(
    agent: Annotated[str | None, typer.Option(help="Only this agent.")] = None,
    service: Annotated[str | None, typer.Option(help="Only agents in this service.")] = None,
    version: Annotated[str | None, typer.Option(help="Only this service.version.")] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="BEFORE AFTER", help="Two versions side by side, and whether they differ."),
    ] = None,
    primary: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --compare, the figure that decides: pass^1 unless given.")
    ] = None,
    variant: Annotated[
        str, typer.Option(help="The formulas: of the leaderboard's page, or of the authors' code of 2026-06.")
    ] = "page",
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most this many versions, the newest.")] = 50,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show how reliable agents are over repeated runs of their tasks."""
    path, address = "/api/v1/reliability", {"variant": variant, "agent": agent, "service": service}
    if compare is not None:
        if version is not None:
            raise typer.BadParameter("give the two versions with --compare alone", param_hint="--version")
        address |= {"before": compare[0], "after": compare[1], "primary": primary}
        answer(show_comparison, f"{path}/comparison{query(address)}", url, api_key, as_json)
        return
    if primary is not None:
        raise typer.BadParameter("it says which figure decides a comparison: give --compare", param_hint="--primary")

    def show(page: Listing[ReliabilityDocument]) -> None:
        if page["items"] or not (agent or service or version):
            show_reliability(page["items"])
        else:
            # Nothing is known of this agent and version: list those that have runs.
            answer(lambda others: show_agents(others["items"]), path, url, api_key, False)

    answer(show, path + query({**address, "limit": limit, "version": version}), url, api_key, as_json)
