"""Evidence that a rate has dropped. It may be looked at after every trace without more false alarms.

If the rate has not dropped, there is a rate that is no less than the one before and no more than the one after. For
each such rate the evidence is a likelihood ratio: of a higher rate before and a lower one after, against this rate in
both, averaged over a prior of drops. Under the hypothesis its mean is at most 1 at any time (a test martingale with a
mixture: Robbins 1970, "Statistical methods related to the law of the iterated logarithm", Annals of Mathematical
Statistics 41; of two streams: Turner, Ly and Grünwald 2024, "Generic E-variables for exact sequential k-sample tests
that allow for optional stopping", Journal of Statistical Planning and Inference 230). The evidence is the least over
all rates, so it holds whichever is the true one (Ramdas, Grünwald, Vovk and Shafer 2023, "Game-theoretic statistics and
safe anytime-valid inference", Statistical Science 38). So the chance that it ever exceeds 1 / level is at most the
level (Ville 1939).

If several rates are watched, each has a share of the level. The share of the evidence of one rate is at most the
weighted mean of all evidence. This mean is evidence again, however the rates depend on each other (Vovk and Wang 2021,
"E-values: Calibration, combination and applications", Annals of Statistics 49, section 3). So the chance that any of
them ever exceeds 1 / level is at most the level.
"""

from hashlib import blake2b
from math import exp, log
from typing import Final

import numpy as np
from numpy.typing import NDArray

LEVEL: Final = 0.05
"""The chance that the evidence ever reaches 1 / LEVEL although the rate has not dropped."""
_DROPS: Final = np.array([0.1, 0.2, 0.4, 0.7, 1.1, 1.8, 3.0, 6.0])
"""The prior of drops, as logarithms of the odds ratio: 0.9 to 0.8 is 0.81."""
_WEIGHTS: Final = np.array([1.0, 1.0, 2.0, 4.0, 4.0, 2.0, 1.0, 1.0])
"""The weights of the drops: most on those that deserve an alarm and can be found in some hundred trials."""
_PARTS_BEFORE: Final = np.array([0.05, 0.3, 0.5, 0.7])
"""The parts of a drop by which the rate before lies above the common rate.

The best part is the share of trials after among all. It is not known beforehand, so these are averaged.
"""
_UP: Final = np.outer(_DROPS, _PARTS_BEFORE).ravel()
_DOWN: Final = np.outer(_DROPS, 1.0 - _PARTS_BEFORE).ravel()
_LOG_PRIOR: Final = np.log(np.repeat(_WEIGHTS / _WEIGHTS.sum() / len(_PARTS_BEFORE), len(_PARTS_BEFORE)))
_FARTHEST: Final = 16.0
"""The largest log odds of a common rate. Beyond it, the evidence no longer changes."""


def regression_evidence(n_before: int, c_before: int, n_after: int, c_after: int, share: float = 1.0) -> float:
    """Return the strength of the evidence that the rate is lower after than before.

    `c_before` of `n_before` trials succeeded before, `c_after` of `n_after` after. Values of 1.0 and less are no
    evidence. If the rate has not dropped, the evidence ever reaches 1 / LEVEL = 20 with a chance of at most `share` x
    5 %. That holds however often it is looked at as trials come in. The trials before must be settled when the trials
    after begin. The shares of rates that are watched together must sum to at most 1, and be fixed in advance.
    Raises ValueError unless 0 <= c <= n for both, and 0 < share <= 1.
    """
    if not 0.0 < share <= 1.0:
        raise ValueError(f"share is {share!r}: give a part of the level, above 0 and at most 1")
    for n, c in ((n_before, c_before), (n_after, c_after)):
        if not 0 <= c <= n:
            raise ValueError(f"{c} of {n} successes: give 0 <= c <= n")
    counts = (n_before, c_before, n_after, c_after)
    middle, reach = 0.0, _FARTHEST
    # The least is searched on a grid of common rates, then on finer ones around the least so far.
    for _ in range(3):
        rates = np.linspace(middle - reach, middle + reach, 129)
        logarithms = _log_evidence(rates, *counts)
        least = int(np.argmin(logarithms))
        middle, reach = float(rates[least]), reach / 32
    return exp(min(float(logarithms[least]), _MOST) + log(share))


def _log_evidence(rates: NDArray[np.float64], n: int, c: int, m: int, d: int) -> NDArray[np.float64]:
    """Return the logarithm of the averaged likelihood ratio for each common rate, given as log odds."""
    at = rates[:, None]
    common = np.logaddexp(0.0, at)
    before = c * _UP - n * (np.logaddexp(0.0, at + _UP) - common)
    after = -d * _DOWN - m * (np.logaddexp(0.0, at - _DOWN) - common)
    ratios = _LOG_PRIOR + before + after
    most = ratios.max(axis=1)
    averaged: NDArray[np.float64] = most + np.log(np.exp(ratios - most[:, None]).sum(axis=1))
    return averaged


_MOST: Final = 100.0
"""The most that the logarithm of the evidence counts, so that its exponential stays in the range of a double."""


def as_trial(share: float, key: str) -> bool:
    """Return whether a session succeeds as one trial, with its share of passing traces as the chance.

    Traces of a session are alike, so a session counts once. The draw depends only on `key`, the session's id, so a
    session is the same trial at every look.
    """
    drawn = int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    return drawn < share * 2**64
