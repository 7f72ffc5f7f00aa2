"""`agenteval judge --check`: ask the judge again about changed traces, and print what that changed."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from agenteval_collector.cli.settings import effective
from agenteval_collector.cli.terminal import clean, console, content, fail, failing_on, table
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.model.bias import BiasReport, Change, ChangeEffect, Cost
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.runtime.errors import CollectorError
from agenteval_collector.web.formats import money, number, oneline, p_value
from agenteval_collector.wiring.bias_check import BiasCheck

_MEANINGS = {
    Change.REPEAT: "nothing changed",
    Change.PADDED: "longer answer",
    Change.SWAPPED: "other order",
    Change.RENAMED: "other names",
    Change.SECOND_MODEL: "other judge",
}
_TAKEN = ("traces", "requests", "tokens in", "tokens out", "cost")


def check_judge(
    file: Path | None, data_dir: Path | None, *, limit: int, seed: int, confirmed: bool, as_json: bool
) -> None:
    """Carry out `agenteval judge --check`. End with exit code 1 if the judge could not be asked everything."""
    settings = effective(file, {} if data_dir is None else {"data_dir": str(data_dir)})
    with (
        failing_on(ConfigError, CollectorError, OSError),
        BiasCheck(settings, SystemClock(), limit=limit, seed=seed) as check,
    ):
        if not check.traces:
            fail(
                "no trace can be asked about again: none was judged, or their spans are not kept any more "
                "(log.retention), or the questions have changed since then"
            )
        _confirm(check.costs(), check.traces, settings.judge.model, confirmed=confirmed)
        report = check.report(_ask(check))
    if as_json:
        typer.echo(json.dumps(asdict(report)))
    else:
        _show_report(console(), report)
    if report.stopped is not None:
        fail(clean(f"not all was asked: {report.stopped}"))


def _confirm(costs: Sequence[Cost], traces: int, model: str, *, confirmed: bool) -> None:
    """Print the expected costs, and end the command unless somebody agrees to them."""
    # On stderr, because stdout may be the JSON of `--json`.
    _show_costs(console(stderr=True), costs, traces, model)
    if confirmed:
        return
    if not sys.stdin.isatty():
        fail("nobody is there to agree to what this costs: give --yes (and --limit for fewer traces)")
    if not typer.confirm("Ask the judge?", err=True):
        fail("nothing was asked")


def _ask(check: BiasCheck) -> str | None:
    """Ask the judge about each change. Return the reason where it could not be asked everything, else None."""
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
    # The check only tells how many traces are left, so the most that were left stand for the total.
    most = 0

    def show(left: int) -> None:
        nonlocal most
        most = max(most, left)
        progress.update(task, total=most, completed=most - left)

    return check.ask(change, show)


def _show_costs(out: Console, costs: Sequence[Cost], traces: int, model: str) -> None:
    """Print about how many requests and tokens each change takes, and what they cost."""
    out.print(content(f"{traces} traces, each of another session, are put to {model} again. That takes about:"))
    listed = table("change", "", *_TAKEN, right=_TAKEN)
    for each in costs:
        listed.add_row(each.change, content(_MEANINGS[each.change], "dim"), *_taken(each))
    out.print(listed)
    requests = sum(each.requests for each in costs)
    # A sum without one of the models would be too low: then the cost is unknown.
    prices = [each.usd for each in costs if each.usd is not None]
    sum_of = money(sum(prices)) if len(prices) == len(costs) else "unknown (a model has no price in judge.prices)"
    out.print(f"Together {requests} requests; cost: {sum_of}. It counts against judge.budget.")


def _show_report(out: Console, report: BiasReport) -> None:
    """Print the effect of each change, then the verdicts that flipped."""
    columns = ("verdicts", "to fail", "to pass", "sessions", "p", "score")
    effects = table("change", *columns, "", right=columns, whole=("change", "sessions"))
    for each in report.effects:
        effects.add_row(each.cost.change, *_figures(each), _verdict(each))
    out.print(effects)
    out.print(
        content(
            "sessions: those with a flipped verdict; p: compared with those that flip by `repeat`, without a change.",
            "dim",
        )
    )
    spent = table("spent on", *_TAKEN, right=_TAKEN)
    for each in report.effects:
        spent.add_row(each.cost.change, *_taken(each.cost))
    out.print()
    out.print(spent)
    _show_flips(out, report)


def _show_flips(out: Console, report: BiasReport) -> None:
    if not report.flips:
        return
    flips = table("flipped by", "trace", "evaluator", "before", "after", "reason now", right=("before", "after"))
    for each in report.flips:
        scores = number(each.before), number(each.after)
        flips.add_row(each.change, content(each.trace_id), content(each.name), *scores, content(oneline(each.reason)))
    out.print()
    out.print(flips)


def _figures(effect: ChangeEffect) -> tuple[str, ...]:
    rate = "–"
    if effect.rate is not None and effect.interval is not None:
        low, high = effect.interval
        rate = f"{effect.flipped} of {effect.sessions} [{number(low)}, {number(high)}]"
    return (
        str(effect.verdicts),
        str(effect.to_fail),
        str(effect.to_pass),
        rate,
        p_value(effect.p_value),
        "–" if effect.mean_change is None else f"{effect.mean_change:+.3f}",
    )


def _verdict(effect: ChangeEffect) -> Text:
    if effect.is_beyond_noise:
        return Text("beyond noise", "bold red")
    if effect.cost.traces == 0:
        return Text("nothing to change", "dim")
    return Text(f"{effect.unanswered} unanswered", "dim") if effect.unanswered else Text("")


def _taken(each: Cost) -> tuple[str, ...]:
    numbers = each.traces, each.requests, each.input_tokens, each.output_tokens
    return (*map(str, numbers), "unknown" if each.usd is None else money(each.usd))
