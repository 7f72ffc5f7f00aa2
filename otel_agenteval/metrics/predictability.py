"""Predictability: how well the agent's confidence predicts its success, over the runs of all tasks together.

Reliability methodology of the Holistic Agent Leaderboard (princeton-pli/hal-harness, package `reliability_eval`),
section "Predictability". Runs of equal confidence have no order. A figure that needs an order is averaged over all
orders of such runs.
"""

import numpy as np

from otel_agenteval.metrics.resampling import ratio
from otel_agenteval.metrics.runs import Bools, Floats, Ints, RunTable

PREDICTABILITY = ("P_rc", "P_cal", "P_auroc", "P_brier")

BINS = 10
COVERAGES = np.linspace(0.0, 1.0, 100)
_EPSILON = 1e-8
"""Keeps the quotient defined if all runs end alike: `P_rc` is 1."""


class Predictability:
    """`P_rc`, `P_cal`, `P_auroc` and `P_brier` of runs that have a confidence, for any weights of their tasks."""

    def __init__(self, runs: RunTable) -> None:
        """Take the runs that have a confidence."""
        judged = runs.where(~np.isnan(runs.confidence))
        error = judged.confidence - judged.success
        self.runs_by_task = judged.sum_by_task(np.ones(len(judged)))
        self._squares = judged.sum_by_task(error**2)
        self._bin_errors = _by_task_and_bin(judged, error)
        # From the most confident run to the least; runs of equal confidence form a group.
        order = np.argsort(-judged.confidence, kind="stable")
        self._task: Ints = judged.task[order]
        self._failed: Bools = ~judged.success[order]
        # The first difference is NaN, which is unequal to 0, so that the first run begins a group.
        self._group_starts = np.flatnonzero(np.diff(judged.confidence[order], prepend=np.nan) != 0)

    def figures(self, weights: Floats) -> dict[str, Floats]:
        """Return each figure for each row of `weights`, of shape (samples, tasks). NaN means undefined.

        No figure is defined without a run that has a confidence, and `P_auroc` not if all runs end alike.
        """
        if not self._task.size:
            return {name: np.full(len(weights), np.nan) for name in PREDICTABILITY}
        count = weights @ self.runs_by_task
        run_weights = weights[:, self._task]
        grouped = np.add.reduceat(run_weights, self._group_starts, axis=1)
        failed = np.add.reduceat(run_weights * self._failed, self._group_starts, axis=1)
        return {
            "P_rc": _risk_coverage(grouped, failed),
            "P_cal": np.clip(1.0 - ratio(np.abs(weights @ self._bin_errors).sum(axis=1), count), 0.0, 1.0),
            "P_auroc": _auroc(grouped - failed, failed),
            "P_brier": np.clip(1.0 - ratio(weights @ self._squares, count), 0.0, 1.0),
        }


def _by_task_and_bin(runs: RunTable, values: Floats) -> Floats:
    """Return the sums of `values` by task and by bin of confidence.

    The ten bins are equal and closed on the left, the last one also on the right. As published, their edges are the
    doubles that `numpy.linspace` gives, so 0.3 falls into the bin below: the edge is 0.30000000000000004.
    """
    edges = np.linspace(0.0, 1.0, BINS + 1)
    bins = np.clip(np.searchsorted(edges, runs.confidence, side="right") - 1, 0, BINS - 1)
    tasks = len(runs.task_ids)
    sums = np.bincount(runs.task * BINS + bins, weights=values, minlength=tasks * BINS)
    return sums.astype(np.float64, copy=False).reshape(tasks, BINS)


def _auroc(succeeded: Floats, failed: Floats) -> Floats:
    """Return the chance that a success has a higher confidence than a failure. Ties count half.

    The arguments have the shape (samples, groups), with the most confident group first. NaN stands if a sample has
    no success or no failure.
    """
    positives, negatives = succeeded.sum(axis=1), failed.sum(axis=1)
    below = negatives[:, None] - np.cumsum(failed, axis=1)
    return ratio((succeeded * (below + failed / 2.0)).sum(axis=1), positives * negatives)


def _risk_coverage(grouped: Floats, failed: Floats) -> Floats:
    """Return 1 - excess area under the risk-coverage curve / excess area of a random order. 1 if all runs end alike.

    The arguments have the shape (samples, groups). Errors are spread evenly within a group of equal confidence, which
    is the mean over all orders of the group.
    """
    count, errors = grouped.sum(axis=1, keepdims=True), failed.sum(axis=1, keepdims=True)
    sizes = np.maximum(1.0, np.floor(COVERAGES * count))
    risk = _errors_among(sizes, grouped, failed) / np.maximum(sizes, 1.0)
    least_risk = np.maximum(0.0, sizes - (count - errors)) / sizes
    area, least_area = _area(risk), _area(least_risk)
    overall = ratio(errors, count)[:, 0]
    return np.clip(1.0 - (area - least_area) / (overall - least_area + _EPSILON), 0.0, 1.0)


def _errors_among(sizes: Floats, grouped: Floats, failed: Floats) -> Floats:
    """Return the expected number of failures among the first `sizes` runs of each sample.

    The result has the shape (samples, coverages), as `sizes` has.
    """
    samples, groups = grouped.shape
    runs_before, errors_before = (np.cumsum(column, axis=1) - column for column in (grouped, failed))
    # One search serves all samples: each sample has its own stretch of the number line.
    stretch = np.arange(samples)[:, None] * (grouped.sum(axis=1).max() + 2.0)
    ends = (runs_before + grouped + stretch).ravel()
    indices = np.searchsorted(ends, (sizes + stretch).ravel()).reshape(sizes.shape)
    group = np.minimum(indices - np.arange(samples)[:, None] * groups, groups - 1)
    size, share = (np.take_along_axis(column, group, axis=1) for column in (grouped, failed))
    before, wrong = (np.take_along_axis(column, group, axis=1) for column in (runs_before, errors_before))
    rate = np.divide(share, size, out=np.zeros_like(size), where=size > 0)
    return wrong + (sizes - before) * rate


def _area(risk: Floats) -> Floats:
    """Return the area under the risk over `COVERAGES`, by the trapezoidal rule."""
    return ((risk[:, 1:] + risk[:, :-1]) / 2.0) @ np.diff(COVERAGES)
