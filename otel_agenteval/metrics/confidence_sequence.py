"""A confidence sequence for a rate: intervals that all hold it at once, however often one looks while trials come in.

A rate stays in the interval as long as the trials are not much less likely under it than under a mixture of rates
around it (beta-binomial mixture, centred at the rate: Robbins 1970, "Statistical methods related to the law of the
iterated logarithm"; Howard, Ramdas, McAuliffe and Sekhon 2021, "Time-uniform, nonparametric, nonasymptotic confidence
sequences", Annals of Statistics 49, section 3.2). Under the rate this ratio is a martingale that begins at 1. So the
chance that it ever reaches 1 / (1 - `LEVEL`) is at most 1 - `LEVEL` (Ville 1939): exact for independent trials.

For an estimate that tells as much as `worth` trials it holds as more of them come in, for large samples (Waudby-Smith,
Arbour, Sinha, Kennedy and Ramdas 2024, "Time-uniform central limit theory and asymptotic confidence sequences", Annals
of Statistics 52, section 2; of prediction-powered estimates: Kilian, Cortinovis and Caron 2025, "Anytime-valid,
Bayes-assisted, prediction-powered inference", arXiv 2505.18000, section 3).
"""

from math import inf, log
from typing import Final

from scipy.special import betaln, xlog1py, xlogy

from otel_agenteval.metrics.pass_k import Interval
from otel_agenteval.metrics.resampling import LEVEL

_TRIALS: Final = 5.0
"""The number of trials that the mixture is worth: a = `_TRIALS` x rate, b = `_TRIALS` x (1 - rate).

It sets where the sequence is shortest. With 5 it is 1.5 to 1.65 times as wide as an interval for one look, from 20
trials to 300.
"""
_ENOUGH: Final = log(1 / (1 - LEVEL))
_STEPS: Final = 50
"""Halvings of the range in which a bound lies. The rest is below the rounding of a double."""


def confidence_sequence(rate: float, worth: float) -> Interval:
    """Return the interval of `LEVEL` that holds at any time, for a rate that tells as much as `worth` trials.

    `rate` is in [0, 1], `worth` above 0. A rate of 0 or 1 is itself a bound.
    """
    return (
        0.0 if rate <= 0.0 else _bound(0.0, rate, rate, worth),
        1.0 if rate >= 1.0 else _bound(1.0, rate, rate, worth),
    )


def _bound(outside: float, inside: float, rate: float, worth: float) -> float:
    """Return where the interval ends, between a rate that is no part of it and one that is."""
    for _ in range(_STEPS):
        middle = (outside + inside) / 2
        if log_evidence(middle, rate * worth, (1 - rate) * worth) >= _ENOUGH:
            outside = middle
        else:
            inside = middle
    return inside


def log_evidence(rate: float, passes: float, failures: float) -> float:
    """Return the logarithm of how much likelier the trials are under the mixture than under `rate`, in [0, 1]."""
    if not 0.0 < rate < 1.0:
        return inf
    a, b = _TRIALS * rate, _TRIALS * (1 - rate)
    mixture = betaln(a + passes, b + failures) - betaln(a, b)
    return float(mixture - xlogy(passes, rate) - xlog1py(failures, -rate))
