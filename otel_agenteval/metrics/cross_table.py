"""Table of an evaluator's verdicts against people's: sensitivity, specificity and kappa, with posterior intervals.

Intervals are quantiles of seeded draws from the posterior of the table's four shares. For sensitivity and specificity
the prior is Dirichlet(1/2, ...), which is Jeffreys' prior of each. For kappa, which takes all four shares, it is
Dirichlet(1/4, ...) (Berger, Bernardo and Sun 2015, "Overall Objective Priors"). With 1/2, the kappa of a good judge was
missed in 10 % of the draws. A bootstrap has nothing to draw from where few labels show no error: with 10 labels, its
intervals held kappa in 31 to 77 % of the cases.

Traces of a session are alike, so the counts are divided by their design effect. That is the variance of the shares with
sessions as the unit / the variance of as many independent traces (Kish 1965, "Survey Sampling", section 8.2). If pairs
were drawn with unequal chances, those with one verdict of the evaluator count as the smaller number of equally likely
pairs that would tell as much (effective sample size; Kish 1965, section 11.7). Each draw from the posterior is then
weighted by the number that these pairs stand for.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from otel_agenteval.metrics.resampling import LEVEL, SEED, interval, ratio
from otel_agenteval.metrics.runs import Floats

_DRAWS: Final = 2000
_PRIORS: Final = {"kappa": 0.25, "sensitivity": 0.5, "specificity": 0.5}
TABLE_METRICS: Final = tuple(_PRIORS)


class CrossTable:
    """Pairs of an evaluator's verdict and a person's verdict, each in a session.

    All arrays have one entry for each pair, and there is at least one pair. `weight` is the number of traces that each
    pair stands for. Without it, all pairs stand for the same number.
    """

    def __init__(
        self,
        scores_pass: NDArray[np.bool_],
        labels_pass: NDArray[np.bool_],
        session: NDArray[np.intp],
        weight: Floats | None = None,
    ) -> None:
        both = scores_pass & labels_pass, scores_pass & ~labels_pass, ~scores_pass & labels_pass
        self._cells = np.stack([*both, ~scores_pass & ~labels_pass], axis=1).astype(np.float64)
        self._session = session
        self._weight = np.ones(len(session)) if weight is None else weight / weight.mean()

    def figures(self) -> dict[str, tuple[float, tuple[float, float]]]:
        """Return each figure of `TABLE_METRICS` that is defined, with its 95 % interval."""
        sums, stands_for = self._weight @ self._cells, self._stands_for()
        worth = sums / stands_for / self._design_effect()
        found = {}
        for name, value in _figures(sums[None] / sums.sum()).items():
            point = float(value[0])
            posterior = np.random.default_rng(SEED).dirichlet(worth + _PRIORS[name], _DRAWS) * stands_for
            shares = posterior / posterior.sum(axis=1, keepdims=True)
            if not np.isnan(point) and (bounds := interval(point, _figures(shares)[name])) is not None:
                found[name] = point, bounds
        return found

    def _stands_for(self) -> Floats:
        """Return the number that a pair of each cell stands for. Cells with one verdict of the evaluator share it."""
        by_verdict = self._cells.reshape(-1, 2, 2).sum(axis=2)
        total, squares = self._weight @ by_verdict, self._weight**2 @ by_verdict
        return np.repeat(np.where(total > 0, squares / np.where(total > 0, total, 1.0), 1.0), 2)

    def _design_effect(self) -> float:
        n, shares = len(self._cells), self._cells.mean(axis=0)
        sessions = int(self._session.max()) + 1
        independent = float(shares @ (1 - shares)) * n
        if not independent or sessions == 1:
            # Nothing shows how alike the traces of a session are, so each session counts as one.
            return n / sessions
        sums = np.stack([np.bincount(self._session, column) for column in (self._cells - shares).T])
        effect = float((sums**2).sum()) * sessions / (sessions - 1) / independent
        # Few sessions estimate the effect badly, so Student's t replaces the normal quantile.
        wider = stdtrit(sessions - 1, (1 + LEVEL) / 2) / ndtri((1 + LEVEL) / 2)
        return max(1.0, effect) * float(wider) ** 2


def _figures(shares: Floats) -> dict[str, Floats]:
    """Return each figure for rows of the four shares. NaN means undefined."""
    both, score_only, label_only, neither = shares.T
    scores, labels = both + score_only, both + label_only
    chance = scores * labels + (1 - scores) * (1 - labels)
    return {
        "kappa": np.where((labels == 0) | (labels == 1), np.nan, ratio(both + neither - chance, 1 - chance)),
        "sensitivity": ratio(both, labels),
        "specificity": ratio(neither, score_only + neither),
    }
