"""Figures of reliability in words: what each is called, what it rests on, and what a comparison says."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from agenteval_collector.api.figure_documents import ComparisonDocument, ReliabilityDocument
from agenteval_collector.web.formats import number

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


def figure_words(name: str) -> str:
    """Return what a figure is called; parts stand two spaces to the right of their whole."""
    if name.startswith("pass^"):
        k = name.removeprefix("pass^")
        return "a run succeeds" if k == "1" else f"{k} runs all succeed"
    return LABELS.get(name, name.replace("_", " "))


def whose(item: ReliabilityDocument) -> str:
    """Return the agent and the version that the figures are about."""
    version = f" {item['version']}" if item["version"] else ""
    return f"{item['agent'] or 'unnamed agent'}{version}"


def notes(reasons: Mapping[str, str], parts: Mapping[str, Sequence[str]]) -> list[str]:
    """Say why figures are undefined, those with the same reason together, and what the others are made of."""
    undefined: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        undefined.setdefault(reason, []).append(name)
    notes = [f"{', '.join(names)} undefined: {reason}." for reason, names in undefined.items()]
    made = [f"{name} of {', '.join(of)}" for name, of in parts.items() if name not in reasons and of]
    return [*notes, *([f"Made of: {'; '.join(made)}."] if made else [])]


def remarks(item: ReliabilityDocument) -> list[str]:
    """Say what the figures rest on, and what was left out."""
    estimated, runs = item["estimated"], item["runs"]
    said = [f"The newest {item['window']} runs at most, variant {item['variant']}, pass^k {item['estimator']}."]
    if estimated["outcomes"]:
        said.append(f"{estimated['outcomes']} of {runs} outcomes are estimated from task_completion: report them.")
    if estimated["confidences"]:
        said.append(f"{estimated['confidences']} of {runs} confidences are an evaluator's, not the agent's own.")
    if item["safety"]["method"] == "exact":
        said.append("Safety is by exact detectors: personal data, destructive tools, rate of calls; nothing else.")
    said += [f"{count} runs without confidence: {reason}." for reason, count in item["without_confidence"].items()]
    said += [f"Left out: {count}, because {reason}." for reason, count in item["left_out"].items()]
    return said


class ComparisonResult(NamedTuple):
    """The result of a comparison in a sentence, with the tone to show it in."""

    text: str
    tone: Literal["good", "bad", "plain", "warning"]


def comparison_result(comparison: ComparisonDocument) -> ComparisonResult:
    """Say whether the primary figure differs."""
    name, versions = comparison["primary"], f"{comparison['before']} and {comparison['after']}"
    figure = comparison["figures"][name]
    before, after, p_value = figure["before"], figure["after"], figure["p_value"]
    if before is None or after is None or p_value is None:
        return ComparisonResult(f"{versions} cannot be compared by {name}: {figure['reason']}", "warning")
    said = f"{name} {number(before)} -> {number(after)}, p = {p_value:.3f}"
    if not figure["decided"]:
        return ComparisonResult(f"{versions} cannot be told apart on {comparison['tasks']} tasks: {said}", "plain")
    is_better = after > before
    return ComparisonResult(
        f"{comparison['after']} is {'better' if is_better else 'worse'}: {said}", "good" if is_better else "bad"
    )


def shown_figures(comparison: ComparisonDocument) -> list[str]:
    """Return the figures of a comparison in their order, the one that decides first."""
    passes = [f"pass^{k}" for k in range(1, SHOWN_K + 1) if f"pass^{k}" in comparison["figures"]]
    return list(dict.fromkeys((comparison["primary"], *passes, *LABELS)))
