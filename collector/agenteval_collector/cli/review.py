"""Label traces that the collector draws at random, one key press each; the judge's verdict is shown afterwards."""

import json
from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any, Final
from urllib.parse import quote, urlencode

import typer

from agenteval_collector.api.documents import SessionDocument, TraceDocument
from agenteval_collector.api.quality_documents import DrawDocument, QualityPage
from agenteval_collector.cli.show import show_conversation
from agenteval_collector.cli.terminal import clean
from agenteval_collector.web.formats import believed, number

_VALUES: Final = {"p": 1.0, "f": 0.0}
_BEFORE: Final = 5
_GOALS: Final = ((20, "an interval"), (50, "the judge's rate to be corrected by labels"))


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
        _tell_progress(json.loads(quality or "{}"), drawn)
    typer.echo(f"Nothing is left to be labelled for {clean(name)}.")


def _show_before(trace: TraceDocument, ask: Callable[[str], str | None]) -> None:
    """Show the traces of its session before this one, at most the last `_BEFORE`: a turn is rarely to be understood
    by itself."""
    session: SessionDocument = json.loads(ask(f"/api/v1/sessions/{quote(trace['session_id'], safe='')}") or "null")
    ids = session["trace_ids"] if session else []
    before = ids[: ids.index(trace["trace_id"])][-_BEFORE:] if trace["trace_id"] in ids else []
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
    of_version = [
        each for each in page["items"] if (each["agent"], each["version"]) == (drawn["agent"], drawn["version"])
    ]
    for item in of_version:
        if (rate := item["estimate"]) is None:
            continue
        interval = "" if item["interval"] is None else f" ({'–'.join(map(number, item['interval']))})"
        labels = f"{item['labelled']} label{'s' if item['labelled'] > 1 else ''}"
        typer.echo(f"The rate is {number(rate)}{interval}: {believed(item['estimator'])}, {labels}.")
        # As if one more passed and one more failed: a rate of 1 is never certain.
        spread = sqrt((rate * item["judged"] + 1) * ((1 - rate) * item["judged"] + 1)) / (item["judged"] + 2)
        for goal, what in _GOALS:
            if item["labelled"] < goal:
                width = 1.96 * spread / sqrt(goal)
                typer.echo(f"{goal - item['labelled']} more labels for {what}, about ±{width:.2f} then.")
