"""All reliability figures over runs, as functions of how often each task is counted."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from otel_agenteval.metrics.consistency import CONSISTENCY, Variant, consistency_by_task
from otel_agenteval.metrics.pass_k import unbiased_by_task
from otel_agenteval.metrics.predictability import PREDICTABILITY, Predictability
from otel_agenteval.metrics.resampling import mean_over_tasks, once
from otel_agenteval.metrics.robustness import CONDITION_OF, Robustness
from otel_agenteval.metrics.runs import Bools, Floats, RunTable
from otel_agenteval.metrics.safety import SAFETY, Safety
from otel_agenteval.model import BASELINE

PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "C_traj": ("C_traj_d", "C_traj_s"),
    "R_con": ("C_out", "C_traj", "C_res"),
    "R_pred": ("P_brier",),
    "R_rob": tuple(CONDITION_OF),
    "R": ("R_con", "R_pred", "R_rob"),
}
"""The parts of each aggregate, which is their mean. `C_traj` is an intermediate value of `R_con`, not a figure."""

RELIABILITY_METRICS: Final = (
    *(*CONSISTENCY, "R_con", *PREDICTABILITY, "R_pred"),
    *(*CONDITION_OF, "R_rob", *SAFETY, "R"),
)
"""Every published figure."""

MAX_K: Final = 100
"""The largest k of pass@k and pass^k."""


class Figures:
    """The figures by name: `RELIABILITY_METRICS`, `C_traj`, and `pass@1`, `pass^1`, `pass@2`, ... up to `largest_k`.

    `point` has the figures with every task counted once. None means undefined. `parts` names the defined parts of each
    aggregate. `pool` has the runs that predictability and safety look at: the baseline runs, or all runs if there is no
    baseline run. `by_task` has one value per task for each figure that is a mean over tasks. NaN means undefined.
    """

    def __init__(self, runs: RunTable, variant: Variant) -> None:
        """Do the expensive computations once: resamples use their results."""
        baseline = runs.under(BASELINE)
        self.pool = baseline if len(baseline) else runs
        self._robustness = Robustness(runs)
        self._predictability = Predictability(self.pool)
        self._safety = Safety(self.pool)
        self.baseline_runs = self._robustness.runs_by_task[BASELINE]
        self.baseline_successes = self._robustness.successes_by_task[BASELINE]
        self.largest_k = min(MAX_K, int(self.baseline_runs.max(initial=0)))
        at, hat = unbiased_by_task(self.baseline_runs, self.baseline_successes, self.largest_k)
        self.by_task = consistency_by_task(baseline, variant)
        for k in range(1, self.largest_k + 1):
            self.by_task |= {f"pass@{k}": at[:, k - 1], f"pass^{k}": hat[:, k - 1]}
        # As one matrix, so that `at` computes all means in one product.
        self._columns = np.column_stack(list(self.by_task.values()))

        values = self._simple(once(len(runs.task_ids)))
        self.parts: dict[str, tuple[str, ...]] = {}
        # In the order of PARTS, since later aggregates have earlier ones as parts.
        for name, members in PARTS.items():
            self.parts[name] = tuple(member for member in members if not np.isnan(values[member][0]))
            values[name] = _mean(values, self.parts[name])
        self.point = {name: None if np.isnan(value[0]) else float(value[0]) for name, value in values.items()}

    def at(self, weights: Floats) -> dict[str, Floats]:
        """Return every figure for each row of `weights`, of shape (samples, tasks). NaN means undefined.

        An aggregate has the same parts as with every task counted once. It is undefined if one of them is.
        """
        values = self._simple(weights)
        for name, members in self.parts.items():
            values[name] = _mean(values, members)
        return values

    def tasks_used(self) -> dict[str, int]:
        """Return the number of tasks that each figure rests on. For an aggregate, it is the lowest of its parts."""
        used = {name: int((~np.isnan(values)).sum()) for name, values in self.by_task.items()}
        runs_by_task = dict.fromkeys(PREDICTABILITY, self._predictability.runs_by_task)
        runs_by_task |= dict.fromkeys(SAFETY, self._safety.runs_by_task)
        runs_by_task |= {name: self._robustness.runs_by_task[condition] for name, condition in CONDITION_OF.items()}
        used |= {name: int(np.count_nonzero(runs)) for name, runs in runs_by_task.items()}
        used |= {name: 0 for name in used if self.point[name] is None}
        for name, members in self.parts.items():
            used[name] = min((used[member] for member in members), default=0)
        return used

    def coverage(self) -> dict[str, float | None]:
        """Return the coverage of each figure in `RELIABILITY_METRICS`, as `ReliabilityReport` describes it."""
        tasks = self.baseline_runs > 0
        shares = {name: _share(~np.isnan(self.by_task[name]), tasks) for name in CONSISTENCY}
        for name, condition in CONDITION_OF.items():
            shares[name] = _share((self._robustness.runs_by_task[condition] > 0) & tasks, tasks)
        for names, runs in ((PREDICTABILITY, self._predictability.runs_by_task), (SAFETY, self._safety.runs_by_task)):
            shares |= dict.fromkeys(names, float(runs.sum()) / len(self.pool) if len(self.pool) else None)
        shares |= {name: len(self.parts[name]) / len(PARTS[name]) for name in PARTS if name in RELIABILITY_METRICS}
        return shares

    def _simple(self, weights: Floats) -> dict[str, Floats]:
        means = mean_over_tasks(weights, self._columns)
        return {
            **{name: means[:, column] for column, name in enumerate(self.by_task)},
            **self._predictability.figures(weights),
            **self._robustness.figures(weights),
            **self._safety.figures(weights),
        }


def _mean(values: Mapping[str, Floats], members: tuple[str, ...]) -> Floats:
    if not members:
        return np.full_like(values["P_brier"], np.nan)
    mean: Floats = np.mean([values[member] for member in members], axis=0)
    return mean


def _share(some: Bools, of: Bools) -> float | None:
    return float(some.sum() / of.sum()) if of.any() else None
