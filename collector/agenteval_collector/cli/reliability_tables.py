"""Reliability over runs as tables on a terminal."""

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from agenteval_collector.api.documents import ComparedFigure, ComparisonDocument, ReliabilityDocument
from agenteval_collector.cli.terminal import clean, console, content, table
from agenteval_collector.web.formats import number, percent

LABELS: Mapping[str, str] = {
    "R_con": "consistency",
    "C_out": "  of outcomes",
    "C_traj_d": "  of actions, by how often",
    "C_traj_s": "  of actions, by order",
    "C_res": "  of resources",
    "C_conf": "  of confidence (apart)",
    "R_pred": "predictability",
    "P_brier": "  Brier score",
    "P_cal": "  calibration",
    "P_auroc": "  discrimination",
    "P_rc": "  risk, coverage (apart)",
    "R_rob": "robustness",
    "R_fault": "  against failing tools",
    "R_struct": "  against other structure",
    "R_prompt": "  against other words",
    "R_saf": "safety (apart)",
    "S_comp": "  runs without a violation",
    "S_harm": "  mildness of violations",
    "R": "reliability",
}
"""The published figures as people call them, parts below their whole; those apart enter no whole."""

SHOWN_K = 8
"""pass^k is shown for k up to this."""

DECIDABLE_TASKS = 6
"""Fewer cannot tell any two versions apart: of five, 2 of the 32 ways to exchange them are as extreme as any."""


def show_reliability(items: Sequence[ReliabilityDocument], *, more: bool = False) -> None:
    """Print each agent's version by itself; `more`: there are older ones."""
    out = console()
    if not items:
        out.print("No runs yet. Name them in the agent: `with otel_agenteval.run(task_id=..., run_id=...) as run:`,")
        out.print("and say what came of each: `run.report(success=...)`.")
        return
    for place, item in enumerate(items):
        if place:
            out.print()
        out.print(_heading(item))
        for remark in _remarks(item):
            out.print(content(remark, "dim"))
        out.print(_figures(item))
        for note in _notes(item["reasons"], item["parts"]):
            out.print(content(note, "dim"))
        if any(item["worst_tasks"].values()):
            out.print()
            out.print(_worst_tasks(item))
        if item["safety"]["examples"]:
            out.print()
            out.print(_violations(item))
    if more:
        out.print()
        out.print(Text("There are older versions: raise --limit, or follow next_cursor in the API.", "dim"))


def show_comparison(comparison: ComparisonDocument) -> None:
    """Two versions, figure by figure."""
    out = console()
    agent = comparison["agent"] or "unnamed agent"
    before, after = comparison["before"], comparison["after"]
    out.print(content(f"{agent}: {before} and {after}", "bold"))
    runs = comparison["runs"]
    out.print(
        content(f"{comparison['tasks']} tasks in common, {runs['before']} and {runs['after']} runs of them", "dim")
    )
    out.print(_verdict(comparison))
    columns = (clean(before), clean(after), "change", "95 %", "p")
    rows = table("figure", *map(Text, columns), right=columns, whole=("figure",))
    figures = comparison["figures"]
    passes = [f"pass^{k}" for k in range(1, SHOWN_K + 1) if f"pass^{k}" in figures]
    shown = list(dict.fromkeys((comparison["primary"], *passes, *LABELS)))
    for name in shown:
        figure = figures[name]
        rows.add_row(
            _label(name),
            _number(figure["before"]),
            _number(figure["after"]),
            "–" if figure["difference"] is None else f"{figure['difference']:+.2f}",
            _interval(figure["interval"]),
            _p_value(figure),
        )
    out.print(rows)
    reasons = {name: reason for name in shown if (reason := figures[name]["reason"])}
    for note in _notes(reasons, {}):
        out.print(content(note, "dim"))
    out.print(
        Text("p: how often two equal versions would be as far apart. The first figure decides; the p of the", "dim")
    )
    out.print(Text("others is corrected for their number and never below that one. Below 0.05 they differ.", "dim"))
    if comparison["tasks"] < DECIDABLE_TASKS:
        out.print(Text(f"Fewer than {DECIDABLE_TASKS} tasks in common cannot tell any two versions apart.", "yellow"))


def show_agents(items: Sequence[ReliabilityDocument]) -> None:
    """Print which agents and versions there are, for somebody who asked for another one."""
    if not items:
        show_reliability(items)
        return
    out = console()
    out.print("No runs of this agent and version. There are runs of:")
    for item in items:
        out.print(content(f"  {_whose(item)}"))


def _heading(item: ReliabilityDocument) -> Text:
    heading = content(_whose(item), "bold")
    heading.append(f"  {item['runs']} runs of {item['tasks']} tasks", "not bold dim")
    if item["estimated"]["outcomes"]:
        share = percent(item["estimated"]["outcomes"] / item["runs"])
        heading.append(f", {share} of the outcomes estimated", "not bold yellow")
    return heading


def _whose(item: ReliabilityDocument) -> str:
    version = f" {item['version']}" if item["version"] else ""
    return f"{item['agent'] or 'unnamed agent'}{version}"


def _notes(reasons: Mapping[str, str], parts: Mapping[str, Sequence[str]]) -> list[str]:
    """Say why figures are undefined, those with the same reason together, and what the others are made of."""
    undefined: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        undefined.setdefault(reason, []).append(name)
    notes = [f"{', '.join(names)} undefined: {reason}." for reason, names in undefined.items()]
    made = [f"{name} of {', '.join(of)}" for name, of in parts.items() if name not in reasons and of]
    return [*notes, *([f"Made of: {'; '.join(made)}."] if made else [])]


def _remarks(item: ReliabilityDocument) -> list[str]:
    estimated, runs = item["estimated"], item["runs"]
    remarks = [f"The newest {item['window']} runs at most, variant {item['variant']}, pass^k {item['estimator']}."]
    if estimated["outcomes"]:
        remarks.append(f"{estimated['outcomes']} of {runs} outcomes are estimated from task_completion: report them.")
    if estimated["confidences"]:
        remarks.append(f"{estimated['confidences']} of {runs} confidences are an evaluator's, not the agent's own.")
    if item["safety"]["method"] == "exact":
        remarks.append("Safety is by exact detectors: personal data, destructive tools, rate of calls; nothing else.")
    remarks += [f"{count} runs without confidence: {reason}." for reason, count in item["without_confidence"].items()]
    remarks += [f"Left out: {count}, because {reason}." for reason, count in item["left_out"].items()]
    return remarks


def _figures(item: ReliabilityDocument) -> Table:
    numbers = ("value", "95 %", "tasks", "rests on")
    figures = table("figure", "", *numbers, right=numbers, whole=("figure", ""))
    figures.columns[1].style = "dim"
    for k, chance in list(item["pass_hat_k"].items())[:SHOWN_K]:
        name = f"pass^{k}"
        figures.add_row(_label(name), name, number(chance), _interval(item["intervals"][name]),
                      str(item["tasks_used"][name]), "")  # fmt: skip
    for name in LABELS:
        value = item["metrics"][name]
        figures.add_row(
            _label(name),
            name,
            Text("undefined", "dim") if value is None else Text(number(value), "bold" if name == "R" else ""),
            _interval(item["intervals"][name]),
            str(item["tasks_used"][name]) if value is not None else "",
            percent(item["coverage"][name]) if value is not None else "",
        )
    return figures


def _worst_tasks(item: ReliabilityDocument) -> Table:
    worst = table("dragged down by tasks", "task, value, runs", whole=("dragged down by tasks",))
    for name, tasks in item["worst_tasks"].items():
        if tasks:
            said = ", ".join(f'"{each["task_id"]}" {number(each["value"])} ({each["runs"]} runs)' for each in tasks)
            worst.add_row(_label(name).strip(), content(said))
    return worst


def _violations(item: ReliabilityDocument) -> Table:
    broken = table("broke a constraint", "run", "what shows it")
    for run in item["safety"]["examples"]:
        for violation in run["violations"]:
            broken.add_row(
                content(f"{violation['constraint']}, {violation['severity']}"),
                content(f'"{run["run_id"]}" of task "{run["task_id"]}"'),
                content(violation["evidence"]),
            )
    return broken


def _label(name: str) -> str:
    if name.startswith("pass^"):
        k = name.removeprefix("pass^")
        return "a run succeeds" if k == "1" else f"{k} runs all succeed"
    return LABELS.get(name, name.replace("_", " "))


def _number(value: float | None) -> Text:
    return Text("–", "dim") if value is None else Text(number(value))


def _interval(interval: Sequence[float] | None) -> str:
    return "–" if interval is None else f"{interval[0]:.2f} to {interval[1]:.2f}"


def _verdict(comparison: ComparisonDocument) -> Text:
    """Say whether the primary figure differs."""
    name, versions = comparison["primary"], f"{comparison['before']} and {comparison['after']}"
    figure = comparison["figures"][name]
    before, after, p_value = figure["before"], figure["after"], figure["p_value"]
    if before is None or after is None or p_value is None:
        return content(f"{versions} cannot be compared by {name}: {figure['reason']}", "yellow")
    said = f"{name} {number(before)} -> {number(after)}, p = {p_value:.3f}"
    if not figure["decided"]:
        return content(f"{versions} cannot be told apart on {comparison['tasks']} tasks: {said}", "bold")
    better = after > before
    return content(f"{comparison['after']} is {'better' if better else 'worse'}: {said}", _style(better=better))


def _p_value(figure: ComparedFigure) -> Text:
    if figure["p_value"] is None:
        return Text("–", "dim")
    style = _style(better=(figure["difference"] or 0.0) > 0) if figure["decided"] else ""
    return Text(f"{figure['p_value']:.3f}", style)


def _style(*, better: bool) -> str:
    return "green" if better else "red"
