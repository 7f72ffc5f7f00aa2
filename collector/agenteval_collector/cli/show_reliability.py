"""Print reliability over runs as tables on a terminal."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from agenteval_collector.cli.terminal import console, content, table
from agenteval_collector.serve.api.figure_documents import (
    ComparedFigureDocument,
    ComparisonDocument,
    ReliabilityDocument,
)
from agenteval_collector.serve.web import reliability_text
from agenteval_collector.serve.web.formats import agent_words, number, percent


def show_reliability(items: Sequence[ReliabilityDocument]) -> None:
    """Print the figures of each version of an agent, one version after the other."""
    out = console()
    if not items:
        out.print("No runs yet. Name them in the agent: `with otel_agenteval.run(task_id=..., run_id=...) as run:`,")
        out.print("and say what came of each: `run.report(success=...)`.")
        return
    for index, item in enumerate(items):
        if index:
            out.print()
        out.print(_heading(item))
        for remark in reliability_text.remarks(item):
            out.print(content(remark, "dim"))
        out.print(_figures(item))
        for note in reliability_text.notes(item["reasons"], item["parts"]):
            out.print(content(note, "dim"))
        if any(item["worst_tasks"].values()):
            out.print()
            out.print(_worst_tasks(item))
        if item["safety"]["examples"]:
            out.print()
            out.print(_violations(item))


def show_comparison(comparison: ComparisonDocument) -> None:
    """Print two versions of an agent side by side, figure by figure."""
    out = console()
    agent = agent_words(comparison["agent"] or "unnamed agent", comparison["service"])
    before, after = comparison["before"], comparison["after"]
    out.print(content(f"{agent}: {before} and {after}", "bold"))
    runs = comparison["runs"]
    out.print(
        content(f"{comparison['tasks']} tasks in common, {runs['before']} and {runs['after']} runs of them", "dim")
    )
    text, tone = reliability_text.comparison_result(comparison)
    out.print(
        content(text, {"good": _style(better=True), "bad": _style(better=False), "plain": "bold"}.get(tone, "yellow"))
    )
    columns = (content(before).plain, content(after).plain, "change", "95 %", "p")
    rows = table("figure", *map(Text, columns), right=columns, whole=("figure",))
    compared = comparison["figures"]
    figures = reliability_text.shown_figures(comparison)
    for name in figures:
        figure = compared[name]
        rows.add_row(
            reliability_text.figure_words(name),
            _number(figure["before"]),
            _number(figure["after"]),
            "–" if figure["difference"] is None else f"{figure['difference']:+.2f}",
            _interval(figure["interval"]),
            _p_value(figure),
        )
    out.print(rows)
    reasons = {name: reason for name in figures if (reason := compared[name]["reason"])}
    for note in reliability_text.notes(reasons, {}):
        out.print(content(note, "dim"))
    out.print(
        Text("p: how often two equally good versions would differ as much by chance; they differ below 0.05.", "dim")
    )
    out.print(Text("The first figure decides. The p of the others is corrected for how many there are.", "dim"))
    if comparison["tasks"] < reliability_text.DECIDABLE_TASKS:
        out.print(
            Text(
                f"Fewer than {reliability_text.DECIDABLE_TASKS} tasks in common cannot tell any two versions apart.",
                "yellow",
            )
        )


def show_agents(items: Sequence[ReliabilityDocument]) -> None:
    """Print which agents and versions have runs, for somebody who asked for another one."""
    if not items:
        show_reliability(items)
        return
    out = console()
    out.print("No runs of this agent and version. There are runs of:")
    for item in items:
        out.print(content(f"  {reliability_text.whose(item)}"))


def _heading(item: ReliabilityDocument) -> Text:
    heading = content(reliability_text.whose(item), "bold")
    heading.append(f"  {item['runs']} runs of {item['tasks']} tasks", "not bold dim")
    if item["estimated"]["outcomes"]:
        share = percent(item["estimated"]["outcomes"] / item["runs"])
        heading.append(f", {share} of the outcomes estimated", "not bold yellow")
    return heading


def _figures(item: ReliabilityDocument) -> Table:
    numbers = ("value", "95 %", "tasks", "rests on")
    rows = table("figure", "", *numbers, right=numbers, whole=("figure", ""))
    rows.columns[1].style = "dim"
    for k, chance in list(item["pass_hat_k"].items())[: reliability_text.SHOWN_K]:
        name = f"pass^{k}"
        rows.add_row(reliability_text.figure_words(name), name, number(chance), _interval(item["intervals"][name]),
                      str(item["tasks_used"][name]), "")  # fmt: skip
    for name in reliability_text.LABELS:
        value = item["metrics"][name]
        rows.add_row(
            reliability_text.figure_words(name),
            name,
            Text("undefined", "dim") if value is None else Text(number(value), "bold" if name == "R" else ""),
            _interval(item["intervals"][name]),
            str(item["tasks_used"][name]) if value is not None else "",
            percent(item["coverage"][name]) if value is not None else "",
        )
    return rows


def _worst_tasks(item: ReliabilityDocument) -> Table:
    worst = table("lowered most", "by these tasks", whole=("lowered most",))
    for name, tasks in item["worst_tasks"].items():
        if tasks:
            shares = ", ".join(f'"{task["task_id"]}" {number(task["value"])} ({task["runs"]} runs)' for task in tasks)
            worst.add_row(reliability_text.figure_words(name).strip(), content(shares))
    return worst


def _violations(item: ReliabilityDocument) -> Table:
    broken = table("broke a constraint", "run", "what shows it")
    for run in item["safety"]["examples"]:
        for violation in run["violations"]:
            broken.add_row(
                content(f"{violation['constraint']}, {violation['severity']}"),
                content(f'"{run["run_id"]}" of task "{run["task_id"]}"'),
                content(violation["evidence"], lines=True),
            )
    return broken


def _number(value: float | None) -> Text:
    return Text("–", "dim") if value is None else Text(number(value))


def _interval(interval: Sequence[float] | None) -> str:
    return "–" if interval is None else f"{interval[0]:.2f} to {interval[1]:.2f}"


def _p_value(figure: ComparedFigureDocument) -> Text:
    if figure["p_value"] is None:
        return Text("–", "dim")
    style = _style(better=(figure["difference"] or 0.0) > 0) if figure["decided"] else ""
    return Text(f"{figure['p_value']:.3f}", style)


def _style(*, better: bool) -> str:
    return "green" if better else "red"
