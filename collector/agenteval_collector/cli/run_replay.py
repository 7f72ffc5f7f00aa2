"""Evaluate recordings and print the results, or send the recordings to a collector."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from agenteval_collector.cli.dataset import Dataset, check_kind, read_dataset
from agenteval_collector.cli.gate import CameBack, Shortfall, came_back, read_least, refuse_unknown, shortfalls
from agenteval_collector.cli.offline_replay import replay as evaluate
from agenteval_collector.cli.recordings import Recorded, read_recording
from agenteval_collector.cli.settings import effective
from agenteval_collector.cli.show_reliability import show_reliability
from agenteval_collector.cli.tables import session_table, trace_table
from agenteval_collector.cli.terminal import clean, console, content, fail, failing_on, table
from agenteval_collector.config.settings import Settings
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.ingest.grpc import SERVICES
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.serve.api.figure_documents import ReplayDocument
from otel_agenteval.config import Destination, Options, resolve
from otel_agenteval.sending.transport import advice_on, open_channel

SEND_TIMEOUT = 30.0
"""Seconds that a collector has to answer one request of a recording."""


def run(
    files: Sequence[Path],
    settings: Path | None,
    *,
    endpoint: str | None,
    dataset: Path | None,
    fail_under: Sequence[str],
    forbid: Sequence[str],
    as_json: bool,
) -> None:
    """Carry out `agenteval replay`."""
    with failing_on(InvalidRequest, ConfigError):
        # Read before the recordings, so that a wrong argument is told at once.
        wanted = [read_least(text) for text in fail_under]
        for kind in forbid:
            with failing_on(ValueError):
                check_kind(kind)
        truth = read_dataset(dataset) if dataset is not None else None
        if endpoint is not None:
            if wanted or forbid or truth is not None:
                fail("--dataset, --fail-under and --forbid evaluate in this process: leave out --endpoint")
            _send(files, endpoint)
            return
        document = _evaluate(files, effective(settings), truth)
        refuse_unknown(document, wanted)
    _show(document, as_json=as_json)
    if missing := document["reports_without_traces"]:
        first = f"run {missing[0]['run_id']!r} of task {missing[0]['task_id']!r}"
        typer.echo(clean(f"{len(missing)} runs of the dataset have no trace in the recordings, as {first}"), err=True)
    short, back = shortfalls(document, wanted), came_back(document, forbid)
    out = Console(stderr=True, markup=False, highlight=False)
    if short:
        out.print(_shortfall_table(short))
    if back:
        out.print(_came_back_table(back))
    if short or back:
        raise typer.Exit(1)


def _evaluate(files: Sequence[Path], settings: Settings, dataset: Dataset | None) -> ReplayDocument:
    with Progress(console=Console(stderr=True), transient=True) as progress:
        reading = progress.add_task("reading", total=len(files))
        scoring = progress.add_task("scoring", total=None)

        def requests() -> Iterator[Recorded]:
            for path in files:
                yield from read_recording(path)
                progress.advance(reading)

        return evaluate(requests(), settings, lambda traces: progress.advance(scoring, traces), dataset)


def _show(document: ReplayDocument, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(document))
        return
    out = console()
    out.print(trace_table(document["traces"]))
    out.print()
    out.print(session_table(document["sessions"], now=SystemClock().now(), width=out.width))
    if document["reliability"]:
        out.print()
        show_reliability(document["reliability"])


def _shortfall_table(short: Sequence[Shortfall]) -> Table:
    """Return a table of the figures that fell short."""
    shortfall_table = table("fell short", "of", "wanted", "found")
    for score in short:
        value = f"undefined: {score.reason}" if score.found is None else f"{score.found:.4f}"
        shortfall_table.add_row(
            content(score.least.name), content(score.of), f"{score.least.value:g}", content(value, "red")
        )
    return shortfall_table


def _came_back_table(back: Sequence[CameBack]) -> Table:
    """Return a table of the failures that must not come back, but did."""
    rows = table("must not come back", "case", "found")
    for failure in back:
        if not failure.trace_ids:
            rows.add_row("", content(failure.of or ""), content("did not run: no trace names this task", "red"))
            continue
        more = f" and {len(failure.trace_ids) - 1} more" if len(failure.trace_ids) > 1 else ""
        found = f"in trace {failure.trace_ids[0]}{more}"
        rows.add_row(content(failure.kind), content(failure.of or "any trace"), content(found, "red"))
    return rows


def _send(files: Sequence[Path], endpoint: str) -> None:
    # An address without a scheme is plain text here; the client would take it for TLS.
    options = Options(endpoint=endpoint, insecure=None if "://" in endpoint else True)
    with failing_on(ValueError):
        destination = resolve(options, os.environ, ())
    with open_channel(destination) as channel, Progress(console=Console(stderr=True)) as progress:
        sending = progress.add_task("sending", total=len(files))
        for path in files:
            for recorded in read_recording(path):
                _export(channel, recorded, destination, endpoint)
            progress.advance(sending)


def _export(channel: grpc.Channel, recorded: Recorded, destination: Destination, endpoint: str) -> None:
    export = channel.unary_unary(f"/{SERVICES[recorded.signal]}/Export", bytes, bytes)
    try:
        export(recorded.body, timeout=SEND_TIMEOUT, metadata=destination.headers)
    except grpc.RpcError as error:
        details = error.details() or ""
        advice = f"; {hint}" if (hint := advice_on(details)) else ""
        fail(f"{endpoint} did not take the recording: {error.code().name}: {details}{advice}")
