"""The command `export`: write what the collector keeps to a file, a line for each thing."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, TextIO, TypeAlias

import typer
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from agenteval_collector.cli.client import DEFAULT_URL, Key, Url, fetch, time_of
from agenteval_collector.cli.terminal import clean, console, fail
from agenteval_collector.serve.web.formats import query

_PAGE: Final = 50
Fetch: TypeAlias = Callable[[str], Any]


class Exported(StrEnum):
    """The kinds of things that can be exported."""

    TRACES = "traces"
    SESSIONS = "sessions"
    LABELS = "labels"
    OUTCOMES = "outcomes"


class Format(StrEnum):
    """The forms in which a file can be written."""

    JSONL = "jsonl"
    """A document of the API on each line."""
    OTLP = "otlp"
    """Spans and log records as they were recorded: a request of OTLP/JSON on each line."""


def export(
    what: Annotated[Exported, typer.Argument(metavar="WHAT", help="traces, sessions, labels or outcomes.")],
    file: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The file; standard output without it.")
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", help="jsonl: the API's documents; otlp: spans as recorded, for traces.")
    ] = Format.JSONL,
    agent: Annotated[str | None, typer.Option(help="Only of this agent.")] = None,
    service: Annotated[str | None, typer.Option(help="Only of this service.")] = None,
    version: Annotated[str | None, typer.Option(help="Only of this service.version.")] = None,
    user: Annotated[str | None, typer.Option(help="Only of this user.")] = None,
    environment: Annotated[str | None, typer.Option(help="Only of this deployment.environment.")] = None,
    finding: Annotated[str | None, typer.Option(help="Only with this kind of finding: tool_failed, ...")] = None,
    severity: Annotated[str | None, typer.Option(help="Only with a finding of this severity.")] = None,
    text: Annotated[str | None, typer.Option(help="Only where this was said.")] = None,
    problem: Annotated[str | None, typer.Option(metavar="ID", help="Only traces that show this problem.")] = None,
    label: Annotated[str | None, typer.Option(help="Only traces with a label that says pass, or fail.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only since 30m or 2d ago, or 2026-03-02T09:00:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only before this time, in the same form.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many, the newest.")] = None,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
) -> None:
    """Write traces, sessions, labels or outcomes to a file, the newest first.

    `agenteval replay` takes what `--format otlp` writes.
    """
    if form is Format.OTLP and what is not Exported.TRACES:
        fail(f"--format otlp is for traces; {what.value} are written as jsonl")
    of_both = {
        **{"agent": agent, "service": service, "version": version, "user": user, "environment": environment},
        **{"finding": finding, "severity": severity, "text": text},
        **{"since": time_of("--since", since), "until": time_of("--until", until)},
    }
    of_traces = {"problem": problem, "label": label}
    useless = of_both | of_traces if what is Exported.LABELS else of_traces if what is Exported.SESSIONS else {}
    if unused := [name for name, value in useless.items() if value is not None]:
        fail(f"--{unused[0]} does not choose {what.value}")

    def ask(path: str) -> Any:
        return fetch(url, path, api_key)

    lines = _lines(ask, what, form, {**of_both, **of_traces})
    with ExitStack() as stack:
        target = sys.stdout if file is None else stack.enter_context(_opened(file))
        count = _write(lines, target, limit, str(what))
    if file is not None:
        console(stderr=True).print(clean(f"{count} lines written to {file}"))


def _lines(ask: Fetch, what: Exported, form: Format, wanted: dict[str, str | None]) -> Iterator[Any]:
    """Yield the documents that are written, one a line."""
    match what:
        case Exported.TRACES if form is Format.OTLP:
            for trace in _items(ask, "/api/v1/traces", wanted):
                yield from ask(f"/api/v1/traces/{trace['trace_id']}/otlp")["items"]
        case Exported.OUTCOMES:
            for trace in _items(ask, "/api/v1/traces", wanted):
                about = {name: trace[name] for name in ("trace_id", "session_id", "agent", "service", "started_at")}
                yield from ({**about, **outcome} for outcome in trace["outcomes"])
        case Exported.LABELS | Exported.SESSIONS:
            of_sessions = {name: value for name, value in wanted.items() if name not in ("problem", "label")}
            yield from _items(ask, f"/api/v1/{what}", of_sessions)
        case Exported.TRACES:
            yield from _items(ask, "/api/v1/traces", wanted)


def _items(ask: Fetch, path: str, wanted: dict[str, str | None]) -> Iterator[Any]:
    """Yield the items of a listing, page by page."""
    cursor = None
    while True:
        page = ask(path + query({**wanted, "limit": _PAGE, "cursor": cursor}))
        yield from page["items"]
        if (cursor := page["next_cursor"]) is None:
            return


def _opened(file: Path) -> TextIO:
    try:
        return file.open("w", encoding="utf-8")
    except OSError as error:
        fail(clean(f"{file} cannot be written: {error.strerror}"))


def _write(lines: Iterator[Any], target: TextIO, limit: int | None, what: str) -> int:
    out = console(stderr=True)
    columns = TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn()
    count = 0
    with Progress(*columns, console=out, disable=not out.is_terminal, transient=True) as progress:
        task = progress.add_task(what, total=limit)
        for line in lines:
            if count == limit:
                break
            target.write(json.dumps(line) + "\n")
            count += 1
            progress.advance(task)
    return count
