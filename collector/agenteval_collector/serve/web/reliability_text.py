"""Words for figures of reliability: their names, what they rest on, and the result of a comparison."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from agenteval_collector.serve.api.figure_documents import ComparisonDocument, ReliabilityDocument
from agenteval_collector.serve.web.formats import agent_words, number

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
"""Names for the published figures. Parts stand below their whole; figures marked as apart enter no whole."""

_FORMULAS = {"page": "the Holistic Agent Leaderboard (docs/reliability.md)", "2026-06": "the authors' code of 2026-06"}

SHOWN_K = 8
"""pass^k is shown for k up to this."""

DECIDABLE_TASKS = 6
"""Tasks that a comparison needs: fewer cannot tell any two versions apart.

With five tasks there are 32 ways to exchange the versions, and two of these are always as extreme as any.
"""


def figure_words(name: str) -> str:
    """Return the name of a figure for people. The name of a part begins with two spaces."""
    if name.startswith("pass^"):
        k = name.removeprefix("pass^")
        return "a run succeeds" if k == "1" else f"{k} runs all succeed"
    return LABELS.get(name, name.replace("_", " "))


def whose(item: ReliabilityDocument) -> str:
    """Return the agent and the version that the figures are about."""
    version = f" {item['version']}" if item["version"] else ""
    return f"{agent_words(item['agent'] or 'unnamed agent', item['service'])}{version}"


def notes(reasons: Mapping[str, str], names_by_reason: Mapping[str, Sequence[str]]) -> list[str]:
    """Return notes on why figures are undefined, one for each reason, and on the parts of the other figures."""
    undefined: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        undefined.setdefault(reason, []).append(name)
    notes = [f"{', '.join(names)} undefined: {reason}." for reason, names in undefined.items()]
    lines = [f"{name} of {', '.join(of)}" for name, of in names_by_reason.items() if name not in reasons and of]
    return [*notes, *([f"Made of: {'; '.join(lines)}."] if lines else [])]


def remarks(item: ReliabilityDocument) -> list[str]:
    """Return sentences on what the figures rest on, and on what they leave out."""
    estimated, runs = item["estimated"], item["runs"]
    of = _FORMULAS.get(item["variant"], item["variant"])
    lines = [f"Of the newest {item['window']} runs at most, by the formulas of {of}; pass^k is {item['estimator']}."]
    if estimated["outcomes"]:
        lines.append(f"{estimated['outcomes']} of {runs} outcomes are estimated from task_completion: report them.")
    if estimated["confidences"]:
        lines.append(f"{estimated['confidences']} of {runs} confidences are an evaluator's, not the agent's own.")
    if item["safety"]["method"] == "exact":
        lines.append("Safety is by exact detectors: personal data, destructive tools, rate of calls; nothing else.")
    lines += [f"{count} runs without confidence: {reason}." for reason, count in item["without_confidence"].items()]
    lines += [f"Left out: {count}, because {reason}." for reason, count in item["left_out"].items()]
    return lines


class ComparisonResult(NamedTuple):
    """The result of a comparison as a sentence, and the tone in which it is shown."""

    text: str
    tone: Literal["good", "bad", "plain", "warning"]


def comparison_result(comparison: ComparisonDocument) -> ComparisonResult:
    """Return a sentence on whether the primary figure differs between the versions."""
    name, versions = comparison["primary"], f"{comparison['before']} and {comparison['after']}"
    figure = comparison["figures"][name]
    before, after, p_value = figure["before"], figure["after"], figure["p_value"]
    if before is None or after is None or p_value is None:
        return ComparisonResult(f"{versions} cannot be compared by {name}: {figure['reason']}", "warning")
    sentence = f"{name} {number(before)} -> {number(after)}, p = {p_value:.3f}"
    if not figure["decided"]:
        return ComparisonResult(f"{versions} cannot be told apart on {comparison['tasks']} tasks: {sentence}", "plain")
    is_better = after > before
    return ComparisonResult(
        f"{comparison['after']} is {'better' if is_better else 'worse'}: {sentence}", "good" if is_better else "bad"
    )


def shown_figures(comparison: ComparisonDocument) -> list[str]:
    """Return the names of a comparison's figures in their order, with the primary one first."""
    passes = [f"pass^{k}" for k in range(1, SHOWN_K + 1) if f"pass^{k}" in comparison["figures"]]
    return list(dict.fromkeys((comparison["primary"], *passes, *LABELS)))
