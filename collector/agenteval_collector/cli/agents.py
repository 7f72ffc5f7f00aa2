"""The command `agents`.

It has a module of its own because its range of time comes from the model. The model loads numpy, which the other
commands do without.
"""

from typing import Annotated

import typer
from rich.text import Text

from agenteval_collector.api.figure_documents import AgentPage, RateDocument
from agenteval_collector.cli.client import DEFAULT_URL, AsJson, Key, Url, answer
from agenteval_collector.cli.terminal import console, content, table
from agenteval_collector.model.agents import Range
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.web.charts import main_evaluator
from agenteval_collector.web.formats import ago, interval, money, percent, quantity, query, words


def agents(
    time: Annotated[Range, typer.Option("--range", help="The time that the figures are about, up to now.")] = Range.DAY,
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most this many.")] = 50,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List the agents: how often they pass and fail, what they cost, how long they take, in which versions."""
    answer(_show_agents, "/api/v1/agents" + query({"range": time.value, "limit": limit}), url, api_key, as_json)


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
            content(item["agent"]),
            Text("not judged", "dim") if main is None else content(f"{_rate(item['pass_rates'][main])} {words(main)}"),
            _rate(item["errors"]),
            str(item["problems"]["error"] + item["problems"]["warning"]),
            str(item["sessions"]),
            money(item["usd"]),
            *(quantity(item["seconds"][share], "seconds") for share in ("p50", "p95")),
            content(", ".join(each["version"] or "–" for each in item["versions"][:3])),
            ago(item["last_seen_at"], now),
        )
    out.print(listed)


def _rate(found: RateDocument) -> str:
    if found["rate"] is None:
        return "–"
    return f"{percent(found['rate'])} [{interval(found['interval'])}]" if found["interval"] else percent(found["rate"])
