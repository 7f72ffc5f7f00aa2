"""The command `agenteval label`: say what a score should have been."""

from functools import partial
from typing import Annotated

import typer

from agenteval_collector.cli.client import Key, Url, fetch_known, tell
from agenteval_collector.cli.review import review
from agenteval_collector.cli.terminal import clean, fail
from otel_agenteval.reader import DEFAULT_URL

_WORDS = {"pass": 1.0, "yes": 1.0, "fail": 0.0, "no": 0.0}


def label(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TRACE] NAME VALUE",
            help="A trace id: 32 hexadecimal digits. An outcome of the trace, such as task_completion. "
            "A number from 0 to 1; or pass, yes, fail, no.",
        ),
    ] = None,
    session_id: Annotated[
        str, typer.Option("--session", metavar="ID", help="Instead of a trace: an outcome of a session, goal_success.")
    ] = "",
    note: Annotated[str, typer.Option(help="Why.")] = "",
    by: Annotated[
        str, typer.Option(metavar="PERSON", help="Who says so. A later label by the same person replaces it.")
    ] = "",
    draw: Annotated[
        str,
        typer.Option(
            "--next",
            metavar="NAME",
            help="Label this score of traces or sessions that are drawn at random, one by one.",
        ),
    ] = "",
    agent: Annotated[str, typer.Option(help="With --next: only of this agent.")] = "",
    version: Annotated[str, typer.Option(help="With --next: only of this service.version.")] = "",
    url: Url = DEFAULT_URL,
    api_key: Key = None,
) -> None:
    """Say what a score of a trace or of a session should have been. With --next, they are drawn at random, and their
    labels correct the pass rates of `agenteval quality`."""

    def say(trace_id: str | None, session_id: str, name: str, value: float, *, drawn: bool) -> None:
        subject = {"session_id": session_id} if trace_id is None else {"trace_id": trace_id}
        label = {**subject, "name": name, "value": value, "author": by, "note": note, "drawn": drawn}
        tell(url, "/api/v1/labels", label, api_key)

    values = [argument for argument in arguments or () if argument]
    if draw:
        if values or session_id:
            fail("give --next NAME alone, without a trace or session")
        only = {"agent": agent, "version": version}
        review(draw, only, ask=lambda path: fetch_known(url, path, api_key), say=partial(say, drawn=True))
        return
    if len(values) != (2 if session_id else 3):
        fail("give TRACE, NAME and VALUE; or --session ID, NAME and VALUE; or --next NAME")
    *trace, name, text = values
    value = _value(text)
    say(trace[0] if trace else None, session_id, name, value, drawn=False)
    typer.echo(clean(f"{name} of {trace[0] if trace else session_id} is {value:.2f}{f', says {by}' if by else ''}."))


def _value(text: str) -> float:
    word = _WORDS.get(text.lower())
    if word is not None:
        return word
    try:
        value = float(text)
    except ValueError:
        fail(f"VALUE is {clean(text)!r}, not a number from 0 to 1, nor one of {', '.join(_WORDS)}")
    if not 0.0 <= value <= 1.0:
        fail(f"VALUE is {clean(text)!r}, not a number from 0 to 1")
    return value
