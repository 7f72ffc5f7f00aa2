"""Print sessions and traces of the API as tables and text on a terminal."""

from collections.abc import Sequence

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agenteval_collector.cli.tables import score, session_table, severity
from agenteval_collector.cli.terminal import console, content, table
from agenteval_collector.model.labels import LabelSource
from agenteval_collector.serve.api import explanation, trace_documents
from agenteval_collector.serve.web.findings import grouped, kind_words, unshown
from agenteval_collector.serve.web.formats import between, hit_rate_words, moment, number, percent, readable
from otel_agenteval.outcome import Status

_ON_EMBEDDING = (
    "Scores by embedding compare the words of answers: they say nothing of repeated calls, and are rough "
    "(docs/scores.md)."
)


def show_sessions(page: trace_documents.SessionPage, *, now: int, filtered: bool = False) -> None:
    """Print a page of sessions.

    `now` is in nanoseconds since the Unix epoch. `filtered` is True if the request had a filter.
    """
    out = console()
    if not page["items"]:
        out.print(_no_sessions(filtered))
        return
    if (hit_rate := page.get("hit_rate")) is not None:
        out.print(hit_rate_words(hit_rate))
    out.print(session_table(page["items"], now=now, width=out.width))
    for session in page["items"]:
        if session["status_reason"] is not None:
            out.print(content(f"{session['session_id']}: {session['status_reason']}", "bold red"))
    if trouble := explanation.judge_trouble(page["items"]):
        out.print(content(f"Scores wait: {trouble}.", "yellow"))


def _no_sessions(filtered: bool) -> str:
    if filtered:
        return "No such sessions. Names are compared exactly. Words are found in upper and lower case."
    return "No sessions. Attach an agent: `agenteval run -- python app.py`; or see some with `agenteval demo`."


def show_session(session: trace_documents.SessionDocument, *, now: int) -> None:
    """Print a session: its findings, its scores, and its traces with their signals.

    `now` is in nanoseconds since the Unix epoch.
    """
    out = console()
    out.print(session_table([session], now=now, width=out.width))
    if session["status_reason"] is not None:
        out.print(content(session["status_reason"], "bold red"))
    if session["running_traces"]:
        out.print(content(f"running: {', '.join(session['running_traces'])}"))
    out.print()
    _show_groups(session)
    out.print()
    _show_outcomes(session["outcomes"], session["labels"])
    _show_course(session)
    out.print()
    names = sorted({name for signals in session["signals"].values() for name in signals})
    # The worst group comes first, so its kind is written last.
    worst = {
        finding["trace_id"]: group.kind for group in grouped(session["findings"])[::-1] for finding in group.findings
    }
    signals_of = table("trace", "worst finding", *names, right=names, whole=("trace",))
    for trace_id in session["trace_ids"]:
        signals = session["signals"].get(trace_id, {})
        flagged = trace_id in session["flagged_traces"]
        values = [number(signals.get(name)) for name in names]
        kinds = content(kind_words(worst[trace_id])) if trace_id in worst else Text("–", "dim")
        signals_of.add_row(content(trace_id, "bold red" if flagged else ""), kinds, *values)
    out.print(signals_of)
    if session["flagged_traces"]:
        red = "Traces in red have an error or a judged score below its threshold; `agenteval why TRACE` explains one."
        out.print(Text(red, "dim"))


def show_trace(trace: trace_documents.TraceDocument) -> None:
    """Print the findings of a trace, what was said and done in it, and its outcomes."""
    out = console()
    facts = Table.grid(padding=(0, 2))
    for name, value in (
        ("trace", trace["trace_id"]),
        ("session", trace["session_id"]),
        ("agent", ", ".join(trace["agents"]) or None),
        ("service", trace["service"]),
        ("user", trace["user_id"]),
        ("status", trace["status"] + (", partial" if trace["partial"] else "")),
        ("started", f"{moment(trace['started_at'])}, took {between(trace['started_at'], trace['ended_at'])}"),
        (
            "spans",
            f"{trace['span_count']}, {trace['model_calls']} model calls, {len(trace['tools_called'])} tool calls",
        ),
    ):
        if value is not None:
            facts.add_row(Text(name, "dim"), content(value))
    out.print(facts)
    if trace["status_reason"] is not None:
        out.print(content(trace["status_reason"], "bold red"))
    if trace["open_spans"]:
        spans = (f"{span['name']} (since {moment(span['started_at'])})" for span in trace["open_spans"])
        out.print(content(f"open spans: {', '.join(spans)}"))
    out.print()
    for finding in explanation.worst_first(trace["findings"]):
        _show_finding(finding)
    _show_more(trace)
    out.print(content(explanation.about_visibility(trace).text, "dim"))
    show_conversation(trace)
    out.print()
    _show_outcomes(trace["outcomes"], trace["labels"])


def show_conversation(trace: trace_documents.TraceDocument) -> None:
    """Print what was said in a trace and which tools were called, without findings, scores and labels."""
    for turn in trace["turns"]:
        console().print()
        _show_said("user", turn["input"])
        for call in turn["tools_called"]:
            _show_call(call)
        if turn["error"] is not None:
            _show_said("error", turn["error"], "red")
        if turn["output"] is not None or turn["error"] is None:
            _show_said("agent", turn["output"])


def show_explanation(notes: Sequence[explanation.Note]) -> None:
    """Print each note as a paragraph with its advice below. Print the same advice only once."""
    out = console()
    flags = set()
    for note in notes:
        out.print(content(note.text, lines=True))
        if note.advice is not None and note.advice not in flags:
            flags.add(note.advice)
            out.print(Padding(content(note.advice, "dim"), (0, 0, 0, 2)))


def _show_course(session: trace_documents.SessionDocument) -> None:
    """Print whether task completion stalls or regresses, and how many interactions ground truth calls correct."""
    trend, interactions = session["trend"], session["interactions"]
    # A session without a complete trace has neither a trend nor interactions.
    if trend is not None and trend["evaluated"]:
        words = [word for word, is_so in (("stalls", trend["stalled"]), ("regresses", trend["regressed"])) if is_so]
        course = " and ".join(words) or "neither stalls nor regresses"
        console().print(Text(f"task completion {course}: {trend['reason']}", "red" if words else "dim"))
    if interactions is not None:
        correct = f"{interactions['correct']} of {interactions['interactions']} interactions are correct"
        chances = ", ".join(
            f"pass^{k} {number(value)}"
            for k, value in list(interactions["pass_hat_k"]["plugin"].items())[:4]
            if value is not None
        )
        console().print(Text(f"{correct} by ground truth: {chances} (plug-in)", "dim"))


def _show_groups(session: trace_documents.SessionDocument) -> None:
    """Print the findings of a session by kind, the worst first, with the traces that have them."""
    out = console()
    if not session["findings"]:
        out.print(Text("No finding in what was seen; `agenteval why TRACE` says what that was.", "dim"))
        return
    whole = ("severity", "count", "first in trace")
    kinds = table("severity", "finding", "count", "first in trace", "evidence", right=("count",), whole=whole)
    for group in grouped(session["findings"]):
        first = group.findings[0]
        kinds.add_row(
            severity(group.severity),
            content(kind_words(group.kind)),
            str(len(group.findings)),
            content(first["trace_id"]),
            content(first["reason"], lines=True),
        )
    out.print(kinds)
    _show_more(session)


def _show_finding(finding: trace_documents.FindingDocument) -> None:
    places = [
        *([f"turn {finding['turn'] + 1}"] if finding["turn"] is not None else []),
        *([finding["tool"]] if finding["tool"] is not None else []),
        *([f"span {finding['span_id']}"] if finding["span_id"] is not None else []),
        *(["only observed"] if finding["mode"] == "observe" else []),
    ]
    where = f" ({', '.join(places)})" if places else ""
    text = content(f" {kind_words(finding['kind'])}{where}: ").append_text(content(finding["reason"], lines=True))
    console().print(severity(finding["severity"]).append_text(text))


def _show_more(document: trace_documents.FoundDocument) -> None:
    rest = unshown(document)
    if rest > 0:
        console().print(Text(f"{rest} more findings are kept, but not shown.", "dim"))


def _show_said(who: str, text: str | None, style: str = "") -> None:
    line = Text("not recorded", "dim italic") if text is None else content(readable(text), style, lines=True)
    _show_columns((7, None), (Text(who, "dim"), line))


def _show_call(call: trace_documents.CallDocument) -> None:
    details = [(name, call[name]) for name in ("arguments", "error", "result") if call[name] is not None]
    is_plain = call["outcome"] in ("worked", "unknown")
    outcome = "" if is_plain else Text(f"  {call['outcome']}", "red" if call["error"] is not None else "dim")
    _show_columns(
        (7, 9, None),
        (Text("tool", "dim"), "", Text.assemble(content(call["name"], "bold"), outcome)),
        *(
            ("", Text(name, "dim"), content(readable(it), "red" if name == "error" else "", lines=True))
            for name, it in details
        ),
    )


def _show_columns(widths: Sequence[int | None], *rows: Sequence[Text | str]) -> None:
    """Print rows of columns. A column without a width takes the space that the others leave."""
    grid = Table.grid(padding=(0, 2))
    for width in widths:
        grid.add_column(width=width)
    for row in rows:
        grid.add_row(*row)
    console().print(grid)


def _show_outcomes(
    outcomes: Sequence[trace_documents.OutcomeDocument], labels: Sequence[trace_documents.LabelDocument] = ()
) -> None:
    for label in explanation.unscored_labels(outcomes, labels):
        console().print(content(explanation.about_label(label).text, lines=True))
    if not outcomes:
        console().print("No outcomes yet; `agenteval why` says what is missing.")
        return
    columns = ["outcome", "score", "threshold", "method", "coverage", *(["said"] if labels else []), "reason"]
    scores = table(*columns, right=("score", "threshold", "coverage", "said"))
    # One note below the table stands for all of these.
    unjudged = [outcome for outcome in outcomes if outcome["status"] == Status.NO_JUDGE]
    for outcome in outcomes:
        if outcome in unjudged:
            continue
        scores.add_row(
            content(outcome["name"]),
            score(outcome),
            number(outcome["threshold"]),
            content(outcome["method"]),
            percent(outcome["coverage"]),
            *([_said(outcome["name"], labels)] if labels else []),
            content(
                "\n".join(filter(None, (readable(outcome["reason"] or ""), explanation.goal_words(outcome)))),
                lines=True,
            ),
        )
    if scores.row_count:
        console().print(scores)
    if any(outcome["method"] == "embedding" and outcome["score"] is not None for outcome in outcomes):
        console().print(Text(_ON_EMBEDDING, "dim"))
    if unjudged:
        note = explanation.about_unjudged(unjudged)
        console().print(content(f"{note.text} {note.advice}", "dim"))


def _said(name: str, labels: Sequence[trace_documents.LabelDocument]) -> Text:
    """Return the labels of the score `name`, one a line, each with its author."""
    authors = (f"{_author(label)} {number(label['value'])}".strip() for label in labels if label["name"] == name)
    return Text("\n").join(map(content, authors))


def _author(label: trace_documents.LabelDocument) -> str:
    """Return the author of a label. Without a name, return the source of the label, but nothing for a person."""
    return label["author"] or ("" if label["source"] == LabelSource.PERSON else label["source"])
