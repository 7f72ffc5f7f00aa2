"""Evidence that a rate has dropped, which may be looked at after every trace without more false alarms.

The rate before is known from `before` trials, up to chance: it is at least Clopper and Pearson's lower bound, but for
`_BOUND_LEVEL` (Clopper and Pearson 1934, Biometrika 26). That the rate after is at least this bound is tested by
betting against it: the likelihood ratio of lower rates, averaged over a prior of them, has a mean of at most 1 at any
time if the rate has not dropped (a test martingale; Ville 1939; Ramdas, Grünwald, Vovk and Shafer 2023, "Game-theoretic
statistics and safe anytime-valid inference", Statistical Science 38, section 2). So it ever exceeds 1 / level with a
chance of at most that level.

Where several rates are watched, each has a share of the level, of the bound's part of it too. Its share of the evidence
is at most the weighted mean of all evidence, which is evidence again, however the rates hang together (Vovk and Wang
2021, "E-values: Calibration, combination and applications", Annals of Statistics 49, section 3). So any of them ever
exceeds 1 / level with a chance of at most that level.
"""

from hashlib import blake2b
from math import exp, log, log1p
from typing import Final

from scipy.special import betainc, betaincinv, betaln

LEVEL: Final = 0.05
"""Chance that the evidence ever reaches 1 / LEVEL where the rate has not dropped."""
_BOUND_LEVEL: Final = 0.01
"""Share of LEVEL that is spent on the bound of the rate before."""
_PRIOR: Final = 10.0
"""Trials that the prior of lower rates is worth: it lies close below the bound, where drops worth an alarm are."""


def regression_evidence(n_before: int, c_before: int, n_after: int, c_after: int, share: float = 1.0) -> float:
    """Return how strongly `c_after` of `n_after` successes speak for a lower rate than `c_before` of `n_before` did.

    1.0 and less is no evidence; 1 / LEVEL = 20 is reached with a chance of at most `share` x 5 % where the rate has not
    dropped, however often this is looked at as trials come in. The trials before must be settled when those after
    begin. Rates that are watched together have shares that sum up to 1 at most, fixed before.
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
    # What is spent on the bound is taken from the evidence, so that 1 / LEVEL is the limit for both together.
    return exp(min(float(logarithm), _MOST)) * share * (LEVEL - _BOUND_LEVEL) / LEVEL


_TINY: Final = 1e-300
_MOST: Final = 100.0


def as_trial(share: float, key: str) -> bool:
    """Return a session's share of passing traces as one trial, which succeeds with that chance.

    Traces of a session are alike, so a session counts once. The draw depends on `key`, the session's id, alone: the
    same session is the same trial at every look.
    """
    drawn = int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    return drawn < share * 2**64
