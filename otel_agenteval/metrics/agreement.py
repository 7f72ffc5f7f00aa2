"""Agreement of an evaluator's scores with what people say of the same traces.

Pass and fail are compared by Cohen's kappa (Cohen 1960, "A coefficient of agreement for nominal scales"), values by
the correlations of Pearson and Spearman (ties have their mean rank) and by the mean absolute difference. Each figure
has a percentile bootstrap interval over the traces, as `resampling` draws them.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from otel_agenteval.metrics.numbers import unit_interval
from otel_agenteval.metrics.resampling import interval, once, ratio, resamples
from otel_agenteval.metrics.runs import Floats

AGREEMENT_METRICS: Final = ("kappa", "pearson", "spearman", "mean_absolute_difference")


@dataclass(frozen=True, slots=True)
class LabelledScore:
    """A score in [0, 1] and the label in [0, 1] that people gave the same trace.

    Both pass at `threshold`; None: they neither pass nor fail. `scored_at` orders scores in time, in any unit.
    Raises ValueError for anything else.
    """

    score: float
    label: float
    threshold: float | None
    scored_at: int

    def __post_init__(self) -> None:
        unit_interval(self.score, "score")
        unit_interval(self.label, "label")
        if self.threshold is not None:
            unit_interval(self.threshold, "threshold")


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """The older or the newer half of the labelled scores: how many, their times, and the means of both sides."""

    n: int
    first: int
    last: int
    mean_score: float
    mean_label: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The figures of `AGREEMENT_METRICS` over `n` labelled scores.

    `metrics` is in [-1, 1], but for the difference in [0, 1]; None: undefined, and `reasons` says why. `intervals`
    are of 95 %, for those that are defined. `halves` are the older and the newer one, for drift: where the means of
    scores move and those of labels do not, the evaluator has changed and not the agent. None with fewer than two.
    """

    n: int
    metrics: dict[str, float | None]
    intervals: dict[str, tuple[float, float]]
    reasons: dict[str, str]
    halves: tuple[Half, Half] | None


def agreement(pairs: Iterable[LabelledScore]) -> Agreement:
    """Compare scores with labels, whatever their order.

    Kappa is undefined where a threshold is missing, or where the labels all pass or all fail: whether the evaluator
    tells the two apart cannot be seen then. A correlation is undefined where the scores or the labels are all equal.
    """
    ordered = sorted(pairs, key=lambda pair: (pair.scored_at, pair.score, pair.label))
    reasons = _reasons(ordered)
    metrics: dict[str, float | None] = dict.fromkeys(AGREEMENT_METRICS)
    intervals = {}
    if ordered:
        figures = _Figures(ordered)
        blocks = [figures.at(weights) for weights in resamples(len(ordered), len(ordered))]
        for name, value in figures.at(once(len(ordered))).items():
            if name in reasons:
                continue
            metrics[name] = point = float(value[0])
            samples = np.concatenate([block[name] for block in blocks])
            if (found := interval(point, samples)) is not None:
                intervals[name] = found
    return Agreement(n=len(ordered), metrics=metrics, intervals=intervals, reasons=reasons, halves=_halves(ordered))


class _Figures:
    """Each figure for any weights of the pairs, of shape (samples, pairs); NaN where undefined."""

    def __init__(self, pairs: Sequence[LabelledScore]) -> None:
        self._score = np.array([pair.score for pair in pairs])
        self._label = np.array([pair.label for pair in pairs])
        threshold = np.array([math.nan if pair.threshold is None else pair.threshold for pair in pairs])
        self._scores_pass = (self._score >= threshold).astype(np.float64)
        self._labels_pass = (self._label >= threshold).astype(np.float64)

    def at(self, weights: Floats) -> dict[str, Floats]:
        broadcast = np.ones_like(weights)
        return {
            "kappa": self._kappa(weights),
            "pearson": _correlation(weights, self._score * broadcast, self._label * broadcast),
            "spearman": _correlation(weights, _ranks(weights, self._score), _ranks(weights, self._label)),
            "mean_absolute_difference": ratio(weights @ np.abs(self._score - self._label), weights.sum(axis=1)),
        }

    def _kappa(self, weights: Floats) -> Floats:
        n = weights.sum(axis=1)
        agreed = weights @ (self._scores_pass == self._labels_pass).astype(np.float64) / n
        scores, labels = weights @ self._scores_pass / n, weights @ self._labels_pass / n
        chance = scores * labels + (1 - scores) * (1 - labels)
        one_class = (labels == 0) | (labels == 1)
        return np.where(one_class, np.nan, ratio(agreed - chance, 1 - chance))


def _correlation(weights: Floats, x: Floats, y: Floats) -> Floats:
    """Return Pearson's correlation of each row of `x` with that of `y`, weighted. NaN where one of them is constant."""
    n = weights.sum(axis=1, keepdims=True)
    dx = x - (weights * x).sum(axis=1, keepdims=True) / n
    dy = y - (weights * y).sum(axis=1, keepdims=True) / n
    spread_x, spread_y = (weights * dx * dx).sum(axis=1), (weights * dy * dy).sum(axis=1)
    constant = (spread_x < _ROUNDING) | (spread_y < _ROUNDING)
    product = np.where(constant, 0.0, np.sqrt(spread_x * spread_y))
    return np.clip(ratio((weights * dx * dy).sum(axis=1), product), -1.0, 1.0)


_ROUNDING: Final = 1e-18
"""A sum of squares below this is what rounding leaves of equal values in [0, 1]."""


def _ranks(weights: Floats, values: Floats) -> Floats:
    """Return the rank of each value in each sample; equal values have the mean of their places."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.diff(values[order], prepend=np.nan) != 0)
    sizes = np.add.reduceat(weights[:, order], starts, axis=1)
    by_group = np.cumsum(sizes, axis=1) - (sizes - 1) / 2
    group = np.empty(len(values), dtype=np.intp)
    group[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values)))
    ranks: Floats = by_group[:, group]
    return ranks


def _reasons(pairs: Sequence[LabelledScore]) -> dict[str, str]:
    if not pairs:
        return dict.fromkeys(AGREEMENT_METRICS, "no scored trace has a label")
    reasons = {}
    if any(pair.threshold is None for pair in pairs):
        reasons["kappa"] = "a score without a threshold neither passes nor fails"
    elif len({pair.label >= (pair.threshold or 0.0) for pair in pairs}) == 1:
        which = "passes" if pairs[0].label >= (pairs[0].threshold or 0.0) else "fails"
        reasons["kappa"] = f"every labelled trace {which}: label some that do not"
    for what in ("label", "score"):
        if len({getattr(pair, what) for pair in pairs}) == 1:
            reasons |= dict.fromkeys(("pearson", "spearman"), f"every {what} is the same")
    return reasons


def _halves(pairs: Sequence[LabelledScore]) -> tuple[Half, Half] | None:
    """Return the older and the newer half. Of an odd number, the newer half has one more."""
    if len(pairs) < 2:
        return None
    middle = len(pairs) // 2
    return _half(pairs[:middle]), _half(pairs[middle:])


def _half(pairs: Sequence[LabelledScore]) -> Half:
    return Half(
        n=len(pairs),
        first=pairs[0].scored_at,
        last=pairs[-1].scored_at,
        mean_score=math.fsum(pair.score for pair in pairs) / len(pairs),
        mean_label=math.fsum(pair.label for pair in pairs) / len(pairs),
    )
