"""Consistency of an agent over several runs of one task, task by task.

Reliability methodology of the Holistic Agent Leaderboard (princeton-pli/hal-harness, package `reliability_eval`),
section "Consistency". The published page and the authors' code since June 2026 differ in two formulas. This module has
both, as the variants `page` and `2026-06`.
"""

from itertools import groupby
from typing import Literal, TypeAlias

import numpy as np

from otel_agenteval.metrics.resampling import ratio
from otel_agenteval.metrics.runs import ERRORS, Floats, RunTable
from otel_agenteval.metrics.trajectories import LOG_2, jensen_shannon_divergences, sequence_similarity

Variant: TypeAlias = Literal["page", "2026-06"]

CONSISTENCY = ("C_out", "C_traj_d", "C_traj_s", "C_conf", "C_res")
_EPSILON = 1e-8
"""Keeps the quotient defined if all runs of a task end alike: their consistency is 1."""


def consistency_by_task(runs: RunTable, variant: Variant) -> dict[str, Floats]:
    """Return `C_out`, `C_traj_d`, `C_traj_s`, `C_conf` and `C_res` of each task. NaN means undefined for the task."""
    return {
        "C_out": _outcome(runs, variant),
        **_trajectories(runs, variant),
        "C_conf": np.exp(-_variation(runs, runs.confidence, zeros=True)),
        "C_res": _resources(runs),
    }


def _outcome(runs: RunTable, variant: Variant) -> Floats:
    """Return the consistency of outcomes, NaN for tasks with fewer than two runs.

    p is the rate of success over the K runs of a task. page: 1 - s^2 / (p (1 - p)), where s^2 has the divisor K - 1.
    2026-06: (2p - 1)^2.
    """
    count = runs.sum_by_task(np.ones(len(runs)))
    rate = ratio(runs.sum_by_task(runs.success), count)
    spread = rate * (1.0 - rate)
    if variant == "page":
        consistency = np.clip(1.0 - ratio(spread * count, count - 1.0) / (spread + _EPSILON), 0.0, 1.0)
    else:
        consistency = (2.0 * rate - 1.0) ** 2
    return np.where(count >= 2, consistency, np.nan)


def _trajectories(runs: RunTable, variant: Variant) -> dict[str, Floats]:
    """Return the mean similarity over pairs of successful runs with actions, NaN for tasks with fewer than two of them.

    `C_traj_d` is 1 - Jensen-Shannon distance (nats) in variant page, 1 - divergence (bits) in variant 2026-06.
    """
    distribution, sequence = (np.full(len(runs.task_ids), np.nan) for _ in range(2))
    compared = runs.where(runs.success & np.array([bool(actions) for actions in runs.actions], dtype=np.bool_))
    for task, rows in groupby(range(len(compared)), key=lambda row: int(compared.task[row])):
        trajectories = [compared.actions[row] for row in rows]
        if len(trajectories) < 2:
            continue
        divergence = np.concatenate(jensen_shannon_divergences(trajectories))
        distance = np.sqrt(divergence) if variant == "page" else divergence / LOG_2
        distribution[task] = 1.0 - distance.mean()
        sequence[task] = sequence_similarity(trajectories)
    return {"C_traj_d": distribution, "C_traj_s": sequence}


def _resources(runs: RunTable) -> Floats:
    """Return exp(-mean coefficient of variation), over the resources that have one. NaN for a task without any."""
    variations = np.array([_variation(runs, amounts, zeros=name == ERRORS) for name, amounts in runs.resources.items()])
    defined = ~np.isnan(variations)
    return np.exp(-ratio(np.where(defined, variations, 0.0).sum(axis=0), defined.sum(axis=0).astype(np.float64)))


def _variation(runs: RunTable, values: Floats, *, zeros: bool) -> Floats:
    """Return the standard deviation (divisor K - 1) / mean of each task.

    NaN means fewer than two values, or a mean that is not positive. Unless `zeros`, values of 0 and less mean "not
    measured".
    """
    measured = runs.where(~np.isnan(values) if zeros else values > 0)
    used = values[~np.isnan(values) if zeros else values > 0]
    largest = used.max(initial=0.0)
    # The coefficient does not depend on the unit. With the largest value at 1, no sum leaves the range of a double.
    scaled = used / largest if largest > 0 else used
    count = measured.sum_by_task(np.ones(len(scaled)))
    mean = ratio(measured.sum_by_task(scaled), count)
    variance = ratio(measured.sum_by_task((scaled - mean[measured.task]) ** 2), count - 1.0)
    return np.where((count >= 2) & (mean > 0), ratio(np.sqrt(variance), mean), np.nan)
