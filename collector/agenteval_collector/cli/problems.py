"""Commands about problems: `problems`, `resolve`, `mute`, `merge` and `split`."""

from typing import Annotated, Literal
from urllib.parse import quote

import typer
from rich.text import Text

from agenteval_collector.cli.client import AsJson, Environment, Key, Since, Url, answer, tell, time_of
from agenteval_collector.cli.tables import WIDE
from agenteval_collector.cli.tables import severity as severity_text
from agenteval_collector.cli.terminal import clean, console, content, fail, table
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.runtime.times import rfc3339
from agenteval_collector.serve.api.answers import Listing
from agenteval_collector.serve.api.figure_documents import ProblemDocument
from agenteval_collector.serve.web.formats import agent_words, ago, moment, money, query
from otel_agenteval.loops.setting_values import seconds
from otel_agenteval.reader import DEFAULT_URL

ProblemId = Annotated[str, typer.Argument(metavar="PROBLEM", help="A problem's id: 16 hexadecimal digits.")]
By = Annotated[str, typer.Option(metavar="PERSON", help="Who says so.")]

_BARS = " ▁▂▃▄▅▆▇█"
_NARROW_COLUMNS = ("problem", "state", "severity", "agent", "what", "traces")
_COLUMNS = (*_NARROW_COLUMNS, "sessions", "cost", "last 24 h", "last seen")
_ACTORS: tuple[tuple[str, Literal["agent", "tool"]], ...] = (("by", "agent"), ("tool", "tool"))
_STATES = {"new": "bold red", "regressed": "bold red", "ongoing": "", "muted": "dim", "resolved": "green"}


def problems(
    problem_id: Annotated[str | None, typer.Argument(metavar="[PROBLEM]", help="Show this one.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only those of this agent.")] = None,
    service: Annotated[str | None, typer.Option(help="Only those of agents in this service.")] = None,
    state: Annotated[
        str | None, typer.Option(help="Only those in this state: new, ongoing, regressed, muted, resolved.")
    ] = None,
    severity: Annotated[str | None, typer.Option(help="Only those of this severity: error, warning.")] = None,
    version: Annotated[str | None, typer.Option(help="Only those that occurred in this service.version.")] = None,
    environment: Environment = None,
    since: Since = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most this many.")] = 50,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List what goes wrong again and again: each failure once, with how often, since when, in which versions.

    With the id of a problem: where it begins, what followed from it, and its examples.
    """
    if problem_id is not None:
        answer(_show_problem, f"/api/v1/problems/{quote(problem_id, safe='')}", url, api_key, as_json)
        return
    whose = {"agent": agent, "service": service, "version": version}
    whose |= {"environment": environment, "since": time_of("--since", since)}
    filters = query({"limit": limit, "state": state, "severity": severity, **whose})
    answer(_show_problems, "/api/v1/problems" + filters, url, api_key, as_json)


def resolve(problem_id: ProblemId, by: By = "", url: Url = DEFAULT_URL, api_key: Key = None) -> None:
    """Mark a problem as resolved. If it occurs again it is a regression, and alerts again."""
    tell(url, f"/api/v1/problems/{quote(problem_id, safe='')}/resolve", {"author": by}, api_key)
    typer.echo(f"{clean(problem_id)} is resolved; its next occurrence is a regression.")


def mute(
    problem_id: ProblemId,
    time: Annotated[str, typer.Option("--for", metavar="TIME", help="For how long: 8h, 7d.")] = "1d",
    end: Annotated[bool, typer.Option("--end", help="End the muting now.")] = False,
    by: By = "",
    url: Url = DEFAULT_URL,
    api_key: Key = None,
) -> None:
    """Mute a problem for a time. It is still counted, but raises no alert."""
    try:
        length = seconds(time)
    except ValueError:
        fail(f"--for is {clean(time)!r}, not a time such as 8h or 7d")
    # None also for a time beyond the calendar, which the next line refuses.
    until = None if end else rfc3339(SystemClock().now() + round(length * 1e9))
    if until is None and not end:
        fail(f"--for is {clean(time)!r}: no calendar goes so far")
    tell(url, f"/api/v1/problems/{quote(problem_id, safe='')}/mute", {"until": until, "author": by}, api_key)
    typer.echo(f"{clean(problem_id)} is {'not muted any more' if end else f'muted until {moment(until)}'}.")


def merge(
    problem_id: ProblemId,
    into: Annotated[str, typer.Argument(metavar="INTO", help="The problem that it becomes a part of.")],
    by: By = "",
    url: Url = DEFAULT_URL,
    api_key: Key = None,
) -> None:
    """Merge a problem into another one, later traces included. `split` takes them apart."""
    path = f"/api/v1/problems/{quote(problem_id, safe='')}/merge"
    target = tell(url, path, {"into": into, "author": by}, api_key)
    traces = _number(target["traces"], "trace")
    typer.echo(f"{clean(problem_id)} is part of {clean(into)} now, which has {traces}.")


def split(
    problem_id: ProblemId,
    by_text: Annotated[bool, typer.Option("--by-text", help="Make each text of it a problem of its own.")] = False,
    by: By = "",
    url: Url = DEFAULT_URL,
    api_key: Key = None,
) -> None:
    """Take apart what was merged into a problem, or with --by-text each of its texts. To put these together again,
    merge one of them into it."""
    path = f"/api/v1/problems/{quote(problem_id, safe='')}/split"
    tell(url, path, {"by_text": by_text, "author": by}, api_key)
    typer.echo(f"{clean(problem_id)} is split; agenteval problems shows what came of it.")


def _show_problem(item: ProblemDocument) -> None:
    out = console()
    out.print(content(item["title"], "bold"))
    facts = f"{item['state']} {item['severity']}, in {_number(item['traces'], 'trace')}"
    out.print(content(f"{facts}, last seen {ago(item['last_seen'], SystemClock().now())}"))
    if (cause := item["cause"]) is not None:
        by = "".join(f", {word} {cause[name]}" for word, name in _ACTORS if cause[name] is not None)
        out.print(content(f"It begins with: {cause['what']}{by} ({cause['traces']} of {item['traces']})."))
        turn = "" if cause["turn"] is None else f", turn {cause['turn'] + 1}"
        span = "" if cause["span_id"] is None else f", span {cause['span_id']}"
        if cause["trace_id"] is not None:
            out.print(content(f"As in trace {cause['trace_id']}{turn}{span}."))
    for followed in item["followed"]:
        out.print(content(f"Followed by {followed['kind']} in {_number(followed['traces'], 'trace')}."))
    for trace_id in item["examples"]:
        out.print(content(f"agenteval why {trace_id}", "dim"))


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _show_problems(page: Listing[ProblemDocument]) -> None:
    out = console()
    if not page["items"]:
        out.print("No problems: nothing failed, or nothing by that filter.")
        return
    now = SystemClock().now()
    columns = _COLUMNS if out.width >= WIDE else _NARROW_COLUMNS
    # Other commands need the id, so it is never broken.
    listed = table(*columns, right=("traces", "sessions", "cost"), whole=set(columns) - {"agent", "what"})
    for item in page["items"]:
        cells = {
            "problem": content(item["problem_id"]),
            "state": Text(item["state"], _STATES[item["state"]]),
            "severity": severity_text(item["severity"]),
            "agent": content(agent_words(item["agent"], item["service"]), "" if item["agent"] else "dim"),
            "what": content(item["title"]),
            "traces": Text(str(item["traces"])),
            "sessions": Text(str(item["sessions"])),
            "cost": Text(money(item["usd"]) if item["usd"] else "–"),
            "last 24 h": Text(trend(item), "cyan"),
            "last seen": Text(ago(item["last_seen"], now)),
        }
        listed.add_row(*(cells[name] for name in columns))
    out.print(listed)
    example = page["items"][0]["examples"]
    if example:
        out.print(content(f"An example of the first: agenteval why {example[0]}", "dim"))


def trend(item: ProblemDocument) -> str:
    """Draw a bar for the number of traces in each hour."""
    most = max(item["trend"]) or 1
    # Rounded up, so that an hour with a single trace has a bar, too.
    return "".join(_BARS[-(-count * (len(_BARS) - 1) // most)] for count in item["trend"])
