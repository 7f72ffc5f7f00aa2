"""The command `export`: write what the collector keeps to a file, a line for each thing."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import typer
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from agenteval_collector.cli.client import Key, Url, time_of
from agenteval_collector.cli.parquet import write_parquet
from agenteval_collector.cli.terminal import clean, console, fail, failing_on
from agenteval_collector.serve.api.trace_documents import LabelItem, OutcomeDocument, SessionItem, TraceDocument
from otel_agenteval.reader import DEFAULT_URL, ApiError, Reader, Rows


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
    PARQUET = "parquet"
    """A row for each document. What is no plain value is JSON in a text."""
    OTLP = "otlp"
    """Spans and log records as they were recorded: a request of OTLP/JSON on each line."""


class ExportedOutcome(OutcomeDocument):
    """An outcome with what is needed to know its trace (`reader.ABOUT`)."""

    trace_id: str
    session_id: str
    agent: str | None
    service: str | None
    started_at: str | None


DOCUMENTS: Final[Mapping[Exported, type]] = {
    Exported.TRACES: TraceDocument,
    Exported.SESSIONS: SessionItem,
    Exported.LABELS: LabelItem,
    Exported.OUTCOMES: ExportedOutcome,
}


def export(
    what: Annotated[Exported, typer.Argument(metavar="WHAT", help="traces, sessions, labels or outcomes.")],
    file: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The file; standard output without it.")
    ] = None,
    form: Annotated[
        Format,
        typer.Option("--format", help="jsonl, parquet: the API's documents; otlp: spans as recorded, for traces."),
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

    if form is Format.PARQUET and file is None:
        fail("--format parquet takes a file: name it with --output")
    lines = _lines(Reader(url, api_key), what, form, {**of_both, **of_traces})
    counted = _ShownRows(lines, limit, str(what))
    with failing_on(ApiError), counted.shown():
        if form is Format.PARQUET and file is not None:
            write_parquet(iter(counted), DOCUMENTS[what], file)
        else:
            with ExitStack() as stack:
                target = sys.stdout if file is None else stack.enter_context(_opened(file))
                for line in counted:
                    target.write(json.dumps(line) + "\n")
    if file is not None:
        rows = "rows" if form is Format.PARQUET else "lines"
        console(stderr=True).print(clean(f"{counted.count} {rows} written to {file}"))


def _lines(reader: Reader, what: Exported, form: Format, wanted: dict[str, str | None]) -> Rows:
    """Return the documents that are written."""
    match what:
        case Exported.TRACES if form is Format.OTLP:
            return reader.recordings(**wanted)
        case Exported.TRACES:
            return reader.traces(**wanted)
        case Exported.OUTCOMES:
            return reader.outcomes(**wanted)
    of_sessions = {name: value for name, value in wanted.items() if name not in ("problem", "label")}
    return reader.labels(**of_sessions) if what is Exported.LABELS else reader.sessions(**of_sessions)


def _opened(file: Path) -> TextIO:
    try:
        return file.open("w", encoding="utf-8")
    except OSError as error:
        fail(clean(f"{file} cannot be written: {error.strerror}"))


class _ShownRows:
    """Yields at most `limit` of the rows, counts them, and shows the count on a terminal."""

    def __init__(self, rows: Rows, limit: int | None, what: str) -> None:
        self.count = 0
        self._rows = islice(rows, limit)
        out = console(stderr=True)
        columns = TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn()
        self._progress = Progress(*columns, console=out, disable=not out.is_terminal, transient=True)
        self._task = self._progress.add_task(what, total=limit)

    def shown(self) -> Progress:
        """Show the count within this context."""
        return self._progress

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in self._rows:
            self.count += 1
            self._progress.advance(self._task)
            yield row
