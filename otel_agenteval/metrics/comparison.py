"""Comparison of two versions of an agent by their runs.

Tasks differ more than versions do, so only the tasks that both were run on are compared, and resampled in pairs: each
bootstrap sample draws the same tasks for both (paired bootstrap; Efron and Tibshirani 1993, "An Introduction to the
Bootstrap", chapter 8). The chance that the second is better is the share of samples in which its figure is higher,
ties half. It speaks of tasks such as these, not of more runs of the same ones.

The rate of success has a second answer that treats all runs as one sample: with uniform priors the rates have Beta
posteriors, and the chance that one is larger has a closed form.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import get_args

import numpy as np
from scipy.special import betaln

from otel_agenteval.metrics.consistency import Variant
from otel_agenteval.metrics.figures import PARTS, RELIABILITY_METRICS, Figures
from otel_agenteval.metrics.pass_k import Interval
from otel_agenteval.metrics.resampling import interval, resamples
from otel_agenteval.metrics.runs import Floats, Run, RunTable
from otel_agenteval.metrics.safety import check_severity_weights

TOLERANCE = 1e-12
"""Figures that differ by less are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFigure:
    """One figure of both, over the tasks in common; higher is better.

    `difference` is after - before with its 95 % interval. `probability_better` is the share of paired samples in
    which `after` is higher, ties half, in [0, 1]. All are None, and `reason` says why, where a figure is undefined for
    one of them; interval and probability also where fewer than two tasks are in common.
    """

    before: float | None
    after: float | None
    difference: float | None = None
    interval: Interval | None = None
    probability_better: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityComparison:
    """Two versions side by side.

    `figures` has every name in `RELIABILITY_METRICS`, and `"pass^k"` with the number for every k that both have.
    `tasks` is the number of tasks in common, `runs_before` and `runs_after` count runs of those. `success_before` and
    `success_after` are the rates over baseline runs, `success_probability_better` the chance by Beta posteriors that
    the later rate is the higher one; None where one has no baseline run.
    """

    variant: Variant
    tasks: int
    runs_before: int
    runs_after: int
    figures: Mapping[str, ComparedFigure]
    success_before: float | None
    success_after: float | None
    success_probability_better: float | None


def compare_reliability(
    before: Iterable[Run],
    after: Iterable[Run],
    variant: Variant = "page",
    severity_weights: Mapping[str, float] | None = None,
) -> ReliabilityComparison:
    """Return the figures of both over the tasks in common, seeded: the same runs have the same answer.

    Raises ValueError as `reliability_report` does.
    """
    if variant not in get_args(Variant):
        raise ValueError(f"variant is {variant!r}, not one of {', '.join(get_args(Variant))}")
    weights = check_severity_weights(severity_weights)
    given = [list(before), list(after)]
    common = set.intersection(*({run.task_id for run in runs} for runs in given))
    tables = [RunTable.of([run for run in runs if run.task_id in common], weights) for runs in given]
    figures = [Figures(table, variant) for table in tables]
    names = [*RELIABILITY_METRICS, *(f"pass^{k}" for k in range(1, min(each.largest_k for each in figures) + 1))]
    samples = _samples(figures, names) if len(common) > 1 else {}
    n = [int(each.baseline_runs.sum()) for each in figures]
    c = [int(each.baseline_successes.sum()) for each in figures]
    return ReliabilityComparison(
        variant=variant,
        tasks=len(common),
        runs_before=len(tables[0]),
        runs_after=len(tables[1]),
        figures=MappingProxyType({name: _compared(name, figures, samples) for name in names}),
        success_before=c[0] / n[0] if n[0] else None,
        success_after=c[1] / n[1] if n[1] else None,
        success_probability_better=probability_higher(n[0], c[0], n[1], c[1]) if all(n) else None,
    )


def probability_higher(n_before: int, c_before: int, n_after: int, c_after: int) -> float:
    """Return the chance that the rate behind `c_after` of `n_after` successes is higher than that behind `c_before` of
    `n_before`, in [0, 1].

    Both rates have uniform priors, so Beta(1 + c, 1 + n - c) posteriors. With whole parameters the integral is a sum:
    sum over i < a2 of B(a1 + i, b1 + b2) / ((b2 + i) B(1 + i, b2) B(a1, b1)).
    Raises ValueError unless 0 <= c <= n for both.
    """
    for n, c in ((n_before, c_before), (n_after, c_after)):
        if not 0 <= c <= n:
            raise ValueError(f"{c} of {n} successes: give 0 <= c <= n")
    a1, b1, a2, b2 = 1 + c_before, 1 + n_before - c_before, 1 + c_after, 1 + n_after - c_after
    i = np.arange(a2)
    logs = betaln(a1 + i, b1 + b2) - np.log(b2 + i) - betaln(1 + i, b2) - betaln(a1, b1)
    # Rounding may leave the interval by a last digit.
    return min(1.0, float(np.exp(logs).sum()))


def _samples(figures: Sequence[Figures], names: Sequence[str]) -> dict[str, Floats]:
    """Return, by figure, its values in every sample, of shape (2, samples)."""
    tasks, runs = len(figures[0].baseline_runs), max(len(each.pool) for each in figures)
    drawn = [[each.at(weights) for each in figures] for weights in resamples(tasks, runs)]
    return {name: np.concatenate([[both[name] for both in block] for block in drawn], axis=1) for name in names}


def _compared(name: str, figures: Sequence[Figures], samples: Mapping[str, Floats]) -> ComparedFigure:
    before, after = (each.point[name] for each in figures)
    if before is None or after is None:
        return ComparedFigure(before=before, after=after, reason=_undefined(before, after))
    if name in PARTS and figures[0].parts[name] != figures[1].parts[name]:
        rests = " and ".join(", ".join(each.parts[name]) for each in figures)
        return ComparedFigure(before=before, after=after, reason=f"it rests on different parts: {rests}")
    if not samples:
        reason = "fewer than two tasks are in common"
        return ComparedFigure(before=before, after=after, difference=after - before, reason=reason)
    differences = samples[name][1] - samples[name][0]
    defined = differences[~np.isnan(differences)]
    if not defined.size:
        reason = "no sample of the tasks defines it for both"
        return ComparedFigure(before=before, after=after, difference=after - before, reason=reason)
    # Equal figures may differ in the last digits of a sum over tasks in another order of runs.
    equal = np.isclose(defined, 0.0, rtol=0.0, atol=TOLERANCE)
    better = np.where(equal, 0.5, defined > 0)
    return ComparedFigure(
        before=before,
        after=after,
        difference=after - before,
        interval=interval(after - before, defined),
        probability_better=float(better.mean()),
    )


def _undefined(before: float | None, after: float | None) -> str:
    whom = "both" if before is None and after is None else "the one before" if before is None else "the one after"
    return f"it is undefined for {whom}"
