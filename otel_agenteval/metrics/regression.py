"""Evidence that a rate has dropped. It may be looked at after every trace without more false alarms.

The trials before show the rate up to chance. With a chance of at least 1 - `_BOUND_LEVEL`, the rate is no less than
Clopper and Pearson's lower bound (Clopper and Pearson 1934, Biometrika 26). A test then bets against the hypothesis
that the rate after is no less than this bound. Its evidence is the likelihood ratio of lower rates, averaged over a
prior of them. If the rate has not dropped, the evidence has a mean of at most 1 at any time (a test martingale; Ville
1939; Ramdas, Grünwald, Vovk and Shafer 2023, "Game-theoretic statistics and safe anytime-valid inference", Statistical
Science 38, section 2). So the chance that it ever exceeds 1 / level is at most the level.

If several rates are watched, each has a share of the level, and the same share of the bound's part. The share of the
evidence of one rate is at most the weighted mean of all evidence. This mean is evidence again, however the rates depend
on each other (Vovk and Wang 2021, "E-values: Calibration, combination and applications", Annals of Statistics 49,
section 3). So the chance that any of them ever exceeds 1 / level is at most the level.
"""

from hashlib import blake2b
from math import exp, log, log1p
from typing import Final

from scipy.special import betainc, betaincinv, betaln

LEVEL: Final = 0.05
"""The chance that the evidence ever reaches 1 / LEVEL although the rate has not dropped."""
_BOUND_LEVEL: Final = 0.01
"""The part of LEVEL that is spent on the bound of the rate before."""
_PRIOR: Final = 10.0
"""The number of trials that the prior of lower rates is worth.

So the prior lies close below the bound, where the drops are that deserve an alarm.
"""


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
    bound = float(betaincinv(c_before, n_before - c_before + 1, share * _BOUND_LEVEL)) if c_before else 0.0
    if bound == 0.0 or n_after == 0:
        return share
    # The prior is Beta(a, b), with its mean at the bound, cut off above the bound. So the averaged likelihood ratio has
    # a closed form. Each cut Beta integral is the whole integral (betaln) x the share of it below the bound (betainc).
    a, b = _PRIOR * bound, _PRIOR * (1 - bound)
    failed = n_after - c_after
    logarithm = (
        betaln(a + c_after, b + failed)
        - betaln(a, b)
        + log(max(betainc(a + c_after, b + failed, bound), _TINY))
        - log(betainc(a, b, bound))
        - c_after * log(bound)
        - failed * log1p(-bound)
    )
    # The evidence pays for the part of LEVEL spent on the bound, so that 1 / LEVEL is the limit for both together.
    return exp(min(float(logarithm), _MOST)) * share * (LEVEL - _BOUND_LEVEL) / LEVEL


_TINY: Final = 1e-300
"""Stands for 0, which has no logarithm."""
_MOST: Final = 100.0
"""The most that the logarithm of the evidence counts, so that its exponential stays in the range of a double."""


def as_trial(share: float, key: str) -> bool:
    """Return whether a session succeeds as one trial, with its share of passing traces as the chance.

    Traces of a session are alike, so a session counts once. The draw depends only on `key`, the session's id, so a
    session is the same trial at every look.
    """
    drawn = int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    return drawn < share * 2**64
