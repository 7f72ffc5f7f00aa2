"""Commands that tell a collector something: `label`, `judge` and `delete`."""

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from agenteval_collector.api.documents import DeletionDocument, JudgingDocument
from agenteval_collector.cli.client import DEFAULT_URL, AsJson, Key, Url, answer, fetch_known, tell, time_of
from agenteval_collector.cli.review import review
from agenteval_collector.cli.settings import ConfigFile
from agenteval_collector.cli.show_judging import show_drifts
from agenteval_collector.cli.terminal import clean, console, content, fail, table
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.runtime.times import rfc3339
from otel_agenteval.loops.setting_values import seconds

ASK_EVERY = 0.5
"""Seconds between two questions how far it is; the collector waits for its end with each, too."""
DELETE_PATH = "/api/v1/delete"
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
    by: Annotated[str, typer.Option(metavar="PERSON", help="Who says so. A person has one label for a score.")] = "",
    draw: Annotated[
        str,
        typer.Option(
            "--next", metavar="NAME", help="Instead of a trace or session: those drawn at random, one by one."
        ),
    ] = "",
    agent: Annotated[str, typer.Option(help="With --next: only of this agent.")] = "",
    version: Annotated[str, typer.Option(help="With --next: only of this service.version.")] = "",
    url: Url = DEFAULT_URL,
    api_key: Key = None,
) -> None:
    """Say what a score of a trace, or (--session) of a whole session, should have been: of one that you name, or
    (--next) of some drawn at random, whose labels correct the pass rates of `agenteval quality`."""

    def say(trace_id: str | None, session_id: str, name: str, said: float, *, drawn: bool) -> None:
        subject = {"session_id": session_id} if trace_id is None else {"trace_id": trace_id}
        label = {**subject, "name": name, "value": said, "author": by, "note": note, "drawn": drawn}
        tell(url, "/api/v1/labels", label, api_key)

    given = [each for each in arguments or () if each]
    if draw:
        if given or session_id:
            fail("give --next NAME alone, without a trace or session")
        only = {"agent": agent, "version": version}
        review(draw, only, ask=lambda path: fetch_known(url, path, api_key), say=partial(say, drawn=True))
        return
    if len(given) != (2 if session_id else 3):
        fail("give TRACE, NAME and VALUE; or --session ID, NAME and VALUE; or --next NAME")
    *trace, name, text = given
    said = _value(text)
    say(trace[0] if trace else None, session_id, name, said, drawn=False)
    typer.echo(clean(f"{name} of {trace[0] if trace else session_id} is {said:.2f}{f', says {by}' if by else ''}."))


def judge(
    trace_ids: Annotated[list[str] | None, typer.Argument(metavar="TRACE...", help="Trace ids.")] = None,
    session_ids: Annotated[
        list[str] | None,
        typer.Option("--session", metavar="ID", help="Whether a session reached its goal; may be given several times."),
    ] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="All whose outcomes failed, or had no budget, instead of single traces.")
    ] = False,
    since: Annotated[str, typer.Option(metavar="TIME", help="How far back --failed goes, such as 30m or 2d.")] = "1h",
    check: Annotated[
        bool, typer.Option("--check", help="Ask again about changed traces, in this process: is the judge biased?")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=500, help="With --check: at most so many traces.")] = 30,
    seed: Annotated[int, typer.Option(help="With --check: another one draws other traces.")] = 0,
    yes: Annotated[bool, typer.Option("--yes", help="With --check: do not ask before it costs something.")] = False,
    file: ConfigFile = None,
    data_dir: Annotated[Path | None, typer.Option(help="With --check: the collector's folder.")] = None,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Have the judge score what it has not: what failed, had no budget, or was sampled out (named ones only).

    Without traces or sessions, show whether the judge says something else than before of the same ones. With --check,
    find out whether it looks at what must not matter.
    """
    named = bool(trace_ids or session_ids)
    if named + failed + check > 1:
        fail("give the ids of traces or sessions, --failed, or --check")
    if check:
        # Here, so that the other commands are quick.
        from agenteval_collector.cli.check_judge import check_judge  # noqa: PLC0415

        check_judge(file, data_dir, limit=limit, seed=seed, confirmed=yes, as_json=as_json)
        return
    if not named and not failed:
        answer(lambda page: show_drifts(page["items"]), "/api/v1/judge", url, api_key, as_json)
        return
    if as_json:
        fail("--json is for the judge's drift and for --check: give no traces")
    back = rfc3339(_before(since)) if failed else None
    asked = {"trace_ids": trace_ids or [], "session_ids": session_ids or [], "failed_since": back}
    waiting: JudgingDocument = tell(url, "/api/v1/judge", asked, api_key)
    if failed or (trace_ids and session_ids):
        _say_what_waits(waiting, "trace or session", "traces and sessions")
    else:
        _say_what_waits(waiting, *(("session", "sessions") if session_ids else ("trace", "traces")))


def _say_what_waits(waiting: JudgingDocument, one: str, several: str) -> None:
    if not (count := waiting["traces"]):
        there_is = "there is no room (judge.backlog)" if waiting["more"] else "the judge has left out nothing there"
        typer.echo(f"No {one} waits for the judge by that: {there_is}.")
        return
    typer.echo(f"{count} {f'{one} waits' if count == 1 else f'{several} wait'} for the judge.")
    if waiting["more"]:
        typer.echo("There are more: call it again when these are judged.")


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


def _before(text: str) -> int:
    """Return the time so long ago (ns)."""
    try:
        ago = seconds(text)
    except ValueError:
        fail(f"--since is {clean(text)!r}, not a time such as 30m, 1h or 2d")
    return max(1, SystemClock().now() - round(ago * 1e9))


def delete(
    session_id: Annotated[str | None, typer.Option("--session", metavar="ID", help="This session.")] = None,
    user_id: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="All sessions in which a trace names this user.")
    ] = None,
    before: Annotated[
        str | None, typer.Option(metavar="TIME", help="All traces scored before 2026-01-31T00:00:00Z, or 90d ago.")
    ] = None,
    by: Annotated[str | None, typer.Option(metavar="PERSON", help="Who wants it; stands in the receipt.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether that is meant.")] = False,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Delete for good, from the store, the log and memory, and print a receipt.

    What was said, found, scored, labelled and asked. Backups, and what has left for other systems, are not reached.
    """
    given = {name: value for name, value in (("session", session_id), ("user", user_id), ("before", before)) if value}
    if len(given) != 1:
        fail("give one of --session, --user and --before")
    [(name, value)] = given.items()
    _confirm(f"{name} {value}", confirmed=yes)
    asked = {"session_id": session_id, "user_id": user_id, "before": time_of(before), "author": by}
    document: DeletionDocument = tell(url, DELETE_PATH, {key: each for key, each in asked.items() if each}, api_key)
    document = _done(document, url, api_key)
    if as_json:
        typer.echo(json.dumps(document))
        return
    out = console()
    done = f"{document['deletion_id']}, done {document['done_at']}"
    if not any(document["removed"].values()):
        out.print(content(f"Nothing of {name} {value} was found: {done}"))
        return
    out.print(content(f"Deleted {name} {value}: {done}"))
    listed = table("removed", "count")
    for what, count in document["removed"].items():
        listed.add_row(what, str(count))
    out.print(listed)


def _done(document: DeletionDocument, url: str, api_key: str | None) -> DeletionDocument:
    """Return the receipt once it is complete; says on stderr for how long it takes."""
    began = time.monotonic()
    with console(stderr=True).status("") as shown:
        while document["done_at"] is None:
            shown.update(
                f"The collector deletes, for {time.monotonic() - began:.0f} s now ({document['deletion_id']}). It goes "
                "on if you stop here; where it takes long, its log says what holds it up."
            )
            time.sleep(ASK_EVERY)
            document = tell(url, DELETE_PATH, {"deletion_id": document["deletion_id"]}, api_key)
    return document


def _confirm(what: str, *, confirmed: bool) -> None:
    if confirmed:
        return
    if not sys.stdin.isatty():
        fail("nobody is there to agree: give --yes")
    if not typer.confirm(f"Delete {clean(what)}? Nothing brings it back.", err=True):
        fail("nothing was deleted")
