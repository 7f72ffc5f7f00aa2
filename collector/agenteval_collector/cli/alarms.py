"""The command `alarms`."""

from typing import Annotated

import typer
from rich.text import Text

from agenteval_collector.cli.client import AsJson, Environment, Key, Since, Url, answer, time_of
from agenteval_collector.cli.terminal import console, content, table
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.serve.api.answers import Listing
from agenteval_collector.serve.api.figure_documents import AlarmDocument
from agenteval_collector.serve.web.formats import ago, query
from otel_agenteval.reader import DEFAULT_URL

_COLUMNS = ("state", "severity", "since", "alarm", "where")
_SEVERITIES = {"critical": "bold red", "warning": "yellow", "info": ""}
_STATES = {"firing": "bold red", "ended": "green", "muted": "dim"}


def alarms(
    state: Annotated[str | None, typer.Option(help="Only those in this state: firing, ended, muted.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only those of this agent.")] = None,
    environment: Environment = None,
    since: Since = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most this many.")] = 50,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List alarms, the newest first: what goes wrong with an agent now, compared with its own past."""
    filters = query(
        {"limit": limit, "state": state, "agent": agent, "environment": environment, "since": time_of("--since", since)}
    )
    answer(_show_alarms, "/api/v1/alarms" + filters, url, api_key, as_json)


def _show_alarms(page: Listing[AlarmDocument]) -> None:
    out = console()
    if not page["items"]:
        out.print("No alarms, or none by that filter.")
        return
    now = SystemClock().now()
    listed = table(*_COLUMNS, whole={"state", "severity", "since"})
    for item in page["items"]:
        where = " ".join(name for name in (item["service"], item["environment"]) if name)
        listed.add_row(
            Text(item["state"], _STATES[item["state"]]),
            Text(item["severity"], _SEVERITIES[item["severity"]]),
            Text(ago(item["since"], now)),
            content(f"{item['title']}. {item['evidence']}"),
            content(where or "–"),
        )
    out.print(listed)
    if page["items"][0]["examples"]:
        out.print(content(f"An example of the first: agenteval why {page['items'][0]['examples'][0]}", "dim"))
