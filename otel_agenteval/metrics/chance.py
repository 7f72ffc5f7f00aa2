"""The number of low sessions that chance explains, given how many of the agent's past sessions were low.

The agent's own rate is known from its past sessions only. So the number of low sessions among new ones is
beta-binomial: binomial, with a rate that is as uncertain as the past is short (Gelman and others 2013, "Bayesian Data
Analysis", 3rd edition, sections 2.4 and 6.3). The prior is worth ten sessions, one of them low. For a new agent, the
limit rests on the prior alone. After some hundred sessions the prior no longer matters: then this is the exact
binomial limit of the agent's own rate.
"""

from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import betaln

LEVEL: Final = 1e-4
"""The chance, at one look, of more low sessions than the limit although nothing has changed."""
_PRIOR_LOW: Final = 1.0
_PRIOR_OTHER: Final = 9.0


@lru_cache(maxsize=4096)
def low_limit(sessions: int, past: int, past_low: int) -> int:
    """Return the largest number of `sessions`, from 0 to all, that may be low by chance.

    `past_low` of `past` earlier sessions were low.

    One more low session has a chance of at most `LEVEL`. Raises ValueError for a negative number, and if `past_low`
    exceeds `past`.
    """
    if sessions < 0 or not 0 <= past_low <= past:
        raise ValueError(
            f"{sessions} sessions after {past_low} low of {past}: give none below 0, and no more than past"
        )
    low, other = _PRIOR_LOW + past_low, _PRIOR_OTHER + past - past_low
    counts = np.arange(sessions + 1)
    others = sessions - counts
    # Logarithms, since binomial coefficients of many sessions leave the range of a double.
    choices = -np.log(sessions + 1) - betaln(others + 1, counts + 1)
    chances = np.exp(choices + betaln(counts + low, others + other) - betaln(low, other))
    at_least = np.cumsum(chances[::-1])[::-1]
    return int(np.count_nonzero(at_least > LEVEL)) - 1
