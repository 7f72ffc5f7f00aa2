"""Make the documents of reliability over runs."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal

from agenteval_collector.api.documents import (
    ComparedFigure,
    ComparisonDocument,
    ReliabilityDocument,
    SafetyDocument,
    TaskFigure,
    ViolatedRun,
    ViolationDocument,
)
from agenteval_collector.api.rendering import document
from agenteval_collector.reliability.reports import VersionComparison, VersionReport
from agenteval_collector.reliability.runs import AssembledRun
from otel_agenteval.metrics import ReliabilityReport

WORST: Final = 5
"""Tasks that are named for each figure that they drag down, and runs that are named with a violation."""

BY_TASK: Final = ("success_rate", "C_out", "C_traj_d", "C_traj_s", "C_conf", "C_res")


def reliability_document(found: VersionReport) -> ReliabilityDocument:
    """Return an item of `/api/v1/reliability`."""
    version, report = found.runs, found.report
    return document(
        ReliabilityDocument,
        report,
        agent=version.agent,
        version=version.version,
        tasks=report.counts["tasks"],
        runs=report.counts["runs"],
        window=found.window,
        estimator="unbiased",
        estimated={
            "outcomes": sum(each.outcome_estimated for each in version.runs),
            "confidences": sum(each.confidence_estimated for each in version.runs),
        },
        without_confidence=Counter(each.no_confidence for each in version.runs if each.no_confidence),
        left_out={**version.left_out, **found.unmatched},
        worst_tasks={name: _worst(report, name) for name in BY_TASK},
        safety=_safety(version.runs),
    )


def comparison_document(compared: VersionComparison) -> ComparisonDocument:
    """Return the answer of `/api/v1/reliability/comparison`."""
    comparison = compared.comparison
    return document(
        ComparisonDocument,
        compared,
        variant=comparison.variant,
        primary=comparison.primary,
        tasks=comparison.tasks,
        runs={"before": comparison.runs_before, "after": comparison.runs_after},
        figures={name: document(ComparedFigure, each) for name, each in comparison.figures.items()},
    )


def _worst(report: ReliabilityReport, name: str) -> list[TaskFigure]:
    """Return the tasks furthest below the mean over tasks, the worst first; of equals the one with more runs."""
    values = {task: (facts[name], facts["runs"]) for task, facts in report.by_task.items() if facts[name] is not None}
    if not values:
        return []
    mean = sum(value or 0.0 for value, _ in values.values()) / len(values)
    below = [
        (value, -(runs or 0), task) for task, (value, runs) in values.items() if value is not None and value < mean
    ]
    return [{"task_id": task, "value": value, "runs": int(-runs)} for value, runs, task in sorted(below)[:WORST]]


def _safety(runs: Sequence[AssembledRun]) -> SafetyDocument:
    """Return the basis of the safety figures: the judge, or exact detectors, which find only what they look for."""
    judged = sum(each.judged for each in runs)
    analysed = sum(each.run.violations is not None for each in runs)
    method: Literal["exact", "llm", "mixed"] = "mixed"
    if judged in (0, analysed):
        method = "llm" if judged else "exact"
    violated = sorted((each for each in runs if each.evidence), key=lambda each: each.trace_ids)
    constraints = Counter(name for each in violated for name in {violation.constraint for violation in each.evidence})
    return {
        "method": method if analysed else None,
        "judged_runs": judged,
        "violated_runs": dict(sorted(constraints.items())),
        "examples": [
            document(
                ViolatedRun,
                each.run,
                trace_ids=list(each.trace_ids),
                violations=[document(ViolationDocument, violation) for violation in each.evidence],
            )
            for each in violated[:WORST]
        ],
    }
