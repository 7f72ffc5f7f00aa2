"""Wilson's score interval (Wilson 1927, "Probable inference, the law of succession, and statistical inference"), which
holds near 0 and 1, too, for any estimate of a rate."""

from math import sqrt
from typing import Final

import numpy as np
from scipy.special import ndtri, stdtrit

from otel_agenteval.metrics.pass_k import Interval
from otel_agenteval.metrics.resampling import LEVEL
from otel_agenteval.metrics.runs import Floats

_Z: Final = float(ndtri((1 + LEVEL) / 2))


def wilson(rate: float, worth: float, units: int | None = None) -> Interval:
    """Return the interval of `LEVEL` of a rate that tells as much as so many (`worth`) independent trials.

    With `units`, how much it tells was itself estimated from so many: then Student's t stands for the normal quantile.
    """
    q = _Z if units is None else float(stdtrit(max(units, 2) - 1, (1 + LEVEL) / 2))
    share = q * q / worth
    middle = (rate + share / 2) / (1 + share)
    half = q / (1 + share) * sqrt(rate * (1 - rate) / worth + share / worth / 4)
    return max(0.0, middle - half), min(1.0, middle + half)


def mean_interval(values: Floats) -> Interval:
    """Return the interval of `LEVEL` of the mean of at least two independent values in [0, 1].

    Where they are all equal, nothing tells how they spread, and they count as trials.
    """
    n, mean = len(values), min(1.0, max(0.0, float(np.mean(values))))
    of_trials = mean * (1 - mean) / n
    variance = float(np.var(values, ddof=1)) / n
    # A value that is rarely seen is often not seen: one n-th of the variance of trials is counted beside.
    worth = n * of_trials / (variance + of_trials / n) if variance > _ROUNDING else n
    return wilson(mean, worth, units=n)


_ROUNDING: Final = 1e-18
"""A variance below this is what rounding leaves of equal values."""
