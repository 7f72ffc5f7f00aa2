"""Tables of sessions and traces for a terminal."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from agenteval_collector.cli.terminal import content
from agenteval_collector.pipeline import Document
from agenteval_collector.web.formats import ago, named, number, percent, tone

_STYLES = {"good": "green", "bad": "bold red", "plain": ""}

_SHORT = {
    "task": "task_completion",
    "tool": "tool_correctness",
    "args": "argument_correctness",
    "step": "step_efficiency",
    "conf": "confidence",
    "obey": "plan_adherence",
    "plan": "plan_quality",
    "fits": "coherence",
    "loop": "loop_detection",
}
"""Headings of scores, nine of which stand side by side in a terminal."""
_SEVERITY_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim"}
_MARKS = {"pending": ("…", "dim"), "failed": ("fail", "red")}

WIDE = 100
"""Columns of a terminal from which there is room for everything."""


def session_table(sessions: Sequence[Document], *, now: int, width: int) -> Table:
    """Sessions with their scores, in the given order; `now` in nanoseconds since the Unix epoch.

    A terminal narrower than `WIDE` columns does without the time last seen: names and scores matter more.
    """
    table = _table("session", "agent")
    if width < WIDE:
        table.expand = True  # Then the first two share what the others leave.
        table.columns[0].ratio, table.columns[1].ratio = 3, 2
    columns = ["status", "traces", "reliability", "consistency", "coverage", "flagged", "worst", "last seen"]
    for name in columns if width >= WIDE else columns[:-1]:
        table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
    for session in sessions:
        reliability = named(session["outcomes"], "agent_reliability")
        flagged = len(session["flagged_traces"])
        cells = [
            content(session["session_id"]),
            content(session["agent"] or "unnamed", "" if session["agent"] else "dim"),
            content(session["status"], "bold red" if session["status_reason"] else ""),
            # Items of a listing carry the number, whole sessions the traces.
            Text(str(session["trace_count"] if "trace_count" in session else len(session["trace_ids"]))),
            score(reliability),
            score(named(session["outcomes"], "agent_consistency")),
            Text(percent(reliability["coverage"] if reliability else None)),
            Text(str(flagged), "bold red" if flagged else "dim"),
            _worst(session),
            Text(ago(session["last_seen_at"], now)),
        ]
        table.add_row(*cells[: len(table.columns)])
    return table


def trace_table(traces: Sequence[Document]) -> Table:
    """Traces with what was asked and all their scores, in the given order; long texts are cut."""
    table = _table()
    table.expand = True
    table.caption = Text(", ".join(f"{short}: {name}" for short, name in _SHORT.items()), "dim", justify="left")
    for name, ratio in (("session", 2), ("asked", 3)):
        table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=ratio)
    for name in _SHORT:
        table.add_column(name, justify="right", no_wrap=True, min_width=4)
    for trace in traces:
        scores = [_brief(named(trace["outcomes"], name)) for name in _SHORT.values()]
        table.add_row(_line(trace["session_id"]), _line(trace["input"]), *scores)
    return table


def score(outcome: Document | None) -> Text:
    """An outcome's score, coloured by success; its status where it has none, a dash where none is to be expected."""
    if outcome is None or outcome["status"] == "not_applicable":
        return Text("–", "dim")
    if outcome["score"] is None:
        return content(outcome["status"].replace("_", " "), "dim")
    return Text(number(outcome["score"]), _STYLES[tone(outcome)])


def _worst(session: Document) -> Text:
    """The worst severity of its findings, with how many there are of it."""
    worst = session["worst"]
    if worst == "none":
        return Text("–", "dim")
    return Text(f"{session['findings_count'][worst]} {worst}", _SEVERITY_STYLES[worst])


def _brief(outcome: Document | None) -> Text:
    """The same in four characters."""
    if outcome is not None and outcome["score"] is not None:
        return score(outcome)
    return Text(*_MARKS.get(outcome["status"] if outcome else "", ("–", "dim")))


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(name, overflow="ellipsis", no_wrap=True)
    return table


def _line(text: str | None) -> Text:
    return Text("not recorded", "dim") if text is None else content(" ".join(text.split()))
