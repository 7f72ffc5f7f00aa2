"""The command `agenteval delete`."""

import json
import sys
import time
from typing import Annotated

import typer

from agenteval_collector.cli.client import AsJson, Key, Url, tell, time_of
from agenteval_collector.cli.terminal import clean, console, content, fail, table
from agenteval_collector.serve.api.answers import DeletionDocument
from otel_agenteval.reader import DEFAULT_URL

DELETE_PATH = "/api/v1/delete"


def delete(
    session_id: Annotated[str | None, typer.Option("--session", metavar="ID", help="This session.")] = None,
    user_id: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="All sessions in which a trace names this user.")
    ] = None,
    before: Annotated[
        str | None, typer.Option(metavar="TIME", help="All traces scored before 2026-01-31T00:00:00Z, or 90d ago.")
    ] = None,
    by: Annotated[str | None, typer.Option(metavar="PERSON", help="Who wants it; stands in the receipt.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Delete a session, a user's sessions, or old traces for good, and print a receipt.

    Deletes what was said, found, scored and labelled, and what the judge was asked. Does not reach backups, nor what
    was sent to other systems.
    Exits with 1 if nothing of the session or the user was found.
    """
    chosen = {name: value for name, value in (("session", session_id), ("user", user_id), ("before", before)) if value}
    if len(chosen) != 1:
        fail("give one of --session, --user and --before")
    [(name, value)] = chosen.items()
    request = {"session_id": session_id, "user_id": user_id, "before": time_of("--before", before), "author": by}
    _confirm(f"{name} {value}", confirmed=yes)
    document: DeletionDocument = tell(
        url, DELETE_PATH, {key: value for key, value in request.items() if value}, api_key
    )
    document = _done(document, url, api_key)
    if as_json:
        typer.echo(json.dumps(document))
    else:
        _show_receipt(name, value, document)
    # As in other commands, an unknown id is an error. That nothing is so old is not.
    if before is None and not any(document["removed"].values()):
        raise typer.Exit(1)


def _show_receipt(name: str, value: str, document: DeletionDocument) -> None:
    out = console()
    line = f"{document['deletion_id']}, done {document['done_at']}"
    if not any(document["removed"].values()):
        of = "from" if name == "before" else "of"
        out.print(content(f"Nothing {of} {name} {value} was found (receipt {line})."))
        return
    out.print(content(f"Deleted {name} {value}: {line}"))
    listed = table("removed", "count")
    for what, count in document["removed"].items():
        listed.add_row(what, str(count))
    out.print(listed)


def _done(document: DeletionDocument, url: str, api_key: str | None) -> DeletionDocument:
    """Wait until the deletion is done and return its receipt. Meanwhile, say on stderr how long it takes."""
    began = time.monotonic()
    with console(stderr=True).status("") as status:
        while document["done_at"] is None:
            status.update(
                f"The collector deletes, for {time.monotonic() - began:.0f} s now ({document['deletion_id']}). It goes "
                "on if you stop here; where it takes long, its log says what holds it up."
            )
            # No pause: the collector answers when the deletion is done, or after a few seconds.
            document = tell(url, DELETE_PATH, {"deletion_id": document["deletion_id"]}, api_key)
    return document


def _confirm(what: str, *, confirmed: bool) -> None:
    if confirmed:
        return
    if not sys.stdin.isatty():
        fail("nobody is there to agree: give --yes")
    if not typer.confirm(f"Delete {clean(what)}? Nothing brings it back.", err=True):
        fail("nothing was deleted")
