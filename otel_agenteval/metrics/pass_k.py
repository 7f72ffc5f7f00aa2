"""pass@k and pass^k: the chances that at least one of k attempts succeeds, and that all of them do.

The plug-in estimator puts the observed rate of success into the formula for independent attempts (Gaussia, "Agentic
Metric", Statistical Modes). It is biased, and also defined for more attempts than were made. The unbiased estimator
counts draws of k attempts without replacement (pass@k: Chen et al. 2021, arXiv 2107.03374, section 2.1; pass^k: Yao et
al. 2024, arXiv 2406.12045, section 3). The caller decides what counts as an attempt. Always name the estimator together
with its value.
"""

from dataclasses import dataclass
from math import comb, prod, sqrt
from numbers import Integral
from typing import Literal, TypeAlias, get_args

import numpy as np
from scipy.special import betaincinv, ndtri

from otel_agenteval.metrics.result import is_number
from otel_agenteval.metrics.runs import Floats

Estimator: TypeAlias = Literal["plugin", "unbiased"]
Interval: TypeAlias = tuple[float, float]

MANY = 10**10
"""The number of successes and of failures from which on a posterior is treated as normal."""


def pass_at_k(n: int, c: int, k: int, estimator: Estimator = "plugin") -> float | None:
    """Return the chance, in [0, 1], that at least one of `k` attempts succeeds, after `c` of `n` attempts succeeded.

    `"plugin"`: 1 - (1 - c/n)^k. `"unbiased"`: 1 - C(n-c, k) / C(n, k), None if `k` exceeds `n`. None if no
    attempt was made. Raises ValueError unless 0 <= c <= n and k >= 1, all whole numbers.
    """
    if not _is_defined(n, c, k, estimator):
        return None
    if estimator == "plugin":
        return 1.0 - (1.0 - c / n) ** k
    return (comb(n, k) - comb(n - c, k)) / comb(n, k)


def pass_hat_k(n: int, c: int, k: int, estimator: Estimator = "plugin") -> float | None:
    """Return the chance, in [0, 1], that all of `k` attempts succeed, after `c` of `n` attempts succeeded.

    `"plugin"`: (c/n)^k. `"unbiased"`: C(c, k) / C(n, k), None if `k` exceeds `n`. None if no attempt was made.
    Raises ValueError unless 0 <= c <= n and k >= 1, all whole numbers.
    """
    if not _is_defined(n, c, k, estimator):
        return None
    return (c / n) ** k if estimator == "plugin" else comb(c, k) / comb(n, k)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassKPosterior:
    """The posterior means of pass@k and pass^k, and their equal-tailed credible intervals of `level`.

    All four are None if no attempt was made, because the prior alone is no evidence.
    """

    pass_at_k: float | None = None
    pass_hat_k: float | None = None
    pass_at_k_interval: Interval | None = None
    pass_hat_k_interval: Interval | None = None
    level: float
    reason: str


def pass_k_posterior(n: int, c: int, k: int, level: float = 0.95) -> PassKPosterior:
    """Return pass@k and pass^k of a rate of success with a uniform prior, after `c` of `n` attempts succeeded.

    The rate p has the posterior Beta(1 + c, 1 + n - c). The publication draws samples from it (Gaussia, "Agentic
    Metric", Statistical Modes), this function uses closed forms. The mean of p^k is a product of rising factorials.
    Both figures rise with the rate, so the quantiles of the rate give the quantiles of the figures.
    Raises ValueError unless 0 <= c <= n and k >= 1, all whole numbers, and 0 < level < 1.
    """
    _check_attempts(n, c, k)
    if not is_number(level) or not 0.0 < float(level) < 1.0:
        raise ValueError(f"level is {level!r}, not a number between 0 and 1")
    if n == 0:
        return PassKPosterior(level=level, reason="no attempt was made")
    a, b = 1 + c, 1 + n - c
    low, high = (_quantile(a, b, tail) for tail in ((1.0 - level) / 2.0, (1.0 + level) / 2.0))
    return PassKPosterior(
        pass_at_k=1.0 - prod((b + i) / (a + b + i) for i in range(k)),
        pass_hat_k=prod((a + i) / (a + b + i) for i in range(k)),
        pass_at_k_interval=(1.0 - (1.0 - low) ** k, 1.0 - (1.0 - high) ** k),
        pass_hat_k_interval=(low**k, high**k),
        level=level,
        reason=f"{c} of {n} attempts succeeded: Beta({a}, {b})",
    )


def _quantile(a: int, b: int, share: float) -> float:
    """Return a quantile of Beta(a, b), by the normal approximation from `MANY` successes and failures on."""
    if min(a, b) < MANY:
        return float(betaincinv(a, b, share))
    # With so many, the approximation has more correct digits than SciPy's inverse.
    mean = a / (a + b)
    return float(mean + ndtri(share) * sqrt(mean * (1.0 - mean) / (a + b + 1)))


def unbiased_by_task(n: Floats, c: Floats, largest_k: int) -> tuple[Floats, Floats]:
    """Return unbiased pass@k and pass^k of tasks with `c` successes in `n` runs, for k = 1 to `largest_k`.

    Both have the shape (tasks, largest_k). NaN stands if a task has fewer than k runs.
    """
    return 1.0 - _all_drawn_from(n - c, n, largest_k), _all_drawn_from(c, n, largest_k)


def _all_drawn_from(chosen: Floats, n: Floats, largest_k: int) -> Floats:
    """Return C(chosen, k) / C(n, k) for k = 1 to `largest_k`, as the product of the chances of successive draws."""
    drawn = np.arange(largest_k)
    remaining = n[:, None] - drawn
    chances = np.maximum(chosen[:, None] - drawn, 0.0) / np.where(remaining > 0, remaining, np.nan)
    return np.cumprod(chances, axis=1, dtype=np.float64)


def _check_attempts(n: int, c: int, k: int) -> None:
    counts: tuple[tuple[str, object, int], ...] = (("n", n, 0), ("c", c, 0), ("k", k, 1))
    for name, value, least in counts:
        if type(value) is bool or not isinstance(value, Integral) or int(value) < least:
            raise ValueError(f"{name} is {value!r}, not a whole number of at least {least}")
    if c > n:
        raise ValueError(f"c is {c}, more successes than the n = {n} attempts")


def _is_defined(n: int, c: int, k: int, estimator: Estimator) -> bool:
    _check_attempts(n, c, k)
    if estimator not in get_args(Estimator):
        raise ValueError(f"estimator is {estimator!r}, not 'plugin' or 'unbiased'")
    return n >= (1 if estimator == "plugin" else k)
