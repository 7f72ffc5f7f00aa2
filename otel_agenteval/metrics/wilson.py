"""Wilson's score interval for any estimate of a rate. It also holds near 0 and 1.

Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference".
"""

from dataclasses import dataclass
from math import hypot, inf, sqrt
from typing import Final

import numpy as np
from scipy.special import ndtri, stdtrit

from otel_agenteval.metrics.pass_k import Interval
from otel_agenteval.metrics.resampling import LEVEL
from otel_agenteval.metrics.runs import Floats

_Z: Final = float(ndtri((1 + LEVEL) / 2))


def wilson(rate: float, worth: float, units: float | None = None) -> Interval:
    """Return the interval of `LEVEL` for a rate that tells as much as `worth` independent trials.

    With `units`, `worth` itself was estimated from that many units. Then Student's t replaces the normal quantile.
    """
    q = _Z if units is None else float(stdtrit(max(units, 2) - 1, (1 + LEVEL) / 2))
    share = q * q / worth
    middle = (rate + share / 2) / (1 + share)
    half = q / (1 + share) * sqrt(rate * (1 - rate) / worth + share / worth / 4)
    # A rate of 0 or 1 is itself a bound of its interval. Rounding must not leave it outside.
    return max(0.0, min(rate, middle - half)), min(1.0, max(rate, middle + half))


def mean_interval(values: Floats) -> Interval:
    """Return the interval of `LEVEL` for the mean of at least two independent values in [0, 1].

    If all values are equal, nothing shows their spread, so they count as trials.
    """
    mean = min(1.0, max(0.0, float(np.mean(values))))
    return _with_variance(mean, float(np.var(values, ddof=1)) / len(values), len(values))


@dataclass(frozen=True, slots=True)
class Clusters:
    """Sums over clusters of trials, such as the traces of sessions.

    `clusters` is the number of clusters. `trials` and `hits` are the sums of the clusters' numbers of trials and hits.
    The other fields are the sums of the squares and of the product of these two numbers.
    """

    clusters: int = 0
    trials: int = 0
    hits: int = 0
    trials_squared: int = 0
    hits_squared: int = 0
    trials_by_hits: int = 0


def clustered_interval(sums: Clusters, together: float = 1.0) -> Interval | None:
    """Return the interval of `LEVEL` for the share of hits among all trials. None below two independent clusters.

    The variance is that of a ratio of two sums over clusters (Cochran 1977, "Sampling Techniques", 6.3). With
    `together`, only one in that many clusters is independent, and the clusters in between are treated as equal to it.
    """
    n = sums.clusters / together
    if n < 2:
        return None
    rate = sums.hits / sums.trials
    squares = sums.hits_squared - 2 * rate * sums.trials_by_hits + rate * rate * sums.trials_squared
    variance = max(0.0, squares) * together * n / (n - 1) / sums.trials**2
    return _with_variance(rate, variance, n, most=sums.trials)


def difference_interval(before: float, about_before: Interval, after: float, about_after: Interval) -> Interval:
    """Return the interval of `after` - `before`, for two independent rates with their intervals.

    Source: Newcombe 1998, "Interval estimation for the difference between independent proportions", method 10.
    """
    difference = after - before
    down = hypot(after - about_after[0], about_before[1] - before)
    up = hypot(about_after[1] - after, before - about_before[0])
    return difference - down, difference + up


def _with_variance(rate: float, variance: float, units: float, most: float = inf) -> Interval:
    """Return the interval of a rate whose `variance` was estimated from `units`.

    The rate tells as much as `most` independent trials at most.
    """
    of_trials = rate * (1 - rate) / units
    # A rare value is often not seen at all, so one n-th of the variance of trials is added.
    worth = units * of_trials / (variance + of_trials / units) if variance > _ROUNDING else units
    return wilson(rate, min(worth, most), units=units)


_ROUNDING: Final = 1e-18
"""The limit for variances: below it, the values are equal and the rest is rounding."""
