"""Label what the collector draws at random, one key press each; the judge's verdict is shown afterwards."""

from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote

import typer

from agenteval_collector.api.answers import Listing
from agenteval_collector.api.figure_documents import DrawDocument, QualityDocument
from agenteval_collector.api.trace_documents import OutcomeDocument, SessionDocument, TraceDocument
from agenteval_collector.cli.show_traces import show_conversation
from agenteval_collector.cli.terminal import clean, fail
from agenteval_collector.web.formats import query
from agenteval_collector.web.labelling import VALUES, about_rate, labels_worth, rate_of, traces_before

_NEWEST: Final = 64
_VALUES: Final = {word[0]: value for word, value in VALUES.items()}


def review(
    name: str, only: dict[str, str], *, ask: Callable[[str], Any], say: Callable[[str | None, str, str, float], None]
) -> None:
    """Draw, show and label until the person stops. `ask` returns what the API says at a path, None for 404; `say` keeps
    a label, given the ids of the trace (None: of a session as a whole) and the session, its name and its value."""
    skipped: list[str] = []
    drawn: DrawDocument | None
    while (drawn := ask(_next_path(name, only, skipped))) is not None:
        outcomes = _show_trace(drawn["trace_id"], ask) if drawn["trace_id"] else _show_session(drawn["session_id"], ask)
        # It may have been forgotten in between.
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
    typer.echo(f"Nothing is left to be labelled for {clean(name)}.")


def _show_trace(trace_id: str, ask: Callable[[str], Any]) -> Sequence[OutcomeDocument] | None:
    """Show a trace, after those before it in its session. Returns its outcomes; None where it is gone."""
    trace: TraceDocument | None = ask(f"/api/v1/traces/{trace_id}")
    if trace is None:
        return None
    _show_before(trace, ask)
    show_conversation(trace)
    return trace["outcomes"]


def _show_session(session_id: str, ask: Callable[[str], Any]) -> Sequence[OutcomeDocument] | None:
    """Show the traces of a session: the first and the newest, where there are many, as the judge is shown them. Returns
    its outcomes; None where it is gone."""
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
    found: SessionDocument | None = ask(f"/api/v1/sessions/{quote(session_id, safe='', errors='replace')}")
    return found


def _show_before(trace: TraceDocument, ask: Callable[[str], Any]) -> None:
    """Show the traces of its session before this one, as many as the page shows."""
    before = traces_before(_session(trace["session_id"], ask), trace["trace_id"])
    for shown in filter(None, (ask(f"/api/v1/traces/{each}") for each in before)):
        show_conversation(shown)
    if before:
        typer.echo("\n--- to be judged, after what is above: ---")


def _next_path(name: str, only: dict[str, str], skipped: Sequence[str]) -> str:
    # A session's id may hold commas.
    skip = ",".join(quote(each, safe="", errors="replace") for each in skipped)
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
    """Say what the rate is by now, how many labels are worth giving, and how narrow the interval would be then."""
    rate = rate_of(page["items"], drawn)
    if rate is not None and rate["estimate"] is not None:
        for sentence in (about_rate(rate), *labels_worth(rate)):
            typer.echo(sentence)
