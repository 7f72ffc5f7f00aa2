"""The rate at which traces pass, from many judged ones and a few that people labelled, with an interval that is honest
about the judge's errors.

From `MIN_CORRECTED` labels on, the judge's rate is corrected by what the labels say of its errors: prediction-powered
inference with the weight that makes the interval shortest (PPI++; Angelopoulos, Duchi and Zrnic 2023, arXiv
2311.01453, section 6), in the form of Wilson's interval, which holds near 0 and 1 (Wilson 1927, "Probable inference,
the law of succession, and statistical inference"). From `MIN_LABELS` on, the labels alone are used, with Jeffreys'
interval (Brown, Cai and DasGupta 2001, "Interval estimation for a binomial proportion", section 4.1). Below that, the
judge's own rate is given without an interval.

Traces of a session are alike, so sessions are the unit of every variance (linearized ratios; Särndal, Swensson and
Wretman 1992, "Model Assisted Survey Sampling", section 5.5).

The judge's errors are told by its sensitivity and specificity, with the intervals of `cross_table`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
from scipy.special import betaincinv

from otel_agenteval.metrics.agreement import ENOUGH
from otel_agenteval.metrics.cross_table import CrossTable
from otel_agenteval.metrics.pass_k import Interval
from otel_agenteval.metrics.resampling import LEVEL
from otel_agenteval.metrics.runs import Floats
from otel_agenteval.metrics.wilson import wilson

RateEstimator: TypeAlias = Literal["ppi", "labels", "uncorrected"]

MIN_LABELS: Final = 20
"""Labels from which on they are trusted more than the judge."""
MIN_CORRECTED: Final = 50
"""Labels from which on they correct the judge."""
_MORE_ERRORS: Final = 1
"""Errors of the judge that are counted beside those seen: where few labels show none, it still makes some."""


@dataclass(frozen=True, slots=True)
class JudgedTrace:
    """A trace that the judge passed or failed, drawn at random by its session.

    `label` is what a person said of it, None where nobody was asked. `probability` is the chance, in (0, 1], with which
    it was drawn to be labelled. Raises ValueError for any other chance.
    """

    session_id: str
    passed: bool
    label: bool | None = None
    probability: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.probability <= 1.0:
            raise ValueError(f"probability is {self.probability!r}: give a chance above 0 and at most 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRate:
    """The rate of passing, in [0, 1]; None where nothing was judged.

    `interval` is of 95 %, None for the `uncorrected` estimator. `sensitivity` is the share of the traces that people
    pass which the judge passes, `specificity` of those that they fail which it fails, each with its interval of 95 %;
    None where fewer than `ENOUGH` labels pass, or fail. `reason` says why there is no interval.
    """

    estimate: float | None
    interval: Interval | None
    estimator: RateEstimator
    judged: int
    labelled: int
    sensitivity: float | None
    sensitivity_interval: Interval | None
    specificity: float | None
    specificity_interval: Interval | None
    reason: str | None = None


def pass_rate(traces: Iterable[JudgedTrace]) -> PassRate:
    """Estimate the rate at which traces such as these pass, as people would judge them."""
    table = _Table(list(traces))
    labelled = int(table.is_labelled.sum())
    estimator: RateEstimator = "uncorrected"
    estimate: float | None
    reason = interval = None
    if labelled >= MIN_CORRECTED:
        estimator = "ppi"
        estimate, interval = _corrected(table)
    elif labelled >= MIN_LABELS:
        estimator = "labels"
        estimate, interval = _of_labels(table)
    else:
        estimate = float(table.passed.mean()) if table.passed.size else None
        reason = f"{labelled} labels: {MIN_LABELS} are needed for an interval"
    told = table.judge_told_apart()
    sensitivity, sensitivity_interval = told.get("sensitivity", (None, None))
    specificity, specificity_interval = told.get("specificity", (None, None))
    return PassRate(
        estimate=estimate,
        interval=interval,
        estimator=estimator,
        judged=len(table.passed),
        labelled=labelled,
        sensitivity=sensitivity,
        sensitivity_interval=sensitivity_interval,
        specificity=specificity,
        specificity_interval=specificity_interval,
        reason=reason,
    )


class _Table:
    """The traces as columns. `weight` is 0 for those without a label, and `label` has no meaning there."""

    def __init__(self, traces: list[JudgedTrace]) -> None:
        self.passed = np.array([each.passed for each in traces], dtype=np.float64)
        self.is_labelled = np.array([each.label is not None for each in traces], dtype=bool)
        self.label = np.array([bool(each.label) for each in traces], dtype=np.float64)
        self.weight = self.is_labelled / np.array([each.probability for each in traces])
        _, self._session = np.unique([each.session_id for each in traces], return_inverse=True)

    @property
    def labelled_sessions(self) -> int:
        return len(np.unique(self._session[self.is_labelled]))

    @property
    def worth(self) -> float:
        """Labels, drawn with equal chances, that tell as much (Kish 1965, "Survey Sampling", section 11.7)."""
        return float(self.weight.sum() ** 2 / (self.weight @ self.weight))

    def labelled_mean(self, values: Floats) -> float:
        """Return the mean over all traces as the labelled ones tell it."""
        # As a part of both: a rate of 1 must not be short of it by a last digit.
        ones = self.weight @ values
        return float(ones / (ones + self.weight @ (1.0 - values)))

    def by_session(self, parts: Floats) -> Floats:
        """Return the sum of the traces' parts for each session."""
        return np.bincount(self._session, parts).astype(np.float64)

    def label_parts(self, values: Floats) -> Floats:
        """Return what each trace contributes to the error of `labelled_mean`."""
        parts: Floats = self.weight * (values - self.labelled_mean(values)) / self.weight.sum()
        return parts

    def judge_told_apart(self) -> dict[str, tuple[float, Interval]]:
        """Return the judge's sensitivity and specificity, each with its interval, where there are labels enough."""
        seen = self.is_labelled
        passes = self.label[seen] > 0
        labels = {"sensitivity": np.count_nonzero(passes), "specificity": np.count_nonzero(~passes)}
        if max(labels.values()) < ENOUGH:
            return {}
        _, session = np.unique(self._session[seen], return_inverse=True)
        found = CrossTable(self.passed[seen] > 0, passes, session, self.weight[seen]).figures()
        return {name: found[name] for name, count in labels.items() if count >= ENOUGH}


def _corrected(table: _Table) -> tuple[float, Interval]:
    """Return the judge's rate, corrected by the labels, with Wilson's interval by Student's t over sessions."""
    estimate, _, variance = _power_tuned(table)
    estimate = min(1.0, max(0.0, estimate))
    labels, sessions = np.count_nonzero(table.is_labelled), max(table.labelled_sessions, 2)
    variance = variance * sessions / (sessions - 1) + _MORE_ERRORS / labels / table.worth
    # As many labels as would have this variance alone; at an edge of the unit interval that takes a rate off it.
    off_edge = (estimate * labels + 1) / (labels + 2)
    worth = off_edge * (1 - off_edge) / variance
    return estimate, wilson(estimate, float(worth), units=sessions)


def _power_tuned(table: _Table) -> tuple[float, float, float]:
    """Return the corrected rate, how much of the judge it takes (0: the labels alone, 1: all), and its variance."""
    judged = table.passed.mean()
    of_judge = table.by_session((table.passed - judged) / len(table.passed) - table.label_parts(table.passed))
    of_labels = table.by_session(table.label_parts(table.label))
    spread = of_judge @ of_judge
    trust = float(np.clip(-(of_judge @ of_labels) / spread, 0.0, 1.0)) if spread else 0.0
    estimate = table.labelled_mean(table.label) + trust * (judged - table.labelled_mean(table.passed))
    error = trust * of_judge + of_labels
    return float(estimate), trust, float(error @ error)


def _of_labels(table: _Table) -> tuple[float, Interval]:
    """Return the labels' own rate with Jeffreys' interval, for as many labels as they are worth: fewer where those of a
    session are alike, or were drawn with unequal chances."""
    rate = table.labelled_mean(table.label)
    error = table.by_session(table.label_parts(table.label))
    sessions = table.labelled_sessions
    variance = float(error @ error) * sessions / max(sessions - 1, 1)
    # Where all say the same, nothing tells how alike the labels of a session are: then they count as one.
    return rate, jeffreys(rate, min(table.worth, rate * (1 - rate) / variance if variance else sessions))


def jeffreys(rate: float, worth: float) -> Interval:
    """Return Jeffreys' interval of `LEVEL` of a rate that tells as much as so many (`worth`) independent trials."""
    tails = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    low, high = (float(betaincinv(worth * rate + 0.5, worth * (1 - rate) + 0.5, tail)) for tail in tails)
    return 0.0 if rate == 0.0 else low, 1.0 if rate == 1.0 else high
