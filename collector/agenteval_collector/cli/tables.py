"""Tables of traces and sessions for people. What telemetry says is shown as text, never obeyed."""

from collections.abc import Iterable
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from agenteval_collector.pipeline import Document


def session_table(sessions: Iterable[Document], title: str = "Sessions") -> Table:
    """Sessions with their scores, in the given order."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("session", "agent"):
        table.add_column(heading, overflow="ellipsis", no_wrap=True, max_width=36)
    for heading in ("status", "traces", "flagged", "reliability", "consistency", "coverage"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=len(heading))
    for session in sessions:
        outcomes = {outcome["name"]: outcome for outcome in session["outcomes"]}
        reliability = outcomes.get("agent_reliability", {})
        table.add_row(
            plain(session["session_id"]),
            plain(session["agent"]),
            session["status"],
            str(session.get("trace_count", len(session.get("trace_ids", ())))),
            flagged(session),
            score(reliability),
            score(outcomes.get("agent_consistency", {})),
            number(reliability.get("coverage")),
        )
    return table


def trace_table(traces: Iterable[Document], title: str = "Traces") -> Table:
    """Traces with their scores, in the given order."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, expand=True)
    table.add_column("session", overflow="ellipsis", no_wrap=True, ratio=2)
    table.add_column("asked", overflow="ellipsis", no_wrap=True, ratio=3)
    table.add_column("answered", overflow="ellipsis", no_wrap=True, ratio=3)
    for heading in ("tools", "coherence", "loop_detection"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=len(heading))
    for trace in traces:
        outcomes = {outcome["name"]: outcome for outcome in trace["outcomes"]}
        failed = sum(call["error"] is not None for call in trace["tools_called"])
        tools = Text(str(len(trace["tools_called"])))
        if failed:
            tools.append(f", {failed} failed", style="red")
        table.add_row(
            plain(trace["session_id"]),
            plain(trace["input"]),
            plain(trace["output"]),
            tools,
            score(outcomes.get("coherence", {})),
            score(outcomes.get("loop_detection", {})),
        )
    return table


def flagged(session: Document) -> Text:
    """How many traces of the session are risky; red where any is."""
    count = len(session["flagged_traces"])
    return Text(str(count), style="bold red" if count else "dim")


def score(outcome: Document) -> Text:
    """A score, red where it fails; a dash where there is none."""
    value = outcome.get("score")
    if value is None:
        return Text("-" if outcome.get("status") != "failed" else "failed", style="dim")
    style = {True: "green", False: "bold red", None: ""}[outcome["success"]]
    return Text(number(value), style=style)


def number(value: float | None) -> str:
    """Two decimals; a dash for none."""
    return "-" if value is None else f"{value:.2f}"


def plain(value: Any) -> Text:
    """Content as one line of text without markup and control characters; a dash for none."""
    if value is None:
        return Text("-", style="dim")
    return Text("".join(letter if letter.isprintable() else " " for letter in str(value)))
