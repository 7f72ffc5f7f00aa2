"""Tables of sessions, findings and traces for a terminal."""

from collections.abc import Mapping, Sequence

from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from agenteval_collector.cli.terminal import content, table
from agenteval_collector.model.score_kinds import SCORE_KINDS
from agenteval_collector.serve.api import trace_documents
from agenteval_collector.serve.web.findings import counted, grouped, judged_low, kind_words, worst_kinds
from agenteval_collector.serve.web.formats import ago, named, number, percent, tone

_STYLES = {"good": "green", "bad": "bold red", "plain": ""}
_SEVERITIES = {"error": "bold red", "warning": "yellow", "info": "cyan"}

_SHOWN = ("scored", "pending", "failed")
_MARKS = {"pending": ("…", "dim"), "failed": ("fail", "red")}

_COLUMNS = ("status", "traces", "worst findings", "judged low", "flagged", "reliability", "last seen")
_NARROW_COLUMNS = ("traces", "worst findings", "flagged", "reliability")
WIDE = 140
"""Width in characters from which a terminal has room for all columns."""


def session_table(
    sessions: Sequence[trace_documents.SessionItem | trace_documents.SessionDocument], *, now: int, width: int
) -> Table:
    """Return a table of sessions in the given order, with their worst findings and their scores.

    `now` is in nanoseconds since the Unix epoch. `width` is that of the terminal in characters. Below `WIDE`, the table
    only has the columns that say where to look.
    """
    listed = _cut_table("session", "agent")
    # The session and the agent share the width that the other columns leave.
    listed.columns[0].ratio, listed.columns[1].ratio = 3, 2
    for name in _COLUMNS if width >= WIDE else _NARROW_COLUMNS:
        justify: JustifyMethod = "left" if name == "worst findings" else "right"
        most = width // 3 if name == "worst findings" else None
        listed.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis", min_width=len(name), max_width=most)
    for session in sessions:
        cells = _cells(session, now)
        listed.add_row(*(cells[str(column.header)] for column in listed.columns))
    return listed


def _cells(session: trace_documents.SessionItem | trace_documents.SessionDocument, now: int) -> dict[str, Text]:
    """Return the cells of a session by the headings of their columns."""
    reliability = named(session["outcomes"], "agent_reliability")
    # A session of a listing has the number of its traces; a whole session has their ids.
    traces = len(session["trace_ids"]) if "trace_ids" in session else session["trace_count"]
    return {
        "session": content(session["session_id"]),
        "agent": content(session["agent"] or "unnamed", "" if session["agent"] else "dim"),
        "status": content(session["status"], "bold red" if session["status_reason"] else ""),
        "traces": Text(str(traces)),
        "worst findings": worst(session),
        "judged low": _count(judged_low(session)),
        "flagged": _count(len(session["flagged_traces"])),
        "reliability": _with_coverage(reliability),
        "last seen": Text(ago(session["last_seen_at"], now)),
    }


def worst(session: trace_documents.SessionItem | trace_documents.SessionDocument) -> Text:
    """Return the number and the kinds of the worst findings of a session."""
    severity = session["worst"]
    if severity == "none":
        return Text("nothing recorded" if session["blind"] else "none found", "dim")
    kinds = ", ".join(map(kind_words, worst_kinds(session)))
    count = counted(session["findings_count"][severity], severity)
    return content(f"{count}: {kinds}", _SEVERITIES[severity])


def severity(value: str) -> Text:
    """Return a severity in its colour."""
    return content(value, _SEVERITIES.get(value, ""))


def finding_table(found: Mapping[str, Sequence[trace_documents.FindingDocument]]) -> Table:
    """Return a table of the sessions' findings by kind, with their count and the evidence of the first one."""
    kinds = _cut_table("session", "severity", "finding")
    kinds.add_column("count", justify="right", no_wrap=True)
    kinds.add_column("evidence", no_wrap=True, overflow="ellipsis", ratio=1)
    for session_id, findings in found.items():
        for group in grouped(findings):
            kinds.add_row(
                content(session_id),
                severity(group.severity),
                content(kind_words(group.kind)),
                str(len(group.findings)),
                _line(group.findings[0]["reason"]),
            )
    return kinds


def trace_table(traces: Sequence[trace_documents.TraceDocument]) -> Table:
    """Return a table of traces in the given order: the user's input, and each score that any of them has.

    Long texts are cut.
    """
    listed = _cut_table()
    scored = {outcome["name"] for trace in traces for outcome in trace["outcomes"] if outcome["status"] in _SHOWN}
    names = {kind.heading: kind.name for kind in SCORE_KINDS if kind.heading and kind.name in scored}
    listed.caption = Text(", ".join(f"{short}: {name}" for short, name in names.items()), "dim", justify="left")
    for name, ratio in (("session", 2), ("asked", 3)):
        listed.add_column(name, no_wrap=True, overflow="ellipsis", ratio=ratio)
    for name in names:
        listed.add_column(name, justify="right", no_wrap=True, min_width=4)
    for trace in traces:
        scores = [_brief(named(trace["outcomes"], name)) for name in names.values()]
        listed.add_row(_line(trace["session_id"]), _line(trace["input"]), *scores)
    return listed


def score(outcome: trace_documents.OutcomeDocument | None) -> Text:
    """Return a score, coloured by success. Without a score, return the status; a dash if none is expected."""
    if outcome is None or outcome["status"] == "not_applicable":
        return Text("–", "dim")
    if outcome["score"] is None:
        return content(outcome["status"].replace("_", " "), "dim")
    return Text(number(outcome["score"]), _STYLES[tone(outcome)])


def _brief(outcome: trace_documents.OutcomeDocument | None) -> Text:
    """Return a score, or a mark in its place, in at most four characters."""
    if outcome is not None and outcome["score"] is not None:
        return score(outcome)
    return Text(*_MARKS.get(outcome["status"] if outcome else "", ("–", "dim")))


def _with_coverage(outcome: trace_documents.OutcomeDocument | None) -> Text:
    if outcome is None or outcome["score"] is None:
        return score(outcome)
    return score(outcome).append(f" ({percent(outcome['coverage'])})", "dim")


def _count(number: int | None) -> Text:
    return Text("–" if number is None else str(number), "bold red" if number else "dim")


def _cut_table(*columns: str) -> Table:
    """Return a table that is as wide as the terminal and cuts cells that do not fit."""
    finding_rows = table(*columns, whole=columns)
    finding_rows.expand = True
    for column in finding_rows.columns:
        column.overflow = "ellipsis"
    return finding_rows


def _line(text: str | None) -> Text:
    return Text("not recorded", "dim") if text is None else content(" ".join(text.split()))
