"""Evidence that a rate has risen above a limit at some unknown moment. It may be looked at after every trial.

Each moment at which the rise may have begun has a weight, and each trial after it multiplies that weight by a
likelihood ratio: of a higher rate against the limit. While the rate is at most the limit, the mean of this ratio is at
most 1, whatever came before. So the sum of all weights is, on average, at most the weight that was given out (an
e-detector of the Shiryaev-Roberts kind: Shin, Ramdas and Rinaldo 2022, "E-detectors: a nonparametric framework for
sequential change detection", arXiv:2203.03532). By Ville's inequality for its surplus, the chance that it reaches a
threshold while a total weight of 1 is given out is at most 1 / threshold. If the weight is time in months, this is the
number of false alarms in a month, however many trials a month has.

The higher rate is unknown, so several are tried, and the evidence is the mean over them.
"""

from collections.abc import Sequence
from typing import Final

RISES: Final = (0.05, 0.15, 0.4, 0.8)
"""The higher rates that are tried, as parts of the way from the limit to 1."""
NO_EVIDENCE: Final = (0.0,) * len(RISES)
"""The parts of the evidence before the first trial."""
MOST_EVIDENCE: Final = 1e12
"""A bound of each part, so that a long rise does not take as long to be forgotten."""


def rise_evidence(parts: Sequence[float], *, hit: bool, limit: float, weight: float) -> tuple[float, ...]:
    """Return the parts of the evidence after one more trial. Their mean is the evidence.

    `parts` are those before it. `limit` is the rate that is allowed, `weight` that of the time since the trial before.
    Raises ValueError unless 0 < limit < 1 and weight >= 0.
    """
    if not 0.0 < limit < 1.0:
        raise ValueError(f"limit is {limit!r}: give a rate above 0 and below 1")
    if weight < 0.0:
        raise ValueError(f"weight is {weight!r}: give at least 0")
    raised = (limit + (1.0 - limit) * rise for rise in RISES)
    ratios = (rate / limit if hit else (1.0 - rate) / (1.0 - limit) for rate in raised)
    return tuple(min((part + weight) * ratio, MOST_EVIDENCE) for part, ratio in zip(parts, ratios, strict=True))
