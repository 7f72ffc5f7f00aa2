"""The number of low sessions that chance explains, given how many of the agent's past sessions were low.

The agent's own rate is known from its past sessions only, so the number of low ones among new sessions is
beta-binomial: binomial, with a rate that is as uncertain as the past is short (Gelman and others 2013, "Bayesian Data
Analysis", 3rd edition, sections 2.4 and 6.3). The prior is worth ten sessions, one of them low. It is all there is for
a new agent, and no longer matters after some hundred sessions: then this is the exact binomial limit of its own rate.
"""

from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import betaln

LEVEL: Final = 1e-4
"""Chance, at one look, of more low sessions than the limit where nothing has changed."""
_PRIOR_LOW: Final = 1.0
_PRIOR_OTHER: Final = 9.0


@lru_cache(maxsize=4096)
def low_limit(sessions: int, past: int, past_low: int) -> int:
    """Return the most of `sessions` that may be low by chance, from 0 to `sessions`, where `past_low` of `past` were.

    One more has a chance of at most `LEVEL`. Raises ValueError for a negative number, or more low than past sessions.
    """
    if sessions < 0 or not 0 <= past_low <= past:
        raise ValueError(
            f"{sessions} sessions after {past_low} low of {past}: give none below 0, and no more than past"
        )
    low, other = _PRIOR_LOW + past_low, _PRIOR_OTHER + past - past_low
    counts = np.arange(sessions + 1)
    others = sessions - counts
    choices = -np.log(sessions + 1) - betaln(others + 1, counts + 1)
    chances = np.exp(choices + betaln(counts + low, others + other) - betaln(low, other))
    at_least = np.cumsum(chances[::-1])[::-1]
    return int(np.count_nonzero(at_least > LEVEL)) - 1
