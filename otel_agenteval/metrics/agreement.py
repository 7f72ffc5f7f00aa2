"""Agreement of an evaluator's scores with the labels that people gave the same traces.

Pass and fail are compared by sensitivity, specificity and Cohen's kappa, with the intervals of `cross_table` (Cohen
1960, "A coefficient of agreement for nominal scales"). Values are compared by the correlations of Pearson and Spearman
(ties have their mean rank) and by the mean absolute difference. Each of these three has a percentile bootstrap interval
over the sessions. With few sessions, the interval is the whole range of the figure.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from otel_agenteval.metrics.cross_table import TABLE_METRICS, CrossTable
from otel_agenteval.metrics.resampling import interval, once, ratio, resamples
from otel_agenteval.metrics.result import unit_interval
from otel_agenteval.metrics.runs import Floats

AGREEMENT_METRICS: Final = (*TABLE_METRICS, "pearson", "spearman", "mean_absolute_difference")
ENOUGH: Final = 10
"""The smallest number of labels that figures are computed from."""


@dataclass(frozen=True, slots=True)
class LabelledScore:
    """A score in [0, 1] and the label in [0, 1] that people gave the same trace.

    Score and label pass from `threshold` on. If it is None, they neither pass nor fail. `scored_at` orders scores in
    time, in any unit. Traces of one session are taken to be alike. Raises ValueError for a value outside [0, 1].
    """

    score: float
    label: float
    threshold: float | None
    scored_at: int
    session_id: str

    def __post_init__(self) -> None:
        unit_interval(self.score, "score")
        unit_interval(self.label, "label")
        if self.threshold is not None:
            unit_interval(self.threshold, "threshold")


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """The older or the newer half of the labelled scores: number, first and last time, mean score and mean label."""

    n: int
    first: int
    last: int
    mean_score: float
    mean_label: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The figures of `AGREEMENT_METRICS` over `n` labelled scores.

    The values of `metrics` are in [-1, 1], the mean absolute difference in [0, 1]. None means undefined, and `reasons`
    says why. `intervals` has the 95 % interval of each defined figure. `halves` shows drift: if the mean score moves
    and the mean label does not, the evaluator has changed, not the agent. It is None with fewer than two scores.
    """

    n: int
    metrics: dict[str, float | None]
    intervals: dict[str, tuple[float, float]]
    reasons: dict[str, str]
    halves: tuple[Half, Half] | None


def agreement(pairs: Iterable[LabelledScore]) -> Agreement:
    """Compare scores with labels, whatever their order.

    Every figure is undefined below `ENOUGH` labels. Sensitivity, specificity and kappa are undefined if a threshold
    is missing. Kappa and specificity are undefined if all labels pass, kappa and sensitivity if all labels fail:
    such labels do not show whether the evaluator tells the two apart. A correlation is undefined if all scores or
    all labels are equal.
    """
    ordered = sorted(pairs, key=lambda pair: (pair.scored_at, pair.session_id, pair.score, pair.label))
    reasons = _reasons(ordered)
    metrics: dict[str, float | None] = dict.fromkeys(AGREEMENT_METRICS)
    intervals = {}
    for name, (value, bounds) in ({} if len(ordered) < ENOUGH else _figures(ordered)).items():
        if name not in reasons:
            metrics[name] = value
            intervals[name] = bounds
    return Agreement(n=len(ordered), metrics=metrics, intervals=intervals, reasons=reasons, halves=_halves(ordered))


def _figures(pairs: Sequence[LabelledScore]) -> dict[str, tuple[float, tuple[float, float]]]:
    """Return the figures with their intervals. Figures of passing have no meaning if a threshold is missing."""
    values = _Values(pairs)
    _, session = np.unique([pair.session_id for pair in pairs], return_inverse=True)
    figures = CrossTable(values.scores_pass, values.labels_pass, session).figures()
    sessions = int(session.max()) + 1
    # A session is drawn with all of its traces.
    blocks = [values.at(weights[:, session]) for weights in resamples(sessions, len(pairs))]
    for name, value in values.at(once(len(pairs))).items():
        point = float(value[0])
        samples = np.concatenate([block[name] for block in blocks])
        bounds = _RANGES[name] if sessions < _FEW else interval(point, samples, sessions)
        if bounds is not None:
            figures[name] = point, bounds
    return figures


_FEW: Final = 8
"""The smallest number of sessions whose resamples show how far a figure may be off.

With fewer, the interval is the whole range of the figure.
"""
_RANGES: Final = {"pearson": (-1.0, 1.0), "spearman": (-1.0, 1.0), "mean_absolute_difference": (0.0, 1.0)}


class _Values:
    """Scores and labels as columns."""

    def __init__(self, pairs: Sequence[LabelledScore]) -> None:
        self._score = np.array([pair.score for pair in pairs])
        self._label = np.array([pair.label for pair in pairs])
        # Comparisons with NaN are False. `_reasons` rules out the figures of passing if a threshold is missing.
        threshold = np.array([math.nan if pair.threshold is None else pair.threshold for pair in pairs])
        self.scores_pass = self._score >= threshold
        self.labels_pass = self._label >= threshold

    def at(self, weights: Floats) -> dict[str, Floats]:
        """Return the figures for `weights` of the pairs, of shape (samples, pairs). NaN means undefined."""
        broadcast = np.ones_like(weights)
        return {
            "pearson": _correlation(weights, self._score * broadcast, self._label * broadcast),
            "spearman": _correlation(weights, _ranks(weights, self._score), _ranks(weights, self._label)),
            "mean_absolute_difference": ratio(weights @ np.abs(self._score - self._label), weights.sum(axis=1)),
        }


def _correlation(weights: Floats, x: Floats, y: Floats) -> Floats:
    """Return Pearson's weighted correlation of each row of `x` with the same row of `y`. NaN if one is constant."""
    n = weights.sum(axis=1, keepdims=True)
    dx = x - (weights * x).sum(axis=1, keepdims=True) / n
    dy = y - (weights * y).sum(axis=1, keepdims=True) / n
    spread_x, spread_y = (weights * dx * dx).sum(axis=1), (weights * dy * dy).sum(axis=1)
    constant = (spread_x < _ROUNDING) | (spread_y < _ROUNDING)
    product = np.where(constant, 0.0, np.sqrt(spread_x * spread_y))
    return np.clip(ratio((weights * dx * dy).sum(axis=1), product), -1.0, 1.0)


_ROUNDING: Final = 1e-18
"""The limit for sums of squares: below it, the values in [0, 1] are equal and the rest is rounding."""


def _ranks(weights: Floats, values: Floats) -> Floats:
    """Return the rank of each value in each sample. Equal values have the mean of their places."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.diff(values[order], prepend=np.nan) != 0)
    sizes = np.add.reduceat(weights[:, order], starts, axis=1)
    # The places of a group end at the cumulative sum. Their mean is half the other members before it.
    by_group = np.cumsum(sizes, axis=1) - (sizes - 1) / 2
    group = np.empty(len(values), dtype=np.intp)
    group[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values)))
    ranks: Floats = by_group[:, group]
    return ranks


def _reasons(pairs: Sequence[LabelledScore]) -> dict[str, str]:
    if not pairs:
        return dict.fromkeys(AGREEMENT_METRICS, "no scored trace has a label")
    if len(pairs) < ENOUGH:
        return dict.fromkeys(AGREEMENT_METRICS, f"not enough labels: {len(pairs)} of {ENOUGH}")
    reasons: dict[str, str] = {}
    verdicts = {pair.label >= (pair.threshold or 0.0) for pair in pairs}
    if any(pair.threshold is None for pair in pairs):
        reasons |= dict.fromkeys(TABLE_METRICS, "a score without a threshold neither passes nor fails")
    elif verdicts == {True}:
        reasons |= dict.fromkeys(("kappa", "specificity"), "every labelled trace passes: label some that do not")
    elif verdicts == {False}:
        reasons |= dict.fromkeys(("kappa", "sensitivity"), "every labelled trace fails: label some that do not")
    for what in ("label", "score"):
        if len({getattr(pair, what) for pair in pairs}) == 1:
            reasons |= dict.fromkeys(("pearson", "spearman"), f"every {what} is the same")
    return reasons


def _halves(pairs: Sequence[LabelledScore]) -> tuple[Half, Half] | None:
    """Return the older and the newer half. If the number is odd, the newer half has one more."""
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
