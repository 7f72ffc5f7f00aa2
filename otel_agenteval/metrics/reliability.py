"""Reliability of an agent over repeated runs of tasks: consistency, predictability, robustness, and safety apart.

Reliability methodology of the Holistic Agent Leaderboard (princeton-pli/hal-harness, package `reliability_eval`), in
the variants of its published page and of the authors' code since June 2026.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import get_args

import numpy as np

from otel_agenteval.metrics.consistency import CONSISTENCY, Variant
from otel_agenteval.metrics.figures import PARTS, RELIABILITY_METRICS, Figures
from otel_agenteval.metrics.pass_k import Interval
from otel_agenteval.metrics.predictability import PREDICTABILITY
from otel_agenteval.metrics.resampling import interval, ratio, resamples
from otel_agenteval.metrics.robustness import CONDITION_OF
from otel_agenteval.metrics.runs import Run, RunTable
from otel_agenteval.metrics.safety import SAFETY, check_severity_weights
from otel_agenteval.metrics.wilson import mean_interval
from otel_agenteval.model import BASELINE, CONDITIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityReport:
    """The figures of an agent over repeated runs. Every figure is in [0, 1], higher is better.

    - `metrics` has every name in `RELIABILITY_METRICS`. None means undefined, and `reasons` says why.
    - `parts` names the parts that entered each aggregate.
    - `coverage` is the used share of what a figure could rest on. For `C_*` and `R_*` these are tasks with a baseline
      run. For `P_*`, `S_*` and `R_saf` these are the runs of the pool, and for aggregates their parts.
    - `pass_at_k` and `pass_hat_k` are unbiased per task, and averaged over the tasks with at least k baseline runs (Yao
      et al. 2024, arXiv 2406.12045).
    - `intervals` has 95 % intervals over tasks, also of `"pass@k"` and `"pass^k"`. For means over tasks they come from
      `wilson.mean_interval`, else from a seeded bootstrap. None if a figure rests on fewer than two tasks.
    - `tasks_used` counts the tasks that a figure rests on.
    - `by_task` has `runs`, `success_rate` and the `C_*` of every task with a baseline run.
    - `counts` has `tasks`, `runs` and `runs_` with the name of each condition. Of the pool it has `runs_pooled`,
      `runs_with_confidence`, `runs_analysed` and `runs_violated`.

    The pool has the baseline runs, or all runs if there is no baseline run.
    """

    variant: Variant
    metrics: Mapping[str, float | None]
    intervals: Mapping[str, Interval | None]
    reasons: Mapping[str, str]
    counts: Mapping[str, int]
    parts: Mapping[str, tuple[str, ...]]
    coverage: Mapping[str, float | None]
    tasks_used: Mapping[str, int]
    pass_at_k: Mapping[int, float]
    pass_hat_k: Mapping[int, float]
    by_task: Mapping[str, Mapping[str, float | None]]


def reliability_report(
    runs: Iterable[Run], variant: Variant = "page", severity_weights: Mapping[str, float] | None = None
) -> ReliabilityReport:
    """Compute every published figure of `runs`. Their order makes no difference.

    Consistency and pass^k rest on the baseline runs. Predictability and safety do too, or on all runs if there is no
    baseline run. Raises ValueError for two different runs of one task, condition and run id. Raises it also for a
    severity without a weight, for a weight outside [0, 1] and for an unknown variant.
    """
    if variant not in get_args(Variant):
        raise ValueError(f"variant is {variant!r}, not one of {', '.join(get_args(Variant))}")
    table = RunTable.of(runs, check_severity_weights(severity_weights))
    figures = Figures(table, variant)
    point, tasks_used = figures.point, figures.tasks_used()
    counts = _counts(table, figures)
    return ReliabilityReport(
        variant=variant,
        metrics=_frozen({name: point[name] for name in RELIABILITY_METRICS}),
        intervals=_frozen(_intervals(figures, tasks_used)),
        reasons=_frozen({name: _reason(name, counts) for name in RELIABILITY_METRICS if point[name] is None}),
        counts=_frozen(counts),
        parts=_frozen({name: figures.parts[name] for name in PARTS if name in RELIABILITY_METRICS}),
        coverage=_frozen(figures.coverage()),
        tasks_used=_frozen({name: used for name, used in tasks_used.items() if name not in _STEPS}),
        pass_at_k=_frozen(_pass_k("pass@", figures)),
        pass_hat_k=_frozen(_pass_k("pass^", figures)),
        by_task=_frozen({task: _frozen(facts) for task, facts in _by_task(table, figures).items()}),
    )


_frozen = MappingProxyType
_STEPS = set(PARTS) - set(RELIABILITY_METRICS)


def _intervals(figures: Figures, tasks_used: Mapping[str, int]) -> dict[str, Interval | None]:
    intervals: dict[str, Interval | None] = {name: None for name in figures.point if name not in _STEPS}
    compared = [name for name in intervals if tasks_used[name] >= 2]
    if not compared:
        return intervals
    blocks = [
        [values[name] for name in compared]
        for values in map(figures.at, resamples(len(figures.baseline_runs), len(figures.pool)))
    ]
    for name, samples in zip(compared, np.concatenate(blocks, axis=1), strict=True):
        value = figures.point[name]
        if (of_tasks := figures.by_task.get(name)) is not None:
            intervals[name] = mean_interval(of_tasks[~np.isnan(of_tasks)])
        elif value is not None:
            intervals[name] = interval(value, samples, tasks_used[name])
    return intervals


def _counts(runs: RunTable, figures: Figures) -> dict[str, int]:
    pool = figures.pool
    return {
        "tasks": len(runs.task_ids),
        "runs": len(runs),
        **{f"runs_{condition}": len(runs.under(condition)) for condition in CONDITIONS},
        "runs_pooled": len(pool),
        "runs_with_confidence": int((~np.isnan(pool.confidence)).sum()),
        "runs_analysed": int((~np.isnan(pool.severity)).sum()),
        "runs_violated": int(pool.violated.sum()),
    }


def _pass_k(name: str, figures: Figures) -> dict[int, float]:
    by_k = {k: figures.point[f"{name}{k}"] for k in range(1, figures.largest_k + 1)}
    return {k: value for k, value in by_k.items() if value is not None}


def _by_task(runs: RunTable, figures: Figures) -> dict[str, dict[str, float | None]]:
    columns = {
        "runs": figures.baseline_runs,
        "success_rate": ratio(figures.baseline_successes, figures.baseline_runs),
        **{name: figures.by_task[name] for name in CONSISTENCY},
    }
    return {
        task_id: {name: None if np.isnan(values[task]) else float(values[task]) for name, values in columns.items()}
        for task, task_id in enumerate(runs.task_ids)
        if figures.baseline_runs[task]
    }


_REASONS: Mapping[str, str] = {
    "C_out": "no task has two baseline runs",
    "C_traj_d": "no task has two successful baseline runs with actions",
    "C_traj_s": "no task has two successful baseline runs with actions",
    "C_conf": "no task has two baseline runs with a confidence, above 0 on average",
    "C_res": "no task has two baseline runs of which the same resource was measured",
    **dict.fromkeys(SAFETY, "no run was analysed for violations"),
    **{name: f"none of {', '.join(PARTS[name])} is defined" for name in PARTS},
}


def _reason(name: str, counts: Mapping[str, int]) -> str:
    if name in PREDICTABILITY:
        return "all runs with a confidence ended alike" if counts["runs_with_confidence"] else "no run has a confidence"
    if name in CONDITION_OF:
        for condition in (BASELINE, CONDITION_OF[name]):
            if not counts[f"runs_{condition}"]:
                return f"there is no run under {condition!r}"
        return "no baseline run succeeded"
    return _REASONS[name]
