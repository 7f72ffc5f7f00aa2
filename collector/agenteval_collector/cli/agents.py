"""The commands `agents` and `compare`.

They have a module of their own because their range of time comes from the model. The model loads numpy, which the other
commands do without.
"""

import json
from typing import Annotated
from urllib.parse import quote

import typer
from rich.text import Text

from agenteval_collector.cli.client import AsJson, Environment, Key, Url, answer, fetch
from agenteval_collector.cli.terminal import console, content, failing_on, table
from agenteval_collector.model.agents import Range
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.runtime.errors import NotFound
from agenteval_collector.serve.api.figure_documents import AgentPage, RateDocument
from agenteval_collector.serve.web.agents import compared
from agenteval_collector.serve.web.charts import main_evaluator
from agenteval_collector.serve.web.formats import agent_words, ago, interval, money, percent, quantity, query, words
from otel_agenteval.reader import DEFAULT_URL


def agents(
    time: Annotated[Range, typer.Option("--range", help="The time that the figures are about, up to now.")] = Range.DAY,
    environment: Environment = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most this many.")] = 50,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List the agents: how often they pass and fail, what they cost, how long they take, in which versions."""
    answer(
        _show_agents,
        "/api/v1/agents" + query({"range": time.value, "environment": environment, "limit": limit}),
        url,
        api_key,
        as_json,
    )


def compare(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="An agent's name.")],
    before: Annotated[str, typer.Argument(metavar="V1", help="The earlier service.version.")],
    after: Annotated[str, typer.Argument(metavar="V2", help="The later one.")],
    service: Annotated[str | None, typer.Option(help="The agent's service, if several have one of this name.")] = None,
    time: Annotated[
        Range, typer.Option("--range", help="The time that the figures are about, up to now.")
    ] = Range.MONTH,
    environment: Environment = None,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Compare two versions of an agent on what they did in production: passes, errors, cost, time."""
    asked = query({"range": time.value, "service": service, "environment": environment})
    document = fetch(url, f"/api/v1/agents/{quote(agent, safe='')}" + asked, api_key)
    with failing_on(NotFound):
        comparison = compared(document, before, after)
    # Both versions are named, so both are there.
    assert comparison is not None
    if as_json:
        about = {"agent": agent, "service": document["service"], "range": time.value, "before": before, "after": after}
        typer.echo(json.dumps({**about, "figures": [row._asdict() for row in comparison.rows]}))
        return
    out = console()
    out.print(
        content(f"{agent_words(agent, document['service'])}: {before} and {after}, the last {time.value}", "bold")
    )
    rows = table("figure", content(before), content(after), "difference, 95 %", right=(before, after))
    for row in comparison.rows:
        style = "bold red" if row.is_worse else ""
        figures = (quantity(value, row.unit) for value in (row.before, row.after))
        rows.add_row(content(words(row.name), style), *figures, content(row.words, style))
    out.print(rows)
    out.print(
        Text("Red: worse by more than chance explains. Runs of the same tasks decide: reliability --compare.", "dim")
    )


def _show_agents(page: AgentPage) -> None:
    out = console()
    if not page["items"]:
        out.print("No agents: no complete trace names one.")
        return
    now = SystemClock().now()
    figures = ("problems", "sessions", "cost", "p50", "p95")
    listed = table("agent", "passes", "with an error", *figures, "versions", "last seen", right=figures)
    for item in page["items"]:
        main = main_evaluator(item)
        listed.add_row(
            content(agent_words(item["agent"], item["service"])),
            Text("not judged", "dim") if main is None else content(f"{_rate(item['pass_rates'][main])} {words(main)}"),
            _rate(item["errors"]),
            str(item["problems"]["error"] + item["problems"]["warning"]),
            str(item["sessions"]),
            money(item["usd"]),
            *(quantity(item["seconds"][share], "seconds") for share in ("p50", "p95")),
            content(", ".join(version["version"] or "–" for version in item["versions"][:3])),
            ago(item["last_seen_at"], now),
        )
    out.print(listed)


def _rate(rate: RateDocument) -> str:
    if rate["rate"] is None:
        return "–"
    return f"{percent(rate['rate'])} [{interval(rate['interval'])}]" if rate["interval"] else percent(rate["rate"])
