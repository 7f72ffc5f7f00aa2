"""The command `agenteval judge`: let the judge score what has no score yet, or show whether its scores drift."""

from typing import Annotated

import typer

from agenteval_collector.cli.client import AsJson, Key, Url, answer, fetch, tell
from agenteval_collector.cli.show_judging import show_drifts
from agenteval_collector.cli.terminal import clean, fail
from agenteval_collector.model.judge_jobs import GOAL_SUCCESS
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.runtime.times import rfc3339
from agenteval_collector.serve.api.answers import JudgingDocument, Listing
from agenteval_collector.serve.api.figure_documents import QualityDocument
from otel_agenteval.loops.setting_values import seconds
from otel_agenteval.reader import DEFAULT_URL


def judge(
    trace_ids: Annotated[list[str] | None, typer.Argument(metavar="TRACE...", help="Trace ids.")] = None,
    session_ids: Annotated[
        list[str] | None,
        typer.Option("--session", metavar="ID", help="Judge whether this session reached its goal. Repeatable."),
    ] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="All that could not be judged, for an error or for want of budget.")
    ] = False,
    uncertain: Annotated[
        bool, typer.Option("--uncertain", help="What the sample left out, and of which a guess is least certain.")
    ] = False,
    since: Annotated[str, typer.Option(metavar="TIME", help="How far back --failed goes, such as 30m or 2d.")] = "1h",
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Let the judge score what it has left out, for an error, for want of budget, or (if you name it) by sampling.

    Without traces or sessions, show whether the judge now scores the same traces differently than before.
    """
    named = bool(trace_ids or session_ids)
    if named + failed + uncertain > 1:
        fail("give the ids of traces or sessions, or --failed, or --uncertain")
    if uncertain:
        trace_ids, session_ids = _uncertain(url, api_key)
        if not trace_ids and not session_ids:
            typer.echo("Nothing to ask: all is judged, or no guess is good enough (docs/quality.md).")
            return
    elif not named and not failed:
        answer(lambda page: show_drifts(page["items"]), "/api/v1/judge", url, api_key, as_json)
        return
    if as_json:
        fail("--json is for the judge's drift: give no traces")
    back = rfc3339(_before(since)) if failed else None
    request = {"trace_ids": trace_ids or [], "session_ids": session_ids or [], "failed_since": back}
    waiting: JudgingDocument = tell(url, "/api/v1/judge", request, api_key)
    if failed or uncertain or (trace_ids and session_ids):
        _say_what_waits(waiting, "trace or session", "traces and sessions")
    else:
        _say_what_waits(waiting, *(("session", "sessions") if session_ids else ("trace", "traces")))


def _uncertain(url: str, api_key: str | None) -> tuple[list[str], list[str]]:
    """Return the traces and the sessions that the rates with a second opinion name to be judged next."""
    rates: Listing[QualityDocument] = fetch(url, "/api/v1/quality?limit=500", api_key)
    wanted: dict[bool, dict[str, None]] = {True: {}, False: {}}
    for rate in rates["items"]:
        if rate["by_judge"] is not None:
            wanted[rate["name"] == GOAL_SUCCESS] |= dict.fromkeys(rate["by_judge"]["uncertain"])
    return list(wanted[False]), list(wanted[True])


def _say_what_waits(waiting: JudgingDocument, one: str, several: str) -> None:
    if not (count := waiting["traces"]):
        why = "its queue is full (judge.backlog)" if waiting["more"] else "it has left out none of these"
        typer.echo(f"No {one} waits for the judge: {why}.")
        return
    typer.echo(f"{count} {f'{one} waits' if count == 1 else f'{several} wait'} for the judge.")
    if waiting["more"]:
        typer.echo("There are more: call it again when these are judged.")


def _before(text: str) -> int:
    """Return the time this long ago, in nanoseconds since the Unix epoch. End the command if `text` is no length."""
    try:
        ago = seconds(text)
    except ValueError:
        fail(f"--since is {clean(text)!r}, not a time such as 30m, 1h or 2d")
    return max(1, SystemClock().now() - round(ago * 1e9))
