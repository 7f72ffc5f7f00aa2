"""Label traces and sessions that the collector draws at random, with one key press each.

The judge's verdict is shown after the label.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote

import typer

from agenteval_collector.cli.show_traces import show_conversation
from agenteval_collector.cli.terminal import clean, fail
from agenteval_collector.serve.api.answers import Listing
from agenteval_collector.serve.api.figure_documents import DrawDocument, QualityDocument
from agenteval_collector.serve.api.trace_documents import OutcomeDocument, SessionDocument, TraceDocument
from agenteval_collector.serve.web.formats import query
from agenteval_collector.serve.web.labelling import (
    NOTHING_YET,
    VALUES,
    about_rate,
    labels_worth,
    rate_of,
    traces_before,
)

_NEWEST: Final = 64
"""The most traces of a session that are shown, beside its first one."""
_VALUES: Final = {word[0]: value for word, value in VALUES.items()}
"""The value of a label by the key to press, which is the word's first letter."""


def review(
    name: str, only: dict[str, str], *, ask: Callable[[str], Any], say: Callable[[str | None, str, str, float], None]
) -> None:
    """Draw, show and label one trace or session after the other, until the person stops or none is left.

    `ask` returns the API's document at a path, or None if the API answers with 404. `say` keeps a label. It takes
    the trace id (None: the label is of the session as a whole), the session id, the outcome's name and the value.
    """
    skipped: list[str] = []
    drawn: DrawDocument | None
    while (drawn := ask(_next_path(name, only, skipped))) is not None:
        outcomes = _show_trace(drawn["trace_id"], ask) if drawn["trace_id"] else _show_session(drawn["session_id"], ask)
        # What was drawn may have been removed in between. Then there is nothing to label, and it is skipped.
        key = "s" if outcomes is None else _key(name)
        if key == "q":
            return
        if outcomes is None or key == "s":
            skipped.append(drawn["trace_id"] or drawn["session_id"])
            continue
        say(drawn["trace_id"], drawn["session_id"], name, _VALUES[key])
        _tell_verdict(name, outcomes)
        rated = query({"name": drawn["name"], "agent": drawn["agent"], "version": drawn["version"]})
        quality: Listing[QualityDocument] | None = ask("/api/v1/quality" + rated)
        _tell_progress(quality or {"items": [], "next_cursor": None}, drawn)
    rates: Listing[QualityDocument] | None = ask("/api/v1/quality" + query({"name": name, **only}))
    if rates and rates["items"]:
        typer.echo(f"Nothing is left to be labelled for {clean(name)}.")
    else:
        typer.echo(f"Nothing to label for {clean(name)} yet. {NOTHING_YET}")


def _show_trace(trace_id: str, ask: Callable[[str], Any]) -> Sequence[OutcomeDocument] | None:
    """Show a trace below the earlier ones of its session. Return its outcomes; None if the trace is gone."""
    trace: TraceDocument | None = ask(f"/api/v1/traces/{trace_id}")
    if trace is None:
        return None
    _show_before(trace, ask)
    show_conversation(trace)
    return trace["outcomes"]


def _show_session(session_id: str, ask: Callable[[str], Any]) -> Sequence[OutcomeDocument] | None:
    """Show the traces of a session, and return its outcomes; None if the session is gone.

    Of many traces it shows the first and the newest, because the judge is shown the same.
    """
    session = _session(session_id, ask)
    if session is None:
        return None
    ids = session["trace_ids"]
    first, newest = ids[:1], ids[1:][-_NEWEST:]
    for trace_id in first + newest:
        if trace_id in newest[:1] and len(ids) > len(first + newest):
            typer.echo(f"\n--- {len(ids) - len(first + newest)} traces are left out ---")
        if (trace := ask(f"/api/v1/traces/{trace_id}")) is not None:
            show_conversation(trace)
    return session["outcomes"]


def _session(session_id: str, ask: Callable[[str], Any]) -> SessionDocument | None:
    session: SessionDocument | None = ask(f"/api/v1/sessions/{quote(session_id, safe='', errors='replace')}")
    return session


def _show_before(trace: TraceDocument, ask: Callable[[str], Any]) -> None:
    """Show the traces before this one in its session, as many as the page shows."""
    before = traces_before(_session(trace["session_id"], ask), trace["trace_id"])
    for shown in filter(None, (ask(f"/api/v1/traces/{trace_id}") for trace_id in before)):
        show_conversation(shown)
    if before:
        typer.echo("\n--- to be judged, after what is above: ---")


def _next_path(name: str, only: dict[str, str], skipped: Sequence[str]) -> str:
    # Each id is quoted by itself: commas separate the ids, and a session's id may hold commas.
    skip = ",".join(quote(trace_id, safe="", errors="replace") for trace_id in skipped)
    return "/api/v1/review/next" + query({"name": name, "skip": skip, **only})


def _key(name: str) -> str:
    while True:
        typer.echo(f"{clean(name)}: [p]ass, [f]ail, [s]kip, [q]uit? ", nl=False)
        try:
            key = typer.getchar().lower()
        except OSError:
            fail("--next takes key presses, which needs a terminal: name a trace instead, or open /review")
        typer.echo(key if key.isalpha() else "")
        if key in (*_VALUES, "s", "q"):
            return key


def _tell_verdict(name: str, outcomes: Sequence[OutcomeDocument]) -> None:
    for outcome in outcomes:
        if outcome["name"] == name and outcome["score"] is not None:
            verdict = "passes" if outcome["success"] else "fails"
            typer.echo(clean(f"The judge {verdict} it ({outcome['score']:.2f}): {outcome['reason'] or ''}"))


def _tell_progress(page: Listing[QualityDocument], drawn: DrawDocument) -> None:
    """Print the pass rate, how many more labels are worth giving, and how narrow its interval would then be."""
    rate = rate_of(page["items"], drawn)
    if rate is not None and rate["estimate"] is not None:
        for sentence in (about_rate(rate), *labels_worth(rate)):
            typer.echo(sentence)
