"""Comparison of two versions of an agent by their runs.

Tasks differ more than versions do, so only the tasks that both versions were run on are compared, in pairs. One figure,
the primary one, decides whether the versions differ, by a permutation test (see `exchange`). Its difference has a t
interval with the deviation of paired bootstrap samples. Paired samples draw the same tasks for both versions (Efron and
Tibshirani 1993, "An Introduction to the Bootstrap", chapters 8 and 12). The interval holds for other tasks such as
these, not for more runs of the same tasks.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, get_args

import numpy as np
from scipy.special import stdtrit

from otel_agenteval.metrics import exchange
from otel_agenteval.metrics.consistency import Variant
from otel_agenteval.metrics.figures import MAX_K, PARTS, RELIABILITY_METRICS, Figures
from otel_agenteval.metrics.pass_k import Interval
from otel_agenteval.metrics.resampling import LEVEL, resamples
from otel_agenteval.metrics.runs import Run, RunTable
from otel_agenteval.metrics.safety import check_severity_weights

PRIMARY: Final = "pass^1"
"""The primary figure, unless the caller names another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureDifference:
    """One figure of both versions, over the tasks in common. Higher is better.

    `difference` is after - before. `p_value` is corrected for the number of figures. `decided` is True if it is below
    `exchange.LEVEL`. Only the primary figure has a 95 % `interval` of its difference, which holds 0 unless `decided`.
    The interval is None if fewer than two tasks are in common.

    If the figure is undefined for one version, or rests on different parts, `difference`, `interval`, `p_value` and
    `decided` are None. If it is undefined for the runs of both together, `interval`, `p_value` and `decided` are None.
    In both cases `reason` says why.
    """

    before: float | None
    after: float | None
    difference: float | None = None
    interval: Interval | None = None
    p_value: float | None = None
    decided: bool | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityComparison:
    """Two versions side by side.

    `primary` names the figure that decides. `figures` has the primary figure, every name in `RELIABILITY_METRICS`, and
    `"pass^1"`, `"pass^2"`, ... for every k that both versions have. `tasks` is the number of tasks in common.
    `runs_before` and `runs_after` count the runs of these tasks.
    """

    variant: Variant
    primary: str
    tasks: int
    runs_before: int
    runs_after: int
    figures: Mapping[str, FigureDifference]


def compare_reliability(
    before: Iterable[Run],
    after: Iterable[Run],
    variant: Variant = "page",
    severity_weights: Mapping[str, float] | None = None,
    primary: str = PRIMARY,
) -> ReliabilityComparison:
    """Return the figures of both versions over the tasks in common. The same runs always give the same result.

    Raises ValueError as `reliability_report` does, and if `primary` is not the name of a figure.
    """
    if variant not in get_args(Variant):
        raise ValueError(f"variant is {variant!r}, not one of {', '.join(get_args(Variant))}")
    check_primary(primary)
    weights = check_severity_weights(severity_weights)
    versions = [list(before), list(after)]
    common = set.intersection(*({run.task_id for run in runs} for runs in versions))
    runs = [[run for run in runs_of_version if run.task_id in common] for runs_of_version in versions]
    figures = [Figures(RunTable.of(run, weights), variant) for run in runs]
    passes = [f"pass^{k}" for k in range(1, min(figure.largest_k for figure in figures) + 1)]
    # Each name once, the primary one first.
    names = list(dict.fromkeys([primary, *RELIABILITY_METRICS, *passes]))
    reasons = {name: reason for name in names if (reason := _incomparable(name, figures))}
    comparable = [name for name in names if name not in reasons]
    p_values = exchange.corrected(exchange.p_values(runs[0], runs[1], comparable, variant, weights), primary)
    compared = {name: _compared(name, figures, p_values.get(name), reasons.get(name)) for name in names}
    if len(common) > 1 and primary in p_values:
        compared[primary] = replace(compared[primary], interval=_interval(compared[primary], primary, figures))
    return ReliabilityComparison(
        variant=variant,
        primary=primary,
        tasks=len(common),
        runs_before=len(runs[0]),
        runs_after=len(runs[1]),
        figures=MappingProxyType(compared),
    )


def check_primary(name: str) -> None:
    """Raise ValueError unless `name` is a published figure or pass^k, with k from 1 to `MAX_K`."""
    k = re.fullmatch(r"pass\^([1-9]\d{0,2})", name)
    if name not in RELIABILITY_METRICS and not (k and int(k[1]) <= MAX_K):
        names = ", ".join(RELIABILITY_METRICS)
        raise ValueError(f"primary is {name[:64]!r}, neither pass^1 to pass^{MAX_K} nor one of {names}")


def _incomparable(name: str, figures: Sequence[Figures]) -> str | None:
    before, after = (figure.point.get(name) for figure in figures)
    if before is None or after is None:
        whom = "both" if before is None and after is None else "the one before" if before is None else "the one after"
        return f"it is undefined for {whom}"
    if name in PARTS and figures[0].parts[name] != figures[1].parts[name]:
        rests = " and ".join(", ".join(figure.parts[name]) for figure in figures)
        return f"it rests on different parts: {rests}"
    return None


def _compared(name: str, figures: Sequence[Figures], p_value: float | None, reason: str | None) -> FigureDifference:
    before, after = (figure.point.get(name) for figure in figures)
    if before is None or after is None or reason:
        return FigureDifference(before=before, after=after, reason=reason)
    if p_value is None:
        reason = "it is undefined for the runs of both together"
    return FigureDifference(
        before=before,
        after=after,
        difference=after - before,
        p_value=p_value,
        decided=None if p_value is None else p_value < exchange.LEVEL,
        reason=reason,
    )


def _interval(figure: FigureDifference, name: str, figures: Sequence[Figures]) -> Interval | None:
    """Return the t interval of the difference, moved so that it holds 0 exactly if the test does not decide."""
    difference, tasks = figure.difference or 0.0, len(figures[0].baseline_runs)
    rows = resamples(tasks, max(len(figure.pool) for figure in figures))
    samples = np.concatenate([figures[1].at(row)[name] - figures[0].at(row)[name] for row in rows])
    defined = samples[~np.isnan(samples)]
    if not defined.size:
        return None
    # The bootstrap's variance is that of the plug-in estimate: n - 1 in n of the unbiased one.
    deviation = float(np.std(defined)) * math.sqrt(tasks / (tasks - 1))
    half = float(stdtrit(tasks - 1, (1 + LEVEL) / 2)) * deviation
    low, high = max(difference - half, -1.0), min(difference + half, 1.0)
    if not figure.decided:
        return min(low, 0.0), max(high, 0.0)
    return (max(low, 0.0), high) if difference > 0 else (low, min(high, 0.0))
