"""The confidence sequence: it holds the rate at all looks together, and its bounds are where the evidence says."""

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln

from benchmarks.coverage import JUDGES, sequence_misses
from otel_agenteval.metrics.confidence_sequence import confidence_sequence, log_evidence
from otel_agenteval.metrics.pass_rate import jeffreys

ENOUGH = log(20)
LOOKS = 300


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.5, 0.9, 0.99])
def test_the_chance_that_it_ever_loses_the_rate_is_at_most_five_percent(rate: float) -> None:
    """The chance is computed exactly, look by look, over all ways in which the trials can end."""
    still = np.array([1.0])  # The chance of each number of passes, without those in which the rate was lost before.
    lost = 0.0
    for trials in range(1, LOOKS + 1):
        still = np.append(still * (1 - rate), 0.0) + np.append(0.0, still * rate)
        is_lost = np.array([log_evidence(rate, passes, trials - passes) >= ENOUGH for passes in range(trials + 1)])
        lost += float(still[is_lost].sum())
        still[is_lost] = 0.0
    assert 0.001 < lost <= 0.05


@pytest.mark.parametrize(("passes", "failures"), [(0, 20), (20, 0), (3, 17), (45, 5), (12.5, 7.25)])
def test_its_bounds_are_those_of_the_mixture_added_up_rate_by_rate(passes: float, failures: float) -> None:
    low, high = confidence_sequence(passes / (passes + failures), passes + failures)
    odds = np.linspace(-400, 40, 40_001) if not passes else np.linspace(-40, 400, 40_001)
    log_rates, log_rests = -np.logaddexp(0, -odds), -np.logaddexp(0, odds)
    for rate in np.linspace(0.01, 0.99, 99).tolist():
        a, b = 5 * rate, 5 * (1 - rate)
        # The density of the log odds of a rate that has a beta distribution.
        density = a * log_rates + b * log_rests - (gammaln(a) + gammaln(b) - gammaln(a + b))
        ratio = passes * (log_rates - log(rate)) + failures * (log_rests - log(1 - rate))
        mixture = float(np.exp(density + ratio).sum() * (odds[1] - odds[0]))
        assert (low <= rate <= high) is (mixture < 20), rate


@given(st.floats(0, 1), st.floats(1, 1e6))
def test_it_is_an_interval_around_the_rate(rate: float, worth: float) -> None:
    low, high = confidence_sequence(rate, worth)
    assert 0.0 <= low <= rate <= high <= 1.0
    assert high - low > 0


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9, 0.95])
@pytest.mark.parametrize("worth", [20, 50, 100, 300])
def test_looking_at_any_time_costs_half_of_the_width_again_and_not_more_than_two_thirds(
    rate: float, worth: float
) -> None:
    (low, high), (least, most) = confidence_sequence(rate, worth), jeffreys(rate, worth)
    assert 1.5 < (high - low) / (most - least) < 1.67


@pytest.mark.slow  # A simulation.
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("rate", "judge", "alike"), [(0.9, JUDGES[2], 0.5), (0.95, JUDGES[3], 0.5), (0.7, JUDGES[1], 0.0)]
)
def test_the_rate_stays_in_it_while_labels_come_in(rate: float, judge: tuple[float, float], alike: float) -> None:
    random = np.random.default_rng(31)
    misses = [sequence_misses(random, rate, judge, alike=alike) for _ in range(60)]
    assert sum(misses) <= 3
