"""Label traces that the collector draws at random, one key press each; the judge's verdict is shown afterwards."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

import typer

from agenteval_collector.api.documents import SessionDocument, TraceDocument
from agenteval_collector.api.quality_documents import DrawDocument, QualityPage
from agenteval_collector.cli.show import show_conversation
from agenteval_collector.cli.terminal import clean
from agenteval_collector.web.labelling import VALUES, about_rate, labels_worth, rate_of, traces_before

_VALUES: Final = {word[0]: value for word, value in VALUES.items()}


def review(
    name: str,
    only: dict[str, str],
    *,
    ask: Callable[[str], str | None],
    say: Callable[[str, float], None],
) -> None:
    """Draw, show and label until the person stops. `ask` returns what the API says at a path, None for 404; `say` keeps
    a label of a trace."""
    skipped: list[str] = []
    while (body := ask(_next_path(name, only, skipped))) is not None:
        drawn: DrawDocument = json.loads(body)
        trace: TraceDocument | None = json.loads(ask(f"/api/v1/traces/{drawn['trace_id']}") or "null")
        if trace is None:
            # It was forgotten in between.
            skipped.append(drawn["trace_id"])
            continue
        _show_before(trace, ask)
        show_conversation(trace)
        key = _key(name)
        if key == "q":
            return
        if key == "s":
            skipped.append(drawn["trace_id"])
            continue
        say(drawn["trace_id"], _VALUES[key])
        _tell_verdict(name, trace)
        quality = ask(f"/api/v1/quality?{urlencode(_rated(drawn))}")
        _tell_progress(json.loads(quality or '{"items": []}'), drawn)
    typer.echo(f"Nothing is left to be labelled for {clean(name)}.")


def _show_before(trace: TraceDocument, ask: Callable[[str], str | None]) -> None:
    """Show the traces of its session before this one, as many as the page shows."""
    session: SessionDocument | None = json.loads(
        ask(f"/api/v1/sessions/{quote(trace['session_id'], safe='')}") or "null"
    )
    before = traces_before(session, trace["trace_id"])
    for body in filter(None, (ask(f"/api/v1/traces/{each}") for each in before)):
        show_conversation(json.loads(body))
    if before:
        typer.echo("\n--- to be judged, after what is above: ---")


def _next_path(name: str, only: dict[str, str], skipped: Sequence[str]) -> str:
    return f"/api/v1/review/next?{urlencode({'name': name, 'skip': ','.join(skipped), **only})}"


def _key(name: str) -> str:
    while True:
        typer.echo(f"{clean(name)}: [p]ass, [f]ail, [s]kip, [q]uit? ", nl=False)
        key = typer.getchar().lower()
        typer.echo(key if key.isalpha() else "")
        if key in (*_VALUES, "s", "q"):
            return key


def _rated(drawn: DrawDocument) -> dict[str, str]:
    named: dict[str, Any] = {"name": drawn["name"], "agent": drawn["agent"], "version": drawn["version"]}
    return {key: value for key, value in named.items() if value}


def _tell_verdict(name: str, trace: TraceDocument) -> None:
    for outcome in trace["outcomes"]:
        if outcome["name"] == name and outcome["score"] is not None:
            verdict = "passes" if outcome["success"] else "fails"
            typer.echo(clean(f"The judge {verdict} it ({outcome['score']:.2f}): {outcome['reason'] or ''}"))


def _tell_progress(page: QualityPage, drawn: DrawDocument) -> None:
    """Say what the rate is by now, how many labels are worth giving, and how narrow the interval would be then."""
    rate = rate_of(page["items"], drawn)
    if rate is not None and rate["estimate"] is not None:
        for sentence in (about_rate(rate), *labels_worth(rate)):
            typer.echo(sentence)
