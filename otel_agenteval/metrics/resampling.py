"""Bootstrap of figures over tasks, for many resamples at once.

A figure is a function of how often each task is counted. It is computed for a matrix of such weights, with one row per
sample and one column per task. A row of ones gives the figure itself. The other rows draw as many tasks as there are,
with replacement. They give the bootstrap distribution (Efron and Tibshirani 1993, "An Introduction to the Bootstrap",
chapters 6 and 13). Expensive steps, such as distances between runs, are done before, once per task.

NaN means "undefined in this sample". `interval` leaves such samples out.
"""

from collections.abc import Iterator
from math import sqrt
from typing import Final

import numpy as np
from scipy.special import ndtr, stdtrit

from otel_agenteval.metrics.runs import Floats

SAMPLES: Final = 1000
LEVEL: Final = 0.95
SEED: Final = 20260416
"""The seed of all draws. It is fixed, so that the same runs always have the same intervals."""

_NUMBERS_AT_ONCE: Final = 250_000
"""The number of weights in a block of resamples. It bounds memory, whatever the number of runs."""


def once(tasks: int) -> Floats:
    """Return the sample in which every task counts once, of shape (1, tasks)."""
    return np.ones((1, tasks))


def resamples(tasks: int, runs: int) -> Iterator[Floats]:
    """Yield `SAMPLES` bootstrap samples of `tasks`, at least one, in blocks of shape (some, tasks)."""
    random = np.random.default_rng(SEED)
    rows = max(1, _NUMBERS_AT_ONCE // max(tasks, runs))
    for start in range(0, SAMPLES, rows):
        block = min(rows, SAMPLES - start)
        # The tasks of each sample have numbers of their own, so that one count serves all samples of the block.
        drawn = random.integers(tasks, size=(block, tasks)) + np.arange(block)[:, None] * tasks
        counts = np.bincount(drawn.ravel(), minlength=block * tasks)
        yield counts.reshape(block, tasks).astype(np.float64)


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Return `numerator` / `denominator`, NaN if the denominator is 0."""
    result = np.full(np.broadcast_shapes(numerator.shape, denominator.shape), np.nan)
    np.divide(numerator, denominator, out=result, where=denominator != 0)
    return result


def mean_over_tasks(weights: Floats, values: Floats) -> Floats:
    """Return the weighted mean over the tasks that have a value, which is not NaN.

    `weights` has the shape (samples, tasks), `values` (tasks,) or (tasks, figures). The mean is NaN in a sample if
    no task has a value.
    """
    defined = ~np.isnan(values)
    return ratio(weights @ np.where(defined, values, 0.0), weights @ defined.astype(np.float64))


def interval(figure: float, samples: Floats, units: int | None = None) -> tuple[float, float] | None:
    """Return the percentile interval of `LEVEL`. None if the figure is undefined in every sample.

    Resamples of few `units`, at least two, vary too little. So their quantiles are taken further out, as Student's t is
    (expanded percentile; Hesterberg 2015, "What Teachers Should Know About the Bootstrap", American Statistician 69).
    Resampling shifts some figures to one side: for example, the calibration error of a resample is larger. An interval
    that misses the figure for this reason is extended to it.
    """
    defined = samples[~np.isnan(samples)]
    if not defined.size:
        return None
    tail = (1.0 - LEVEL) / 2.0
    if units is not None:
        tail = float(ndtr(stdtrit(units - 1, tail) * sqrt(units / (units - 1))))
    low, high = np.quantile(defined, [tail, 1.0 - tail])
    return min(float(low), figure), max(float(high), figure)
