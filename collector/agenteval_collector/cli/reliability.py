"""`agenteval reliability`: figures over runs, and two versions side by side."""

import json
from typing import Annotated
from urllib.parse import urlencode

import typer

from agenteval_collector.cli.read import DEFAULT_URL, AsJson, Key, Url, fetch
from agenteval_collector.cli.reliability_tables import show_agents, show_comparison, show_reliability


def reliability(
    agent: Annotated[str | None, typer.Option(help="Only this agent.")] = None,
    version: Annotated[str | None, typer.Option(help="Only this service.version.")] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="BEFORE AFTER", help="Two versions side by side, and how likely the second is better."),
    ] = None,
    variant: Annotated[
        str, typer.Option(help="Of the published formulas: page, or 2026-06 for the authors' later ones.")
    ] = "page",
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most this many versions, the newest.")] = 50,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show how reliable agents are over repeated runs of their tasks."""
    query = {"variant": variant, **({"agent": agent} if agent else {})}
    if compare is not None:
        if version is not None:
            raise typer.BadParameter("give the two versions with --compare alone", param_hint="--version")
        query |= {"before": compare[0], "after": compare[1]}
        body = fetch(url, f"/api/v1/reliability/comparison?{urlencode(query)}", api_key)
    else:
        query |= {"limit": str(limit), **({"version": version} if version else {})}
        body = fetch(url, f"/api/v1/reliability?{urlencode(query)}", api_key)
    if as_json:
        typer.echo(body)
        return
    if compare is not None:
        show_comparison(json.loads(body))
        return
    page = json.loads(body)
    items = page["items"]
    others = [] if items or not (agent or version) else json.loads(fetch(url, "/api/v1/reliability", api_key))["items"]
    if others:
        show_agents(others)
    else:
        show_reliability(items, more=page["next_cursor"] is not None)
