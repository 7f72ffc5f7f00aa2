"""`agenteval judge --check`: ask the judge again about changed traces, and print what that changed."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress

from agenteval_collector.cli.settings import effective
from agenteval_collector.cli.show_bias import show_bias, show_costs
from agenteval_collector.cli.terminal import clean, console, fail
from agenteval_collector.config import ConfigError
from agenteval_collector.model.bias import Change, Cost
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.runtime.errors import CollectorError
from agenteval_collector.wiring.bias_check import BiasCheck


def check_judge(
    file: Path | None, data_dir: Path | None, *, limit: int, seed: int, confirmed: bool, as_json: bool
) -> None:
    """Carry out the command; exits with 1 where not all could be asked."""
    settings = effective(file, {} if data_dir is None else {"data_dir": str(data_dir)})
    try:
        with BiasCheck(settings, SystemClock(), limit=limit, seed=seed) as check:
            if not check.traces:
                fail(
                    "no trace can be asked about again: none was judged, or their spans are not kept any more "
                    "(log.retention), or they were judged by other questions than those of now"
                )
            _confirm(check.costs(), check.traces, settings.judge.model, confirmed=confirmed)
            stopped = _ask(check)
            report = check.report(stopped)
    except (ConfigError, CollectorError, OSError) as error:
        fail(clean(str(error)))
    if as_json:
        typer.echo(json.dumps(asdict(report)))
    else:
        show_bias(console(), report)
    if report.stopped is not None:
        fail(clean(f"not all was asked: {report.stopped}"))


def _confirm(costs: Sequence[Cost], traces: int, model: str, *, confirmed: bool) -> None:
    """Say what it takes, and end the command unless somebody agrees."""
    show_costs(console(stderr=True), costs, traces, model)
    if confirmed:
        return
    if not sys.stdin.isatty():
        fail("nobody is there to agree to what this costs: give --yes (and --limit for fewer traces)")
    if not typer.confirm("Ask the judge?", err=True):
        fail("nothing was asked")


def _ask(check: BiasCheck) -> str | None:
    """Ask all there is to ask; the reason where that was not possible."""
    with Progress(console=Console(stderr=True), transient=True) as progress:
        try:
            for change in check.changes:
                if stopped := _ask_one(check, change, progress):
                    return stopped
        except KeyboardInterrupt:
            return "it was interrupted"
    return None


def _ask_one(check: BiasCheck, change: Change, progress: Progress) -> str | None:
    task = progress.add_task(change.replace("_", " "), total=None)
    most = 0

    def show(left: int) -> None:
        nonlocal most
        most = max(most, left)
        progress.update(task, total=most, completed=most - left)

    return check.ask(change, show)
