"""The rate at which traces pass, from many judged traces and a few labels. Its interval allows for judge errors.

The number of labels decides the estimator:

- From `MIN_CORRECTED` labels on, the labels correct the judge's rate. This is prediction-powered inference with the
  weight that makes the interval shortest (PPI++; Angelopoulos, Duchi and Zrnic 2023, arXiv 2311.01453, section 6). The
  interval has Wilson's form, which also holds near 0 and 1 (Wilson 1927, "Probable inference, the law of succession,
  and statistical inference").
- From `MIN_LABELS` on, the rate is that of the labels, drawn from two strata: what the judge passes and what it fails.
  The better the judge, the more alike are the labels of a stratum, and the narrower is the interval (post-stratified
  mean; Cochran 1977, "Sampling Techniques", section 5A.9). It is Jeffreys' (Brown, Cai and DasGupta 2001, "Interval
  estimation for a binomial proportion", section 4.1).
- Below `MIN_LABELS`, the judge's own rate is given without an interval.

Beside each interval is a confidence sequence: it holds at all looks together, while labels and traces come in.

Traces of a session are alike, so sessions are the unit of every variance (linearized ratios; Särndal, Swensson and
Wretman 1992, "Model Assisted Survey Sampling", section 5.5). The judge's sensitivity and specificity describe its
errors. Their intervals are those of `cross_table`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np
from scipy.special import betaincinv

from otel_agenteval.metrics.agreement import ENOUGH
from otel_agenteval.metrics.confidence_sequence import confidence_sequence
from otel_agenteval.metrics.cross_table import CrossTable
from otel_agenteval.metrics.pass_k import Interval
from otel_agenteval.metrics.resampling import LEVEL
from otel_agenteval.metrics.runs import Floats
from otel_agenteval.metrics.wilson import wilson

RateEstimator: TypeAlias = Literal["ppi", "labels", "uncorrected"]

MIN_LABELS: Final = 20
"""The number of labels from which on the labels are trusted more than the judge."""
MIN_CORRECTED: Final = 50
"""The number of labels from which on the labels correct the judge."""
_MORE_ERRORS: Final = 1
"""Errors of the judge that are added to the errors seen. A judge errs even if a few labels show no error."""

_HELPS: Final = 0.99
"""Guesses are used if the interval is at most so wide with them. A smaller gain is chance."""


@dataclass(frozen=True, slots=True)
class JudgedTrace:
    """A trace that the judge passed or failed, drawn at random by its session.

    `passed` is True or False, or a chance in [0, 1] that it passes. `label` is a person's verdict, None if nobody was
    asked. `probability` is the chance, in (0, 1], that the trace is
    drawn to be labelled. Raises ValueError for any other chance.
    """

    session_id: str
    passed: float
    label: bool | None = None
    probability: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.probability <= 1.0:
            raise ValueError(f"probability is {self.probability!r}: give a chance above 0 and at most 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRate:
    """The rate of passing, with the judge's errors.

    `estimate` is in [0, 1], None if nothing was judged. `interval` is its 95 % interval, for one look. `sequence` is
    the interval that holds at 95 % however often one looks, and is never narrower. Both are None for the `uncorrected`
    estimator, and `reason` says why.

    `sensitivity` is the share that the judge passes, of the traces that people pass. It is None if fewer than
    `ENOUGH` labels pass. `specificity` is the share that the judge fails, of the traces that people fail. It is None
    if fewer than `ENOUGH` labels fail. Both have a 95 % interval.
    """

    estimate: float | None
    interval: Interval | None
    sequence: Interval | None
    estimator: RateEstimator
    judged: int
    labelled: int
    sensitivity: float | None
    sensitivity_interval: Interval | None
    specificity: float | None
    specificity_interval: Interval | None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRate:
    """The rate at which the judge would pass traces, from those that it judged and a free guess about all.

    `interval` holds the rate at 95 %, and so does `of_sample`, which rests on the judged traces alone and is never
    narrower. `trust` is how far the guesses count, in [0, 1]: 0 if they do not help. It says nothing of the judge's
    errors.
    """

    estimate: float
    interval: Interval
    of_sample: Interval
    trust: float


def pass_rate(traces: Iterable[JudgedTrace]) -> PassRate:
    """Estimate the rate at which traces such as these pass, as people would judge them."""
    table = _Table(list(traces))
    labelled = int(table.is_labelled.sum())
    estimator: RateEstimator = "uncorrected"
    estimate: float | None
    reason = interval = sequence = None
    if labelled >= MIN_LABELS:
        estimator = "ppi" if labelled >= MIN_CORRECTED else "labels"
        estimate, variance = _corrected(table)
        sessions = table.labelled_sessions
        worth = _worth(table, estimate, variance, units=sessions)
        if estimator == "ppi":
            # By t over sessions, which allows for few sessions.
            interval = wilson(estimate, _worth(table, estimate, variance, units=labelled), units=sessions)
        else:
            interval = jeffreys(estimate, worth)
        at_any_time = confidence_sequence(estimate, worth)
        sequence = min(at_any_time[0], interval[0]), max(at_any_time[1], interval[1])
    else:
        estimate = float(table.passed.mean()) if table.passed.size else None
        reason = f"{labelled} labels: {MIN_LABELS} are needed for an interval"
    rate = table.judge_told_apart()
    sensitivity, sensitivity_interval = rate.get("sensitivity", (None, None))
    specificity, specificity_interval = rate.get("specificity", (None, None))
    return PassRate(
        estimate=estimate,
        interval=interval,
        sequence=sequence,
        estimator=estimator,
        judged=len(table.passed),
        labelled=labelled,
        sensitivity=sensitivity,
        sensitivity_interval=sensitivity_interval,
        specificity=specificity,
        specificity_interval=specificity_interval,
        reason=reason,
    )


def judged_rate(traces: Sequence[JudgedTrace]) -> JudgedRate:
    """Estimate the rate at which the judge passes traces such as these, two of which have a label at least.

    Here `label` is the judge's verdict, and `passed` the guessed chance of it. The guess about a session must not rest
    on its own verdict (cross-prediction: Zrnic and Candès 2024, "Cross-prediction-powered inference", PNAS 121). The
    guesses are left out where they do not make the interval narrower.
    """
    with_guesses, alone = _Table(traces), _Table([replace(trace, passed=0.0) for trace in traces])
    found = [_judged(table) for table in (with_guesses, alone)]
    (estimate, interval), (plain, of_sample) = found
    if interval[1] - interval[0] > _HELPS * (of_sample[1] - of_sample[0]):
        return JudgedRate(estimate=plain, interval=of_sample, of_sample=of_sample, trust=0.0)
    trust = _power_tuned(with_guesses)[1]
    return JudgedRate(estimate=estimate, interval=interval, of_sample=of_sample, trust=trust)


def _judged(table: "_Table") -> tuple[float, Interval]:
    estimate, variance = _corrected(table)
    worth = _worth(table, estimate, variance, units=int(table.is_labelled.sum()))
    return estimate, wilson(estimate, worth, units=table.labelled_sessions)


class _Table:
    """The traces as columns. Traces without a label have the `weight` 0, and their `label` has no meaning."""

    def __init__(self, traces: Sequence[JudgedTrace]) -> None:
        self.passed = np.array([trace.passed for trace in traces], dtype=np.float64)
        self.is_labelled = np.array([trace.label is not None for trace in traces], dtype=bool)
        self.label = np.array([bool(trace.label) for trace in traces], dtype=np.float64)
        self.weight = self.is_labelled / np.array([trace.probability for trace in traces])
        _, self._session = np.unique([trace.session_id for trace in traces], return_inverse=True)

    @property
    def labelled_sessions(self) -> int:
        return len(np.unique(self._session[self.is_labelled]))

    @property
    def worth(self) -> float:
        """The number of labels, drawn with equal chances, that tell as much as these.

        See Kish 1965, "Survey Sampling", section 11.7.
        """
        return float(self.weight.sum() ** 2 / (self.weight @ self.weight))

    def labelled_mean(self, values: Floats) -> float:
        """Return the mean over all traces, estimated from the labelled ones."""
        # Ones / (ones + zeros), and not / the sum of weights: rounding must not keep a rate of 1 just below 1.
        ones = self.weight @ values
        return float(ones / (ones + self.weight @ (1.0 - values)))

    def by_session(self, values: Floats) -> Floats:
        """Return the sum of the traces' parts for each session."""
        return np.bincount(self._session, values).astype(np.float64)

    def label_parts(self, values: Floats) -> Floats:
        """Return how much each trace adds to the error of `labelled_mean`."""
        parts: Floats = self.weight * (values - self.labelled_mean(values)) / self.weight.sum()
        return parts

    def judge_told_apart(self) -> dict[str, tuple[float, Interval]]:
        """Return the judge's sensitivity and specificity with their intervals. One with too few labels is left out."""
        labelled = self.is_labelled
        passes = self.label[labelled] > 0
        labels = {"sensitivity": np.count_nonzero(passes), "specificity": np.count_nonzero(~passes)}
        if max(labels.values()) < ENOUGH:
            return {}
        _, session = np.unique(self._session[labelled], return_inverse=True)
        figures = CrossTable(self.passed[labelled] > 0, passes, session, self.weight[labelled]).figures()
        return {name: figures[name] for name, count in labels.items() if count >= ENOUGH}


def _corrected(table: _Table) -> tuple[float, float]:
    """Return the rate, corrected by the labels, and its variance.

    If the chances to be labelled are those of the two verdicts, the rate is that of the labels. Then the judge's
    verdicts only make it more certain.
    """
    estimate, _, variance = _power_tuned(table)
    sessions = max(table.labelled_sessions, 2)
    return min(1.0, max(0.0, estimate)), variance * sessions / (sessions - 1)


def _worth(table: _Table, estimate: float, variance: float, units: int) -> float:
    """Return the number of independent labels that alone would have this variance and one more error of the judge.

    The error is one in that many `units`. The number is smaller if labels of a session are alike or were drawn with
    unequal chances, and larger the better the judge is.
    """
    alike = np.count_nonzero(table.is_labelled) / units
    variance += _MORE_ERRORS * alike / units / table.worth
    # At a rate of 0 or 1 the number would be 0, so the rate is first moved off the edge.
    off_edge = (estimate * units + 1) / (units + 2)
    return float(off_edge * (1 - off_edge) / variance)


def _power_tuned(table: _Table) -> tuple[float, float, float]:
    """Return the corrected rate, the trust in the judge, and the rate's variance.

    The trust is in [0, 1]. With 0 the rate rests on the labels alone, with 1 the whole judged rate enters.
    """
    judged = table.passed.mean()
    of_judge = table.by_session((table.passed - judged) / len(table.passed) - table.label_parts(table.passed))
    of_labels = table.by_session(table.label_parts(table.label))
    spread = of_judge @ of_judge
    # The value that makes the variance of trust x of_judge + of_labels smallest.
    trust = float(np.clip(-(of_judge @ of_labels) / spread, 0.0, 1.0)) if spread else 0.0
    estimate = table.labelled_mean(table.label) + trust * (judged - table.labelled_mean(table.passed))
    error = trust * of_judge + of_labels
    return float(estimate), trust, float(error @ error)


def jeffreys(rate: float, worth: float) -> Interval:
    """Return Jeffreys' interval of `LEVEL` for a rate that tells as much as `worth` independent trials."""
    tails = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    low, high = (float(betaincinv(worth * rate + 0.5, worth * (1 - rate) + 0.5, tail)) for tail in tails)
    return 0.0 if rate == 0.0 else low, 1.0 if rate == 1.0 else high
